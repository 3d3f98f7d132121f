// What happens between the matrix products of spread flows (../spreading.py says what and why): one
// block a sink. Sums are taken in the same order every time, so that a call can be repeated.

#define LEAST 1e-300     // these are those of spreading.py
#define SMALLEST 1e-100
#define LESS 0.8
#define STEPS 50
#define CLOSE (1 + 1e-15)
#define WARPS 32  // at most, in a block

__device__ __forceinline__ double ratio(double above, double below) {
    return below > 0.0 ? above / fmax(below, LEAST) : 0.0;
}

// The largest value of all threads up to this one; `all` is that of the whole block. `each` has a
// place for every warp.
__device__ double block_max(double value, double *each, double &all) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    for (int step = 1; step < LANES; step <<= 1) {
        double other = __shfl_up_sync(EVERY, value, step);
        if (lane >= step) value = fmax(value, other);
    }
    if (lane == LANES - 1) each[warp] = value;
    __syncthreads();
    all = 0.0;
    for (int at = 0; at < warps; at++) {
        if (at < warp) value = fmax(value, each[at]);
        all = fmax(all, each[at]);
    }
    __syncthreads();
    return value;
}

// The rate at which one warp's row sends its amount if no edge takes more than its capacity, by
// Newton's method from below; `most` is all that it can send.
__device__ double limited_rate(
    const double *row, const double *weights, int end, double amount, double rate, double &most) {
    int lane = threadIdx.x % LANES;
    for (int step = 0; step < STEPS; step++) {
        double growing = 0.0, filled = 0.0, all = 0.0;
        for (int key = lane; key < end; key += LANES) {
            double weight = weights[key], edge = row[key];
            bool limited = rate * weight >= 1.0;
            growing += limited ? 0.0 : edge * weight;
            filled += limited ? edge : 0.0;
            all += weight > 0.0 ? edge : 0.0;
        }
        growing = warp_sum(growing);
        filled = warp_sum(filled);
        if (step == 0) most = warp_sum(all);
        double better = growing > 0.0 ? fmax(rate, (amount - filled) / fmax(growing, LEAST)) : rate;
        if (better <= rate * CLOSE) break;
        rate = better;
    }
    return rate;
}

// The rates of all nodes, and what arrives from those with full edges; `list` is of the sink, and
// has a rate and a node for each of these.
extern "C" __global__ void limit_rates(
    const double *layer, long long stride, double forget, const double *held, const double *weights, const double *products,
    double *sums, double *factors, double *rates, double *extra, double *list_rates, int *list_nodes, int size, int causal, int most_full) {
    extern __shared__ double shared[];
    double *each = shared;
    int *counts = (int *)(shared + WARPS);
    long long first = (long long)blockIdx.x * size;
    held += first, weights += first, products += first, sums += first, factors += first, rates += first, extra += first;
    list_rates += (long long)blockIdx.x * most_full;
    list_nodes += (long long)blockIdx.x * most_full;
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    double before = 0.0, all = 0.0;
    if (!causal) {
        for (int key = threadIdx.x; key < size; key += blockDim.x) before = fmax(before, weights[key]);
        block_max(before, each, all);
        before = all;
    }
    int found = 0;
    for (int start = 0; start < size; start += blockDim.x) {
        int node = start + threadIdx.x;
        bool on = node < size;
        double largest = before;
        if (causal) {
            largest = fmax(before, block_max(on ? weights[node] : 0.0, each, all));
            before = fmax(before, all);
        }
        double rate = on ? ratio(held[node], products[node]) : 0.0;
        bool full = rate * largest > 1.0;
        // The place of each in the list is the number of those before.
        u32 bits = __ballot_sync(EVERY, full);
        if (lane == 0) counts[warp] = __popc(bits);
        __syncthreads();
        int place = found + __popc(bits & lanes_before(lane));
        for (int at = 0; at < warps; at++) {
            if (at < warp) place += counts[at];
            found += counts[at];
        }
        __syncthreads();
        if (full && place < most_full) {
            list_rates[place] = rate;
            list_nodes[place] = node;
        }
        if (on) {
            rates[node] = full ? 0.0 : rate;
            if (factors[node] != 1.0) factors[node] = pow(factors[node], 1 - forget);
            extra[node] = 0.0;
        }
    }
    found = min(found, most_full);
    if (!found) return;
    __syncthreads();
    for (int at = warp; at < found; at += warps) {
        int node = list_nodes[at];
        double even = list_rates[at], amount = held[node], most = 0.0;
        double rate = limited_rate(layer + node * stride, weights, causal ? node + 1 : size, amount, even, most);
        __syncwarp();
        if (lane == 0) {
            list_rates[at] = rate;
            if (most < amount) sums[node] *= amount / most / LESS;
            else factors[node] *= pow(even / rate, forget);
        }
    }
    __syncthreads();
    for (int at = 0; at < found; at++) {
        int node = list_nodes[at], end = causal ? node + 1 : size;
        double rate = list_rates[at];
        const double *row = layer + node * stride;
        for (int key = threadIdx.x; key < end; key += blockDim.x) extra[key] += row[key] * fmin(1.0, rate * weights[key]);
    }
}

// The weights of nodes by what they lead to, beside the largest of the sink.
extern "C" __global__ void weigh_nodes(const double *products, const double *sums, const double *factors, double *into, int size) {
    extern __shared__ double shared[];
    long long first = (long long)blockIdx.x * size;
    double largest = 0.0, all;
    for (int node = threadIdx.x; node < size; node += blockDim.x)
        largest = fmax(largest, ratio(products[first + node], sums[first + node]) * factors[first + node]);
    block_max(largest, shared, all);
    for (int node = threadIdx.x; node < size; node += blockDim.x) {
        double weight = ratio(ratio(products[first + node], sums[first + node]) * factors[first + node], all);
        into[first + node] = weight < SMALLEST ? 0.0 : weight;
    }
}
