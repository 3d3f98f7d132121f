// The first flow, poured down the layers once, as on the CPU (cpu/pairs.py says why it is so).
//
// A row is poured 32 columns at a time: each lane offers what its edge and its column allow, and a
// scan over the lanes decides what is taken. `above` and `below` hold the excess of two layers.

// Pours into the sink's column, in the order of the source's edges, and then into the own columns.
__device__ void pour_columns(Network &net, int layer, const double *limit, const int *order) {
    const double *own = net.own + layer * net.size;
    double room = limit[net.sink] - net.below[net.sink], offered = room;
    for (int start = 0; start < net.size && room > NEGLIGIBLE; start += LANES) {
        int rank = start + net.lane, query = rank < net.size ? order[rank] : -1;
        int number = layer * net.size + query;
        double amount = 0.0;
        if (query >= net.low && query < net.high && net.above[query] > NEGLIGIBLE) {
            amount = fmin(net.above[query], row_weights(net, layer, query)[net.sink] - net.to_sink[number]);
            if (amount <= NEGLIGIBLE) amount = 0.0;
        }
        double give = portion(amount, room, net.lane);
        if (give > 0.0) {
            net.to_sink[number] += give;
            net.above[query] -= give;
        }
    }
    __syncwarp();
    if (net.lane == 0) net.below[net.sink] += offered - room;
    __syncwarp();
    for (int query = net.low + net.lane; query < net.high; query += LANES) {
        int number = layer * net.size + query;
        double give = fmin(net.above[query], fmin(own[query] - net.to_own[number], limit[query] - net.below[query]));
        if (query != net.sink && give > NEGLIGIBLE) {
            net.to_own[number] += give;
            net.above[query] -= give;
            net.below[query] += give;
        }
    }
    __syncwarp();
}

// Pours one row into the columns that are open, except the sink's and its own.
__device__ double pour_row(Network &net, int layer, int query, const double *limit, double left, bool fresh) {
    const double *capacity = row_weights(net, layer, query);
    Row row = open_list(net, layer * net.size + query);
    bool listed = !fresh && row.count > 0;
    if (listed) mark_places(net, row, true);
    Row before = row;
    for (int base = net.low >> 5; base < net.words && left > NEGLIGIBLE; base += LANES) {
        u32 mine = base + net.lane < net.words ? net.open[base + net.lane] : 0;
        u32 words = __ballot_sync(EVERY, mine != 0);
        while (words && left > NEGLIGIBLE) {
            int from = __ffs(words) - 1, key = (base + from) * LANES + net.lane;
            words &= words - 1;
            bool is_open = (__shfl_sync(EVERY, mine, from) >> net.lane) & 1;
            double room = 0.0, amount = 0.0, edge = 0.0;
            int entry = 0;
            if (is_open) {
                edge = capacity[key];
                room = limit[key] - net.below[key];
                entry = listed ? net.place[key] : 0;
                amount = fmin(edge - (entry ? net.flows[entry - 1] : 0.0), room);
                if (amount <= NEGLIGIBLE || key == net.sink || key == query) amount = 0.0;
            }
            double give = portion(amount, left, net.lane);
            add_flow(net, row, key, give, edge, entry);
            if (give > 0.0) {
                net.below[key] += give;
                room -= give;
            }
            u32 shut = __ballot_sync(EVERY, is_open && room <= NEGLIGIBLE);
            if (shut && net.lane == 0) net.open[base + from] &= ~shut;
            __syncwarp();
        }
    }
    if (listed) mark_places(net, before, false);
    if (row.count != before.count) close_list(net, row);
    return left;
}

// Pours all rows of a layer, by falling edge of the source, into its sink, its own column, others.
__device__ void pour_rows(Network &net, int layer, const double *limit, const int *order, bool generous, bool columns) {
    const double *own = net.own + layer * net.size;
    double sink_limit = limit[net.sink];
    for (int start = 0; start < net.size; start += LANES) {
        int rank = start + net.lane, mine = rank < net.size ? order[rank] : -1;
        bool active = mine >= net.low && mine < net.high && net.above[mine] > NEGLIGIBLE;
        int number = layer * net.size + mine;
        double sink_edge = 0.0, own_edge = 0.0, own_limit = 0.0;
        // Fetched for 32 rows at once: a row that waits for its own two edges would wait long.
        if (active && !columns) {
            sink_edge = row_weights(net, layer, mine)[net.sink] - net.to_sink[number];
            own_edge = own[mine] - net.to_own[number];
            own_limit = limit[mine];
        }
        u32 rows = __ballot_sync(EVERY, active);
        while (rows) {
            int from = __ffs(rows) - 1, query = __shfl_sync(EVERY, mine, from);
            rows &= rows - 1;
            double left = net.above[query];
            if (!columns) {
                double give = fmin(left, fmin(__shfl_sync(EVERY, sink_edge, from), sink_limit - net.below[net.sink]));
                double kept = left - (give > NEGLIGIBLE ? give : 0.0);
                double second = fmin(kept, fmin(__shfl_sync(EVERY, own_edge, from), __shfl_sync(EVERY, own_limit, from) - net.below[query]));
                __syncwarp();
                if (net.lane == from && give > NEGLIGIBLE) {
                    net.to_sink[number] += give;
                    net.below[net.sink] += give;
                }
                if (query != net.sink && second > NEGLIGIBLE) {
                    if (net.lane == from) {
                        net.to_own[number] += second;
                        net.below[query] += second;
                    }
                    kept -= second;
                }
                left = kept;
                __syncwarp();
            }
            if (left > NEGLIGIBLE) left = pour_row(net, layer, query, limit, left, !generous);
            __syncwarp();
            if (net.lane == 0) net.above[query] = left;
            __syncwarp();
        }
    }
}

// Sends the excess of the top layer down; returns what arrived at the sink.
__device__ double pour(Network &net, const int *order, bool columns) {
    for (int layer = net.top - 1; layer >= 1 && !net.full; layer--) {
        int first = layer * net.size;
        for (int key = net.low + net.lane; key < net.high; key += LANES) {
            net.below[key] = 0.0;
            net.to_sink[first + key] = net.to_own[first + key] = 0.0;
            net.length[first + key] = 0;
        }
        __syncwarp();
        // The share of layer 1 is its reach: once is enough.
        for (int generous = 0; generous < (layer == 1 ? 1 : 2); generous++) {
            const double *limit = (generous ? net.reach : net.share) + (layer - 1) * net.reach_stride;
            if (columns) pour_columns(net, layer, limit, order);
            for (int word = net.low >> 5; word * LANES < net.high; word++) {
                int key = word * LANES + net.lane;
                u32 open = __ballot_sync(EVERY, inside(net, key) && limit[key] - net.below[key] > NEGLIGIBLE);
                if (net.lane == 0) net.open[word] = open;
            }
            __syncwarp();
            pour_rows(net, layer, limit, order, generous, columns);
        }
        for (int key = net.low + net.lane; key < net.high; key += LANES)
            net.excess[first + net.size + key] = net.above[key];
        double *swapped = net.above;
        net.above = net.below;
        net.below = swapped;
        __syncwarp();
    }
    double arrived = 0.0;
    for (int key = net.low + net.lane; key < net.high; key += LANES) {
        double amount = net.above[key];
        arrived += amount;
        net.demand[key] = net.reach[key] - amount;
        net.excess[net.size + key] = 0.0;
    }
    __syncwarp();
    return warp_sum(arrived);
}
