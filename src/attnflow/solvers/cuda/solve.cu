// Many maximum flows: each warp takes the next pair until none is left.

#define CLOSED_FORM 0
#define BOUND_MET 1
#define CUT_FOUND 2
#define NO_ROOM 3     // the lists were full
#define UNFINISHED 4  // the waves did not end
#define LOOK_EVERY 32 // pairs: how often a warp looks whether the host says stop

// Divides a warp's memory; `bytes` of it is what `device.py` counts.
__device__ void lay_out(Network &net, const Graph &graph, char *memory, double *shared, int blocks) {
    long long nodes = (long long)(graph.depth + 1) * graph.size;
    long long bits = (long long)(graph.depth + 1) * graph.words;
    net.blocks = blocks;
    net.stages = graph.depth + 2;
    double *real = (double *)memory;
    net.excess = real;
    net.to_sink = net.excess + nodes;
    net.to_own = net.to_sink + nodes;
    net.demand = net.to_own + nodes;
    net.flows = net.demand + graph.size;
    int *whole = (int *)(net.flows + (long long)blocks * LANES);
    net.head = whole;
    net.tail = net.head + nodes;
    net.length = net.tail + nodes;
    net.queue = net.length + nodes;
    net.segments = net.queue + nodes;
    net.segment_below = net.segments + nodes;
    net.segment_above = net.segment_below + nodes;
    net.latest = net.segment_above + nodes;
    net.next = net.latest + 2 * net.stages;
    net.reached = (u32 *)(net.next + blocks);
    net.front = net.reached + bits;
    net.front_next = net.front + bits;
    net.keys = (u16 *)(net.front_next + bits);
    net.level = net.keys + (long long)blocks * LANES;
    net.above = shared;
    net.below = net.above + graph.size;
    net.place = (int *)(net.below + graph.size);
    net.open = (u32 *)(net.place + graph.size);
    net.found = net.open + graph.words;
}

// Waves until the bound is met or nothing more gets through; returns how the value was proven.
__device__ int maximize(Network &net, const double *supply, double bound, double &value, double &gap) {
    long long most = 4LL * net.top * net.size + 64;
    for (long long wave = 0; wave < most; wave++) {
        gap = bound - value;
        if (net.full) return NO_ROOM;
        if (value >= bound - MET) return BOUND_MET;
        if (!measure(net)) {
            gap = cut_capacity(net, supply) - value;
            return CUT_FOUND;
        }
        value += send_wave(net);
    }
    return UNFINISHED;
}

__device__ int solve_pair(Network &net, const double *supply, const int *order, int layer, int columns_from, double &value, double &gap) {
    gap = 0.0;
    if (layer == 1) {
        value = supply[net.sink];
        return CLOSED_FORM;
    }
    double reached = 0.0, demanded = 0.0;
    const double *reach = net.reach + (net.top - 1) * net.reach_stride;
    for (int key = net.low + net.lane; key < net.high; key += LANES) {
        net.above[key] = supply[key];
        reached += fmin(supply[key], reach[key]);
        demanded += net.reach[key];
    }
    value = warp_sum(reached);
    if (layer == 2) return CLOSED_FORM;
    double bound = fmin(value, warp_sum(demanded));
    if (bound <= NEGLIGIBLE) {  // as for every sink that is padding
        value = 0.0;
        gap = bound;
        return BOUND_MET;
    }
    for (int word = net.lane; word < net.words; word += LANES) net.open[word] = 0;
    __syncwarp();
    net.used = net.full = 0;
    value = pour(net, order, layer >= columns_from);
    return maximize(net, supply, bound, value, gap);
}

extern "C" __global__ void solve_pairs(
    const Graph *given, const Pairs *asked, u64 *taken, const volatile int *stop, char *memory, long long bytes, int blocks, int columns_from) {
    extern __shared__ double shared[];
    Graph graph = *given;
    Pairs pairs = *asked;
    Network net;
    net.lane = threadIdx.x;
    net.size = graph.size;
    net.words = graph.words;
    net.layer_stride = graph.layer_stride;
    net.reach_stride = (long long)pairs.items * pairs.slots * graph.size;
    lay_out(net, graph, memory + blockIdx.x * bytes, shared, blocks);
    for (int key = net.lane; key < net.size; key += LANES) net.place[key] = 0;
    while (true) {
        u64 turn = 0;
        if (net.lane == 0) {
            turn = atomicAdd(taken, 1ULL);
            // The host's memory is a microsecond away, for one warp after the other: few look there,
            // and one that is told to stop takes all pairs that are left.
            if (turn % LOOK_EVERY == 0 && *stop) {
                atomicAdd(taken, (u64)pairs.count);
                turn = pairs.count;
            }
        }
        turn = __shfl_sync(EVERY, turn, 0);
        if (turn >= (u64)pairs.count) return;
        long long job = pairs.jobs ? pairs.jobs[turn] : (long long)turn;
        int source = (int)(job % pairs.sources), slot = (int)(job / pairs.sources % pairs.slots);
        int item = (int)(job / pairs.sources / pairs.slots), layer = pairs.layers[source];
        long long rows = (long long)item * graph.depth * graph.size, at = (long long)item * pairs.sources + source;
        const double *supply = pairs.edges + at * graph.size;
        net.weights = graph.weights + item * graph.item_stride;
        net.own = graph.own + rows;
        net.sums = graph.sums + rows;
        net.usable = graph.usable + rows * graph.words;
        net.reach = pairs.reach + ((long long)item * pairs.slots + slot) * graph.size;
        net.share = pairs.share + ((long long)item * pairs.slots + slot) * graph.size;
        net.sink = pairs.sinks[slot];
        net.top = layer - 1;
        // In a causal graph nothing before the sink reaches it, nothing passes the last edge.
        net.low = 0;
        net.high = net.size;
        if (!graph.above[item]) {
            net.low = net.sink;
            int last = -1;
            for (int key = net.lane; key < net.size; key += LANES)
                if (supply[key] > 0.0) last = key;
            for (int step = 16; step; step >>= 1) last = max(last, __shfl_xor_sync(EVERY, last, step));
            net.high = max(net.low + 1, last + 1);
        }
        double value, gap;
        int proof = solve_pair(net, supply, pairs.order + at * graph.size, layer, columns_from, value, gap);
        if (net.lane == 0) {
            pairs.values[job] = value;
            pairs.gaps[job] = gap;
            pairs.proofs[job] = (u8)proof;
        }
        __syncwarp();
    }
}
