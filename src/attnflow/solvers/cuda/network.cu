// The flow network of one warp: what one pair changes, and nothing of the size of the graph.
//
// Nodes are (layer, position); edge (layer, query, key) runs from (layer + 1, query) to (layer, key).
// The source's edges are `excess` on layer `top`, the sink's are `demand` on layer 1, so that only
// layers 1 to `top` are searched. A row is the edges of one node: number layer · size + query.
//
// Flow is kept by rows. The edge to the sink's column and the one to the own column, which nearly
// every node uses, have a place of their own; all others are in a list of blocks of 32 entries, one
// for each lane. A list that finds no more blocks sets `full`: the pair is solved again with more.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define EVERY 0xffffffffu
#define NEGLIGIBLE 1e-15  // as on the CPU: a capacity that carries nothing
#define MET 1e-12         // as on the CPU: a flow this close to its bound is the maximum
#define SATURATED 0x8000  // in the key of an entry
#define LANES 32

struct Graph {
    const double *weights;  // [layer, item, query, key]; strides of the first two are given
    const double *own;      // [item, layer, query], the edge to the own column
    const double *sums;     // [item, layer, query], of all edges of the row
    const u32 *usable;      // [item, layer, query, word], a bit for each edge that carries anything
    const int *above;       // [item], whether an edge leads to a later position: not causal
    long long layer_stride, item_stride;
    int depth, size, words;
};

struct Pairs {
    const double *edges;  // [item, source, key]
    const int *order;     // [item, source, rank], keys by falling edge
    const int *layers;    // [source], counted from the sinks'
    const int *sinks;     // [slot]
    const double *reach;  // [layer − 1, item, slot, position], see bounds.cu
    const double *share;
    double *values;       // [item, slot, source]
    double *gaps;
    u8 *proofs;
    const long long *jobs;  // which pairs; null is all
    long long count;
    int items, sources, slots;
};

struct Row {  // the list of one row, while a warp works on it
    int number, head, tail, count;
};

struct Network {
    const double *weights, *own, *sums, *reach, *share;
    const u32 *usable;
    long long layer_stride, reach_stride;
    int size, words, stages, top, sink, low, high, lane;
    // memory of the warp, by what it holds
    double *excess, *demand, *to_sink, *to_own, *flows;
    u16 *keys, *level;
    int *next, *head, *tail, *length, *queue, *segments, *segment_below, *segment_above, *latest;
    u32 *reached, *front, *front_next;
    int blocks, used, full, queued, segmented;
    // shared memory
    double *above, *below;
    int *place;
    u32 *open, *found;
};

__device__ __forceinline__ double warp_sum(double value) {
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(EVERY, value, step);
    return value;
}

__device__ __forceinline__ double warp_scan(double value, int lane) {
    for (int step = 1; step < LANES; step <<= 1) {
        double other = __shfl_up_sync(EVERY, value, step);
        if (lane >= step) value += other;
    }
    return value;
}

// What each lane gives of its `amount` when `left` is to be given in all, the first lanes first.
__device__ __forceinline__ double portion(double amount, double &left, int lane) {
    double until = warp_scan(amount, lane);
    double total = __shfl_sync(EVERY, until, LANES - 1);
    double give = amount;
    if (total > left) give = fmin(fmax(left - (until - amount), 0.0), amount);
    left -= fmin(total, left);
    return give > NEGLIGIBLE ? give : 0.0;
}

__device__ __forceinline__ u32 lanes_before(int lane) { return (1u << lane) - 1u; }

__device__ __forceinline__ bool inside(const Network &net, int position) {
    return position >= net.low && position < net.high;
}

__device__ __forceinline__ const double *row_weights(const Network &net, int layer, int query) {
    return net.weights + layer * net.layer_stride + (long long)query * net.size;
}

__device__ __forceinline__ Row open_list(const Network &net, int number) {
    Row row;
    row.number = number;
    row.count = net.length[number];
    row.head = row.count ? net.head[number] : -1;
    row.tail = row.count ? net.tail[number] : -1;
    return row;
}

// Where in the list the edges of a row are: `place` is 0 for an edge that is not there.
__device__ __forceinline__ void mark_places(const Network &net, const Row &row, bool known) {
    int block = row.head;
    for (int done = 0; done < row.count; done += LANES) {
        int entry = block * LANES + net.lane;
        if (done + net.lane < row.count) net.place[net.keys[entry] & ~SATURATED] = known ? entry + 1 : 0;
        block = net.next[block];
    }
    __syncwarp();
}

__device__ __forceinline__ void close_list(const Network &net, const Row &row) {
    __syncwarp();
    if (net.lane == 0) {
        net.head[row.number] = row.head;
        net.tail[row.number] = row.tail;
        net.length[row.number] = row.count;
    }
    __syncwarp();
}

// Adds the flow that lanes `give` over edges of the row to `key`; `entry` is the place in the list.
__device__ __forceinline__ void add_flow(
    Network &net, Row &row, int key, double give, double capacity, int entry) {
    bool gives = give > 0.0;
    if (gives && entry) {
        double flow = net.flows[entry - 1] + give;
        net.flows[entry - 1] = flow;
        net.keys[entry - 1] = (u16)(key | (capacity - flow <= NEGLIGIBLE ? SATURATED : 0));
    }
    bool fresh = gives && !entry;
    u32 all = __ballot_sync(EVERY, fresh);
    if (!all) return;
    int offset = row.count & (LANES - 1), added = __popc(all), block = row.tail, other = -1;
    if (offset == 0 || offset + added > LANES) {
        if (net.used >= net.blocks) {
            net.full = 1;
            return;
        }
        other = net.used++;
        if (net.lane == 0) {
            net.next[other] = -1;
            if (block >= 0) net.next[block] = other;
        }
        if (row.count == 0) row.head = other;
        row.tail = other;
    }
    int at = offset + __popc(all & lanes_before(net.lane));
    // The block before is full when the offset is 0: everything goes to the new one.
    bool spill = offset == 0 || at >= LANES;
    if (fresh) {
        int into = (spill ? other : block) * LANES + (at & (LANES - 1));
        net.flows[into] = give;
        net.keys[into] = (u16)(key | (capacity - give <= NEGLIGIBLE ? SATURATED : 0));
    }
    row.count += added;
}
