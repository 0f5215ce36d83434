// Tests of the members of units that passed; `codes.cu` comes before it.
//
//     candidate (row, unit) -> pairs (row, m), begins[unit] <= m < ends[unit],
//                              where popcount(row & member m) >= threshold m, and m > row if `once`
//
// A warp takes a candidate, and twice 32 / LANES members of it at a time:
//
//     members    begin     begin + 1  begin + 2  begin + 3 | begin + 4 ...
//     lanes      0-7       8-15       16-23      24-31     | 0-7           (LANES = 8)
//
// While codes are read, the bounds of the next unit and the candidate after it are on their way.
// How many candidates there are is read from the card: the host need not know.
//
// Compiled for BITS.
const int TURNS = 2;

extern "C" __global__ void __launch_bounds__(256) members(
    const uint4* __restrict__ rows,           // IN (n_rows, CHUNKS)
    const int2* __restrict__ candidates,      // IN (candidate_room,): row, unit
    const u64* n_candidates, u64 candidate_room,
    const int* __restrict__ begins,           // IN (n_units,)
    const int* __restrict__ ends,             // IN (n_units,)
    const uint4* __restrict__ codes,          // IN (n_members, CHUNKS)
    const short* __restrict__ thresholds,     // IN (n_members,)
    int once,
    int2* pairs,                              // OUT (capacity,): row, member
    u64* count,                               // OUT how many pass, in `pairs` or beyond its end
    u64 capacity)
{
    const int lane = threadIdx.x % 32, part = lane % LANES, own = lane / LANES;
    const u64 n = min(*n_candidates, candidate_room);
    const u64 step = (u64)gridDim.x * blockDim.x / 32;
    u64 i = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32;
    int2 now, next = i < n ? candidates[i] : make_int2(0, 0);
    int2 later = i + step < n ? candidates[i + step] : next;
    int first, end, next_first = begins[next.y], next_end = ends[next.y];
    for (; i < n; i += step) {
        now = next, first = next_first, end = next_end;
        next = later, next_first = begins[next.y], next_end = ends[next.y];
        if (i + 2 * step < n) later = candidates[i + 2 * step];
        uint4 row[SHARE], code[TURNS][SHARE];
        #pragma unroll
        for (int s = 0; s < SHARE; s++)
            row[s] = rows[(long long)now.x * CHUNKS + part + s * LANES];
        for (; first < end; first += TURNS * 32 / LANES) {
            #pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {
                const int member = first + turn * 32 / LANES + own;
                #pragma unroll
                for (int s = 0; s < SHARE; s++)
                    code[turn][s] = member < end
                        ? codes[(long long)member * CHUNKS + part + s * LANES]
                        : make_uint4(0, 0, 0, 0);
            }
            #pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {
                const int member = first + turn * 32 / LANES + own;
                const int h = sum_of_sharers(seen_in_both(row, code[turn]));
                const bool passes = part == 0 && member < end && h >= thresholds[member]
                    && (!once || member > now.x);
                const u32 lanes = __ballot_sync(EVERY_LANE, passes);
                if (!lanes) continue;
                const u64 at = place_in_queue(count, lanes);
                if (passes && at < capacity) pairs[at] = make_int2(now.x, member);
            }
        }
    }
}
