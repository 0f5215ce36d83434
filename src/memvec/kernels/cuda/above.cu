// Pairs of a query and a row whose product, one of a matrix of halves, reaches the query's floor;
// `rows.cu` comes before it.
//
//     products      rows first_row ...               a block looks at one query, 256 times 8
//     query 0       p p p p p p p p | p p ...        products at a time
//     query 1       ...
extern "C" __global__ void __launch_bounds__(256) above(
    const uint4* __restrict__ products,     // IN halves (n_queries, n_rows), n_rows a multiple of 8
    int n_rows, int n_real,                 // rows past n_real are none
    const float* __restrict__ floors,       // IN (n_queries,)
    int first_row,
    int2* pairs,                            // OUT (capacity,): query, row
    u64* count, u64 capacity)
{
    const int query = blockIdx.y, lane = threadIdx.x % 32;
    const float floor = floors[query];
    const uint4* own = products + (long long)query * (n_rows / 8);
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at - lane < n_rows / 8;
         at += gridDim.x * blockDim.x) {
        const uint4 eight = at < n_rows / 8 ? own[at] : make_uint4(0, 0, 0, 0);
        const u32 words[4] = {eight.x, eight.y, eight.z, eight.w};
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const unsigned short half = (unsigned short)(words[i / 2] >> 16 * (i % 2));
            const int row = at * 8 + i;
            const bool passes = row < n_real && (float)widened(half) >= floor;
            const u32 lanes = __ballot_sync(EVERY_LANE, passes);
            if (!lanes) continue;
            u64 place = 0;
            if (lane == 0) place = atomicAdd(count, (u64)__popc(lanes));
            place = __shfl_sync(EVERY_LANE, place, 0) + __popc(lanes & ((1u << lane) - 1));
            if (passes && place < capacity) pairs[place] = make_int2(query, first_row + row);
        }
    }
}
