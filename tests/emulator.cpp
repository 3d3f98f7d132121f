// Runs the CUDA kernels on the CPU: every thread of a block is a fiber, and a warp's instructions
// wait for all its lanes. Fibers take turns in an order that changes, so that a kernel which relies
// on an order it did not ask for (a missing __syncwarp) gives wrong results here, too.
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
using std::max;
using std::min;

struct Three {
    int x = 0, y = 0, z = 0;
};
static Three threadIdx, blockIdx, blockDim;
double shared[1 << 16];

namespace emulator {
const int LARGEST = 512, STACK = 1 << 17;
struct Fiber {
    jmp_buf state;
    bool begun, done;
    int waits;  // 0 runs, 1 waits for its warp, 2 for its block
    int turn;
    std::vector<char> stack;
};
static Fiber fibers[LARGEST];
static jmp_buf scheduler;
static int current;
static uint64_t slots[LARGEST][2];
static void (*body)();
static uint32_t chance = 1;

static void leave() {
    if (!_setjmp(fibers[current].state)) _longjmp(scheduler, 1);
}

static void enter() {
    body();
    fibers[current].done = true;
    _longjmp(scheduler, 1);
}

static void wait(int what) {
    fibers[current].waits = what;
    leave();
}

template <class T>
T *exchange(T value) {
    // Two buffers in turn: a lane writes the first again only when all have read it.
    static T seen[LARGEST][32];
    Fiber &self = fibers[current];
    int turn = self.turn++ & 1;
    std::memcpy(&slots[current][turn], &value, sizeof value);
    wait(1);
    T *mine = seen[current];
    for (int lane = 0; lane < 32; lane++) std::memcpy(&mine[lane], &slots[current / 32 * 32 + lane][turn], sizeof value);
    return mine;
}

static void run_block(int threads) {
    std::vector<int> order(threads);
    static ucontext_t context, back;
    for (int at = 0; at < threads; at++) {
        order[at] = at;
        fibers[at].stack.resize(STACK);
        fibers[at].begun = fibers[at].done = false;
        fibers[at].waits = fibers[at].turn = 0;
    }
    volatile int left = threads;
    while (left) {
        for (int at = threads - 1; at > 0; at--) {
            chance = chance * 1664525u + 1013904223u;
            std::swap(order[at], order[(chance >> 8) % (at + 1)]);
        }
        for (volatile int at = 0; at < threads; at = at + 1) {
            Fiber &fiber = fibers[order[at]];
            if (fiber.done || fiber.waits) continue;
            current = order[at];
            threadIdx.x = current;
            if (!_setjmp(scheduler)) {
                if (fiber.begun) _longjmp(fiber.state, 1);
                fiber.begun = true;
                getcontext(&context);
                context.uc_stack.ss_sp = fiber.stack.data();
                context.uc_stack.ss_size = STACK;
                context.uc_link = &back;
                makecontext(&context, enter, 0);
                setcontext(&context);
            }
            if (fibers[current].done) left = left - 1;
        }
        bool all = true;
        for (int warp = 0; warp < threads; warp += 32) {
            bool ready = true;
            for (int at = warp; at < std::min(warp + 32, threads); at++) {
                ready = ready && (fibers[at].done || fibers[at].waits == 1);
                all = all && (fibers[at].done || fibers[at].waits == 2);
            }
            for (int at = warp; ready && at < std::min(warp + 32, threads); at++) fibers[at].waits = 0;
        }
        for (int at = 0; all && at < threads; at++) fibers[at].waits = 0;
    }
}

static void **arguments;
template <class... A, size_t... I>
void call(void (*kernel)(A...), std::index_sequence<I...>) {
    kernel(*(A *)arguments[I]...);
}
template <class... A>
void call(void (*kernel)(A...)) {
    call(kernel, std::index_sequence_for<A...>());
}
}  // namespace emulator

#define WARP(value) emulator::exchange(value)
static int lane_number() { return emulator::current % 32; }
static void __syncwarp() { WARP(0); }
static void __syncthreads() { emulator::wait(2); }
static unsigned __ballot_sync(unsigned, bool on) {
    int *all = WARP((int)on);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++) bits |= (unsigned)(all[lane] != 0) << lane;
    return bits;
}
static bool __any_sync(unsigned mask, bool on) { return __ballot_sync(mask, on) != 0; }
template <class T>
T __shfl_sync(unsigned, T value, int from) { return WARP(value)[from]; }
template <class T>
T __shfl_xor_sync(unsigned, T value, int step) { return WARP(value)[lane_number() ^ step]; }
template <class T>
T __shfl_up_sync(unsigned, T value, int step) {
    T *all = WARP(value);
    return all[lane_number() >= step ? lane_number() - step : lane_number()];
}
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static int __ffs(int bits) { return __builtin_ffs(bits); }
template <class T>
T atomicAdd(T *at, T value) {
    T before = *at;
    *at += value;
    return before;
}
static void atomicOr(unsigned *at, unsigned bits) { *at |= bits; }

#include KERNELS

extern "C" void launch(const char *name, const int *grid, int threads, void **arguments) {
    using namespace emulator;
    emulator::arguments = arguments;
    std::string wanted = name;
#define KERNEL(kernel) \
    if (wanted == #kernel) body = [] { call(kernel); };
    KERNEL(describe_rows)
    KERNEL(rank_edges)
    KERNEL(bound_first)
    KERNEL(bound_next)
    KERNEL(solve_pairs)
    KERNEL(limit_rates)
    KERNEL(weigh_nodes)
    blockDim.x = threads;
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) {
                std::memset(shared, 0xa5, sizeof shared);
                run_block(threads);
            }
}
