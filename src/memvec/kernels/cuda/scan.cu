// Scan of codes for one query, at the speed of the memory; `codes.cu` comes before it.
//
//     column j passes where popcount(query & column j) >= threshold j
//
// A warp reads 32 columns at a time, for LANES = 8 like this:
//
//     load 0:   column 0    lanes 0-7        load 1:   column 4    lanes 0-7
//               column 1    lanes 8-15                 column 5    lanes 8-15
//                ...                                    ...
//
// All loads are under way before the first is used. Lane l then tests the column of load l % LANES.
//
// Compiled for BITS.
extern "C" __global__ void __launch_bounds__(256) scan(
    const uint4* __restrict__ query,          // IN (CHUNKS,)
    const uint4* __restrict__ columns,        // IN (n_columns, CHUNKS)
    int n_columns,
    const short* __restrict__ thresholds,     // IN (n_columns,)
    int2* pairs,                              // OUT (capacity,): 0, number of the column
    u64* count,                               // OUT how many pass, in `pairs` or beyond its end
    u64 capacity)
{
    const int lane = threadIdx.x % 32, part = lane % LANES;
    uint4 q[SHARE];
    #pragma unroll
    for (int s = 0; s < SHARE; s++) q[s] = query[part + s * LANES];
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long base = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32 * 32;
         base < n_columns; base += step) {
        uint4 code[LANES][SHARE];
        #pragma unroll
        for (int load = 0; load < LANES; load++) {
            const long long column = base + load * (32 / LANES) + lane / LANES;
            #pragma unroll
            for (int s = 0; s < SHARE; s++)
                code[load][s] = column < n_columns
                    ? __ldcs(columns + column * CHUNKS + part + s * LANES) : make_uint4(0, 0, 0, 0);
        }
        const long long own = base + part * (32 / LANES) + lane / LANES;
        const int threshold = own < n_columns ? thresholds[own] : 0x7fff;
        int common = 0;
        #pragma unroll
        for (int load = 0; load < LANES; load++) {
            const int h = sum_of_sharers(seen_in_both(q, code[load]));
            common = part == load ? h : common;
        }
        const bool passes = own < n_columns && common >= threshold;
        const u32 lanes = __ballot_sync(EVERY_LANE, passes);
        if (!lanes) continue;
        const u64 at = place_in_queue(count, lanes);
        if (passes && at < capacity) pairs[at] = make_int2(0, (int)own);
    }
}
