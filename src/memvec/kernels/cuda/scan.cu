// Scan of codes for one query, at the speed of the memory.
//
//     column j passes where popcount(query & column j) >= threshold j
//
// A warp reads 32 columns at a time. LANES lanes share a column, 16 bytes each:
//
//     LANES = 8, 1024 bits      16 bytes: 0  1  2  3  4  5  6  7
//       load 0:   column 0      lane      0  1  2  3  4  5  6  7
//                 column 1                8  9 10 11 12 13 14 15
//                  ...
//       load 1:   column 4      lane      0  1  2  3  4  5  6  7
//
// All loads are under way before the first is used. Lane l then tests the column of load l % LANES.
//
// Compiled for BITS.
typedef unsigned int u32;
typedef unsigned long long u64;
const u32 EVERY_LANE = 0xffffffffu;
const int CHUNKS = BITS / 128;
const int LANES = CHUNKS % 16 == 0 ? 16 : CHUNKS % 8 == 0 ? 8 : CHUNKS % 4 == 0 ? 4 : 2;
const int SHARE = CHUNKS / LANES;  // pieces of 16 bytes that a lane has of a column

extern "C" __global__ void __launch_bounds__(256) scan(
    const uint4* __restrict__ query,          // IN (CHUNKS,)
    const uint4* __restrict__ columns,        // IN (n_columns, CHUNKS)
    int n_columns,
    const short* __restrict__ thresholds,     // IN (n_columns,)
    int* passed,                              // OUT (capacity,): numbers of columns
    u64* count,                               // OUT how many pass, in `passed` or beyond its end
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
            int h = 0;
            #pragma unroll
            for (int s = 0; s < SHARE; s++)
                h += __popc(q[s].x & code[load][s].x) + __popc(q[s].y & code[load][s].y)
                   + __popc(q[s].z & code[load][s].z) + __popc(q[s].w & code[load][s].w);
            #pragma unroll
            for (int other = 1; other < LANES; other *= 2)
                h += __shfl_xor_sync(EVERY_LANE, h, other);
            common = part == load ? h : common;
        }
        const bool passes = own < n_columns && common >= threshold;
        const u32 lanes = __ballot_sync(EVERY_LANE, passes);
        if (!lanes) continue;
        u64 at = 0;
        if (lane == 0) at = atomicAdd(count, (u64)__popc(lanes));
        at = __shfl_sync(EVERY_LANE, at, 0) + __popc(lanes & ((1u << lane) - 1));
        if (passes && at < capacity) passed[at] = (int)own;
    }
}
