// What the solver needs to know of a graph and of its sinks, as on the CPU (cpu/pairs.py).

// One warp a row: its sum, its edge to its own column, which edges carry anything.
extern "C" __global__ void describe_rows(const Graph *given, double *own, double *sums, u32 *usable, int *above, int items) {
    Graph graph = *given;
    int lane = threadIdx.x % LANES;
    long long row = (long long)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (row >= (long long)items * graph.depth * graph.size) return;
    int query = (int)(row % graph.size), layer = (int)(row / graph.size % graph.depth), item = (int)(row / graph.size / graph.depth);
    const double *capacity = graph.weights + layer * graph.layer_stride + item * graph.item_stride + (long long)query * graph.size;
    double total = 0.0;
    bool later = false;
    for (int word = 0; word < graph.words; word++) {
        int key = word * LANES + lane;
        double edge = key < graph.size ? capacity[key] : 0.0;
        u32 bits = __ballot_sync(EVERY, edge > NEGLIGIBLE);
        if (lane == 0) usable[row * graph.words + word] = bits;
        total += edge;
        later = later || (key > query && edge != 0.0);
    }
    total = warp_sum(total);
    if (__any_sync(EVERY, later) && lane == 0) above[item] = 1;
    if (lane == 0) {
        sums[row] = total;
        own[row] = capacity[query];
    }
}

// One thread an edge of a source: its rank among them, the largest first.
extern "C" __global__ void rank_edges(const double *edges, int *order, long long count, int size) {
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count * size) return;
    const double *row = edges + at / size * size;
    int mine = (int)(at % size), rank = 0;
    double edge = row[mine];
    for (int key = 0; key < size; key++) rank += row[key] > edge || (row[key] == edge && key < mine);
    order[at / size * size + rank] = mine;
}

// One warp a sink: the bounds of layer 1 are its edges, and their sum caps all others.
extern "C" __global__ void bound_first(const Graph *given, const int *sinks, int slots, int items, double *reach, double *share, double *whole) {
    Graph graph = *given;
    int lane = threadIdx.x % LANES, target = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (target >= items * slots) return;
    const double *capacity = graph.weights + target / slots * graph.item_stride + sinks[target % slots];
    double total = 0.0;
    for (int query = lane; query < graph.size; query += LANES) {
        double edge = capacity[(long long)query * graph.size];
        reach[(long long)target * graph.size + query] = share[(long long)target * graph.size + query] = edge;
        total += edge;
    }
    total = warp_sum(total);
    if (lane == 0) whole[target] = total;
}

#define TILE 64
#define STEP 16
#define EACH 4  // a block of 16 × 16 threads, each with 4 × 4 results

// The bounds of layer + 1 from those of `layer`: like a matrix product, with the minimum for the
// product. Blocks are tiles of sinks × positions of one item; operands pass through shared memory.
extern "C" __global__ void bound_next(
    const Graph *given, const int *sinks, int slots, int items, int layer, double *reach, double *share, const double *whole) {
    extern __shared__ double shared[];
    double(*rows)[TILE + 1] = (double(*)[TILE + 1]) shared;
    double(*caps)[TILE + 1] = rows + STEP;
    Graph graph = *given;
    int size = graph.size, item = blockIdx.z, first_slot = blockIdx.y * TILE, first_query = blockIdx.x * TILE;
    long long stride = (long long)items * slots * size, targets = (long long)item * slots;
    const double *lower = reach + (layer - 1) * stride, *modest = share + (layer - 1) * stride;
    const double *capacity = graph.weights + layer * graph.layer_stride + item * graph.item_stride;
    int begin = 0, end = size;
    if (!graph.above[item]) {
        begin = size;
        for (int slot = first_slot; slot < min(first_slot + TILE, slots); slot++) begin = min(begin, sinks[slot]);
        end = min(size, first_query + TILE);
    }
    double sum[EACH][EACH] = {};
    int column = threadIdx.x % 16, line = threadIdx.x / 16;
    for (int start = begin; start < end; start += STEP) {
        for (int at = threadIdx.x; at < TILE * STEP; at += blockDim.x) {
            int of = at / STEP, step = at % STEP, key = start + step;
            int query = first_query + of, slot = first_slot + of;
            rows[step][of] = query < size && key < end ? capacity[(long long)query * size + key] : 0.0;
            caps[step][of] = slot < slots && key < end ? lower[(targets + slot) * size + key] : 0.0;
        }
        __syncthreads();
        for (int step = 0; step < STEP; step++)
            for (int y = 0; y < EACH; y++)
                for (int x = 0; x < EACH; x++)
                    sum[y][x] += fmin(rows[step][column + 16 * x], caps[step][line + 16 * y]);
        __syncthreads();
    }
    for (int y = 0; y < EACH; y++)
        for (int x = 0; x < EACH; x++) {
            int slot = first_slot + line + 16 * y, query = first_query + column + 16 * x;
            if (slot >= slots || query >= size) continue;
            long long at = (targets + slot) * size + query;
            int sink = sinks[slot];
            double most = fmin(sum[y][x], whole[targets + slot]);
            double side = query != sink ? capacity[(long long)query * size + sink] : 0.0;
            reach[layer * stride + at] = most;
            share[layer * stride + at] = fmin(most, modest[at] + side);
        }
}
