// What pouring left is sent on: distances to the sink in the residual network, and waves along them.
//
// A search is done on bits: a node is reached from above if it has more edges into the front than
// saturated ones there. A wave moves all that is stuck one step closer to the sink, the farthest
// first, down or back up; then distances are measured again. It takes the place of the CPU's search
// in depth, in which one lane would work and 31 wait.

__device__ __forceinline__ bool has_bit(const u32 *bits, int position) {
    return (bits[position >> 5] >> (position & 31)) & 1;
}

// Whether a node of the layer above can send into the front of `layer`.
__device__ bool can_send(const Network &net, int layer, int query, const u32 *front) {
    int number = layer * net.size + query, length = net.length[number], into = 0;
    const u32 *usable = net.usable + (long long)number * net.words;
    for (int word = net.low >> 5; word * LANES < net.high; word++) {
        if (!front[word]) continue;
        into += __popc(front[word] & usable[word]);
        if (into > length + 2) return true;  // its list and two edges are all that can be saturated
    }
    if (!into) return false;
    const double *capacity = row_weights(net, layer, query);
    if (has_bit(front, net.sink) && has_bit(usable, net.sink))
        into -= capacity[net.sink] - net.to_sink[number] <= NEGLIGIBLE;
    if (query != net.sink && has_bit(front, query) && has_bit(usable, query))
        into -= capacity[query] - net.to_own[number] <= NEGLIGIBLE;
    int block = length ? net.head[number] : -1;
    for (int entry = 0; entry < length; entry++) {
        if (entry && entry % LANES == 0) block = net.next[block];
        int key = net.keys[block * LANES + entry % LANES];
        into -= (key & SATURATED) && has_bit(front, key & ~SATURATED);
    }
    return into > 0;
}

// Finds the nodes of `layer` that hold flow of a node in the front of the layer above.
__device__ void find_below(const Network &net, int layer, const u32 *front) {
    for (int word = net.low >> 5; word * LANES < net.high; word++) {
        if (!front[word]) continue;
        int query = word * LANES + net.lane, number = layer * net.size + query;
        bool on = (front[word] >> net.lane) & 1;
        u32 own = __ballot_sync(EVERY, on && query != net.sink && net.to_own[number] > NEGLIGIBLE);
        u32 sink = __ballot_sync(EVERY, on && net.to_sink[number] > NEGLIGIBLE);
        if (net.lane == 0) {
            net.found[word] |= own;
            if (sink) net.found[net.sink >> 5] |= 1u << (net.sink & 31);
        }
        __syncwarp();
        u32 lists = __ballot_sync(EVERY, on && net.length[number] > 0);
        while (lists) {
            int from = __ffs(lists) - 1;
            lists &= lists - 1;
            Row row = open_list(net, layer * net.size + word * LANES + from);
            int block = row.head;
            for (int done = 0; done < row.count; done += LANES) {
                int entry = block * LANES + net.lane;
                if (done + net.lane < row.count && net.flows[entry] > NEGLIGIBLE) {
                    int key = net.keys[entry] & ~SATURATED;
                    atomicOr(&net.found[key >> 5], 1u << (key & 31));
                }
                block = net.next[block];
            }
        }
        __syncwarp();
    }
}

// Takes the `found` nodes of a layer that are new into the next front; returns whether any holds excess.
// They are one segment of the queue, which knows the segments a step closer, below and above.
__device__ bool take_found(Network &net, int layer, int distance, bool &grown) {
    bool hopeful = false;
    int begin = net.queued;
    for (int base = net.low >> 5; base * LANES < net.high; base += LANES) {
        int word = base + net.lane, at = layer * net.words + word;
        u32 fresh = 0;
        if (word * LANES < net.high) {
            fresh = net.found[word] & ~net.reached[at];
            net.front_next[at] = fresh;
            net.reached[at] |= fresh;
        }
        u32 words = __ballot_sync(EVERY, fresh != 0);
        while (words) {
            int from = __ffs(words) - 1;
            words &= words - 1;
            u32 bits = __shfl_sync(EVERY, fresh, from);
            if ((bits >> net.lane) & 1) {
                int node = layer * net.size + (base + from) * LANES + net.lane;
                net.level[node] = (u16)distance;
                net.queue[net.queued + __popc(bits & lanes_before(net.lane))] = node;
                hopeful = hopeful || net.excess[node] > NEGLIGIBLE;
            }
            net.queued += __popc(bits);
        }
    }
    int *latest = net.latest + (distance & 1) * net.stages, *closer = net.latest + (~distance & 1) * net.stages;
    bool any = net.queued > begin;
    if (net.lane == 0) {
        latest[layer] = any ? net.segmented : -1;
        if (any) {
            net.segments[net.segmented] = begin;
            net.segment_below[net.segmented] = layer > 1 ? closer[layer - 1] : -1;
            net.segment_above[net.segmented] = layer < net.top ? closer[layer + 1] : -1;
        }
    }
    net.segmented += any;
    grown = grown || any;
    __syncwarp();
    return __any_sync(EVERY, hopeful);
}

// Sets `level` to the distance to the sink; returns whether any excess can still get there. If none
// can, the nodes with a level and those without are the two sides of a minimum cut.
__device__ bool measure(Network &net) {
    for (int layer = 1; layer <= net.top; layer++) {
        for (int key = net.low + net.lane; key < net.high; key += LANES) net.level[layer * net.size + key] = 0;
        for (int word = net.lane; word < net.words; word += LANES)
            net.reached[layer * net.words + word] = net.front[layer * net.words + word] = net.front_next[layer * net.words + word] = 0;
    }
    for (int at = net.lane; at < 2 * net.stages; at += LANES) net.latest[at] = -1;
    net.queued = net.segmented = 0;
    for (int word = net.low >> 5; word * LANES < net.high; word++) {
        int key = word * LANES + net.lane;
        u32 lacking = __ballot_sync(EVERY, inside(net, key) && net.demand[key] > NEGLIGIBLE);
        if (net.lane == 0) net.found[word] = lacking;
    }
    __syncwarp();
    bool grown = false, hopeful = take_found(net, 1, 1, grown);
    for (int distance = 2; grown && distance < 65535; distance++) {
        u32 *swapped = net.front;
        net.front = net.front_next;
        net.front_next = swapped;
        grown = false;
        for (int layer = 1; layer <= net.top; layer++) {
            const u32 *lower = net.front + (layer - 1) * net.words, *upper = net.front + (layer + 1) * net.words;
            u32 from_below = 0, from_above = 0;
            for (int word = net.lane; word < net.words; word += LANES) {
                if (layer > 1) from_below |= lower[word];
                if (layer < net.top) from_above |= upper[word];
                net.found[word] = 0;
            }
            bool up = __any_sync(EVERY, from_below != 0), down = __any_sync(EVERY, from_above != 0);
            __syncwarp();
            if (!up && !down) {
                for (int word = net.lane; word < net.words; word += LANES) net.front_next[layer * net.words + word] = 0;
                if (net.lane == 0) net.latest[(distance & 1) * net.stages + layer] = -1;
                __syncwarp();
                continue;
            }
            if (up)
                for (int word = net.low >> 5; word * LANES < net.high; word++) {
                    int query = word * LANES + net.lane;
                    bool missing = inside(net, query) && !((net.reached[layer * net.words + word] >> net.lane) & 1);
                    if (!__any_sync(EVERY, missing)) continue;
                    u32 hit = __ballot_sync(EVERY, missing && can_send(net, layer - 1, query, lower));
                    if (net.lane == 0) net.found[word] = hit;
                }
            __syncwarp();
            if (down) find_below(net, layer, upper);
            if (take_found(net, layer, distance, grown)) hopeful = true;
        }
    }
    return hopeful;
}

__device__ __forceinline__ int segment_end(const Network &net, int segment) {
    return segment + 1 < net.segmented ? net.segments[segment + 1] : net.queued;
}

// Pushes what is stuck at a node down to the nodes of a segment; returns what is left there.
__device__ double push_down(Network &net, int layer, int query, int segment, bool lacking, double left) {
    const double *capacity = row_weights(net, layer, query);
    double *excess = net.excess + layer * net.size;
    Row row = open_list(net, layer * net.size + query), before = row;
    if (row.count) mark_places(net, row, true);
    int end = segment_end(net, segment);
    for (int start = net.segments[segment]; start < end && left > NEGLIGIBLE; start += LANES) {
        bool on = start + net.lane < end;
        int key = on ? net.queue[start + net.lane] - layer * net.size : -1, entry = 0;
        double amount = 0.0, edge = 0.0;
        if (on) {
            edge = capacity[key];
            entry = net.place[key];
            double flow = key == net.sink ? net.to_sink[row.number] : key == query ? net.to_own[row.number] : entry ? net.flows[entry - 1] : 0.0;
            amount = edge - flow;
            // A node that lacks demand takes no more than it lacks; others hand back what they get.
            if (lacking) amount = fmin(amount, net.demand[key] - excess[key]);
            if (amount <= NEGLIGIBLE) amount = 0.0;
        }
        double give = portion(amount, left, net.lane);
        if (give > 0.0) {
            excess[key] += give;
            if (key == net.sink) net.to_sink[row.number] += give;
            else if (key == query) net.to_own[row.number] += give;
        }
        add_flow(net, row, key, key == net.sink || key == query ? 0.0 : give, edge, entry);
        __syncwarp();
    }
    if (before.count) mark_places(net, before, false);
    if (row.count != before.count) close_list(net, row);
    return left;
}

// Hands what is stuck on nodes of `layer` at a distance back to the nodes of a segment above.
__device__ void push_up(Network &net, int layer, int distance, int segment, double stuck) {
    const u16 *level = net.level + layer * net.size;
    double *excess = net.excess + layer * net.size;
    int end = segment_end(net, segment);
    for (int start = net.segments[segment]; start < end && stuck > NEGLIGIBLE; start += LANES) {
        bool on = start + net.lane < end;
        int query = on ? net.queue[start + net.lane] - (layer + 1) * net.size : -1;
        int number = layer * net.size + query;
        double back = 0.0;
        if (on && query != net.sink && level[query] == distance) {
            double give = fmin(net.to_own[number], excess[query]);
            if (give > NEGLIGIBLE) {
                net.to_own[number] -= give;
                excess[query] -= give;
                back += give;
            }
        }
        __syncwarp();
        if (level[net.sink] == distance && excess[net.sink] > NEGLIGIBLE) {
            double left = excess[net.sink], amount = on ? net.to_sink[number] : 0.0;
            double give = portion(amount > NEGLIGIBLE ? amount : 0.0, left, net.lane);
            if (give > 0.0) {
                net.to_sink[number] -= give;
                back += give;
            }
            __syncwarp();
            if (net.lane == 0) excess[net.sink] = left;
            __syncwarp();
        }
        u32 lists = __ballot_sync(EVERY, on && net.length[number] > 0);
        while (lists) {
            int from = __ffs(lists) - 1;
            lists &= lists - 1;
            Row row = open_list(net, __shfl_sync(EVERY, number, from));
            int block = row.head;
            double handed = 0.0;
            for (int done = 0; done < row.count; done += LANES) {
                int entry = block * LANES + net.lane;
                if (done + net.lane < row.count) {
                    int key = net.keys[entry] & ~SATURATED;
                    double give = level[key] == distance ? fmin(net.flows[entry], excess[key]) : 0.0;
                    if (give > NEGLIGIBLE) {
                        net.flows[entry] -= give;
                        net.keys[entry] = (u16)key;
                        excess[key] -= give;
                        handed += give;
                    }
                }
                block = net.next[block];
            }
            handed = warp_sum(handed);
            if (net.lane == from) back += handed;
            __syncwarp();
        }
        if (back > 0.0) net.excess[(layer + 1) * net.size + query] += back;
        stuck -= warp_sum(back);
        __syncwarp();
    }
}

// Moves all excess closer to the sink along the levels; returns what arrived.
__device__ double send_wave(Network &net) {
    double arrived = 0.0;
    for (int segment = net.segmented - 1; segment >= 0; segment--) {
        int begin = net.segments[segment], end = segment_end(net, segment);
        int below = net.segment_below[segment], above = net.segment_above[segment];
        int layer = net.queue[begin] / net.size, distance = net.level[net.queue[begin]];
        double stuck = 0.0;
        for (int start = begin; start < end; start += LANES) {
            int node = start + net.lane < end ? net.queue[start + net.lane] : -1;
            double excess = node >= 0 ? net.excess[node] : 0.0;
            if (distance == 1) {
                double amount = node >= 0 ? fmin(excess, net.demand[node - net.size]) : 0.0;
                if (amount > 0.0) {
                    net.demand[node - net.size] -= amount;
                    net.excess[node] = excess - amount;
                    arrived += amount;
                }
                continue;
            }
            u32 holding = __ballot_sync(EVERY, excess > NEGLIGIBLE);
            while (holding) {
                int from = __ffs(holding) - 1;
                holding &= holding - 1;
                int query = __shfl_sync(EVERY, node, from) - layer * net.size;
                double left = __shfl_sync(EVERY, excess, from);
                if (below >= 0) left = push_down(net, layer - 1, query, below, layer == 2 && distance == 2, left);
                __syncwarp();
                if (net.lane == 0) net.excess[layer * net.size + query] = left;
                stuck += left;
            }
        }
        __syncwarp();
        if (above >= 0 && stuck > NEGLIGIBLE) push_up(net, layer, distance, above, stuck);
    }
    __syncwarp();
    return warp_sum(arrived);
}

// The capacity of the cut between the nodes that `measure` reached and those it did not: capacities
// are summed, never flows, so that this checks the flow independently.
__device__ double cut_capacity(const Network &net, const double *supply) {
    double total = 0.0;
    for (int key = net.low + net.lane; key < net.high; key += LANES) {
        if (net.level[net.top * net.size + key]) total += supply[key];
        if (!net.level[net.size + key]) total += net.reach[key];
    }
    for (int layer = 1; layer < net.top; layer++) {
        const u32 *reached = net.reached + layer * net.words;
        int count = 0;
        for (int word = net.lane; word < net.words; word += LANES) count += __popc(reached[word]);
        // Of a row that leads mostly into reached nodes, the other edges are taken off its sum.
        bool others = warp_sum((double)count) * 2 > net.high - net.low;
        for (int query = net.low; query < net.high; query++) {
            if (net.level[(layer + 1) * net.size + query]) continue;
            const double *capacity = row_weights(net, layer, query);
            if (others && net.lane == 0) total += net.sums[layer * net.size + query];
            for (int word = others ? 0 : net.low >> 5; word < net.words; word++) {
                u32 bits = others ? ~reached[word] : reached[word];
                int key = word * LANES + net.lane;
                if (!bits) continue;
                if (key < net.size && ((bits >> net.lane) & 1)) total += others ? -capacity[key] : capacity[key];
            }
        }
    }
    return warp_sum(total);
}
