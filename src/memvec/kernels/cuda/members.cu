// Tests of the members of units that passed; `codes.cu` comes before it.
//
//     candidate (row, unit) -> pairs (row, m) of the members m of the unit, where the codes of row
//     and m differ in at most `limit` bits, and in at most `first_limit` of the first FIRST words
//
// A warp takes a candidate, and twice 32 / LANES members of it at a time:
//
//     slots      begin     begin + 1  begin + 2  begin + 3 | begin + 4 ...
//     lanes      0-7       8-15       16-23      24-31     | 0-7           (LANES = 8)
//
// A slot holds a member: the one of its own number, or the one that `slots` names. While codes are
// read, the bounds of the next unit and the candidate after it are on their way. How many candidates
// there are is read from the card: the host need not know.
//
// Compiled for BITS, FIRST (in words of 64 bits; 0 for no test of first words).
const int TURNS = 2;

extern "C" __global__ void __launch_bounds__(256) members(
    const uint4* __restrict__ rows,           // IN (n_rows, CHUNKS)
    const int2* __restrict__ candidates,      // IN (candidate_room,): row, unit
    const u64* n_candidates, u64 candidate_room,
    const int* __restrict__ begins,           // IN (n_units,): slots
    const int* __restrict__ ends,             // IN (n_units,)
    const int* __restrict__ slots,            // IN (n_slots,), or null
    const uint4* __restrict__ codes,          // IN (n_members, CHUNKS)
    const short* __restrict__ limits,         // IN (n_members,), or null: `limit` for all
    int limit, int first_limit,
    int once,                                 // only members whose number is above that of the row
    int2* pairs,                              // OUT (capacity,): row, member
    u64* count,                               // OUT how many pass, in `pairs` or beyond its end
    u64 capacity,
    u64* n_tested)                            // OUT added to: how many members are tested; or null
{
    const int lane = threadIdx.x % 32, part = lane % LANES, own = lane / LANES;
    const u64 n = min(*n_candidates, candidate_room);
    const u64 step = (u64)gridDim.x * blockDim.x / 32;
    u64 i = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32;
    int2 now, next = i < n ? candidates[i] : make_int2(0, 0);
    int2 later = i + step < n ? candidates[i + step] : next;
    int first, end, next_first = begins[next.y], next_end = ends[next.y];
    u64 tested = 0;
    for (; i < n; i += step) {
        now = next, first = next_first, end = next_end;
        next = later, next_first = begins[next.y], next_end = ends[next.y];
        if (i + 2 * step < n) later = candidates[i + 2 * step];
        tested += end - first;
        uint4 row[SHARE], code[TURNS][SHARE];
        #pragma unroll
        for (int s = 0; s < SHARE; s++)
            row[s] = rows[(long long)now.x * CHUNKS + part + s * LANES];
        for (; first < end; first += TURNS * 32 / LANES) {
            int member[TURNS];
            #pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {
                const int slot = first + turn * 32 / LANES + own;
                member[turn] = slot >= end ? -1 : slots ? slots[slot] : slot;
                #pragma unroll
                for (int s = 0; s < SHARE; s++)
                    code[turn][s] = member[turn] >= 0
                        ? codes[(long long)member[turn] * CHUNKS + part + s * LANES]
                        : make_uint4(0, 0, 0, 0);
            }
            #pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {
                const int m = member[turn];
                const int differ = sum_of_sharers(seen_to_differ<FIRST>(row, code[turn]));
                bool passes = part == 0 && m >= 0 && (!once || m > now.x);
                if (passes) {
                    passes = (FIRST ? differ & 0xffff : differ) <= (limits ? limits[m] : limit);
                    if (FIRST) passes = passes && differ >> 16 <= first_limit;
                }
                const u32 lanes = __ballot_sync(EVERY_LANE, passes);
                if (!lanes) continue;
                const u64 at = place_in_queue(count, lanes);
                if (passes && at < capacity) pairs[at] = make_int2(now.x, m);
            }
        }
    }
    if (n_tested && tested && lane == 0) atomicAdd(n_tested, tested);
}
