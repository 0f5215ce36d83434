// Join of balanced codes by popcounts, for any card; `survivors.cu` comes before it.
//
//     h(row, column) = popcount(row & column),   BITS = 256 * k,   zero bits count for nothing
//
//                32 columns, kept in shared memory by a block
//              +-----------+
//    16 rows   | warp 0    |     a warp: 16 rows by 32 columns, a fragment as tensor cores have it;
//    16 rows   | warp 1    |     a lane: 2 rows by 8 columns
//     ...      |           |
//              +-----------+
//
// A code lies in shared memory with 16 bytes after it, so that eight codes hit all banks once.
//
// Compiled for BITS.
const int CHUNKS = BITS / 128, STRIDE = CHUNKS + 1;
const int COLUMNS = 32, ROWS = 64, WARPS = 4, PRODUCTS = 16;

__device__ __forceinline__ int common(uint4 a, uint4 b) {
    return __popc(a.x & b.x) + __popc(a.y & b.y) + __popc(a.z & b.z) + __popc(a.w & b.w);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32) join(
    const uint4* __restrict__ rows,           // IN (≥ row_end, CHUNKS)
    int row_begin, int row_end,
    const uint4* __restrict__ columns,        // IN (n_columns, CHUNKS)
    int n_columns,
    const short* __restrict__ thresholds,     // IN (n_columns,)
    const int* __restrict__ stops,            // IN (n_columns,), or null: all rows
    int rows_of_block, int2* pairs, u64* count, u64 capacity)
{
    __shared__ uint4 kept_columns[COLUMNS * STRIDE], kept_rows[ROWS * STRIDE];
    __shared__ Limits<COLUMNS> limits;
    __shared__ Limits<1> of_tile;
    __shared__ Aside aside[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp * 16;
    const int n_blocks = (n_columns + COLUMNS - 1) / COLUMNS;
    const int first_column = blockIdx.x % n_blocks * COLUMNS;
    const long long begin = row_begin + (long long)(blockIdx.x / n_blocks) * rows_of_block;
    Queue queue = {pairs, count, capacity, aside + warp, limits.thresholds, limits.stops,
                   first_column, 0};

    read_limits(thresholds, stops, row_end, first_column, n_columns, limits, of_tile);
    const int end = (int)min((long long)of_tile.stops[0], begin + rows_of_block);
    if (begin >= end) return;  // all pairs lie on the other side of the triangle

    auto load = [&](uint4* to, const uint4* from, int begin, int n, int end) {
        for (int i = threadIdx.x; i < n * CHUNKS; i += WARPS * 32)
            to[i / CHUNKS * STRIDE + i % CHUNKS] = begin + i / CHUNKS < end
                ? from[(long long)begin * CHUNKS + i] : make_uint4(0, 0, 0, 0);
    };
    load(kept_columns, columns, first_column, COLUMNS, n_columns);
    for (int first = (int)begin; first < end; first += ROWS) {
        __syncthreads();
        load(kept_rows, rows, first, ROWS, row_end);
        __syncthreads();
        int d[PRODUCTS] = {};
        #pragma unroll 2
        for (int k = 0; k < CHUNKS; k++) {
            const uint4 low = kept_rows[(warp_row + lane / 4) * STRIDE + k];
            const uint4 high = kept_rows[(warp_row + lane / 4 + 8) * STRIDE + k];
            #pragma unroll
            for (int j = 0; j < 8; j++) {
                const int c = j / 2 * 8 + lane % 4 * 2 + j % 2;
                const uint4 column = kept_columns[c * STRIDE + k];
                d[j / 2 * 4 + j % 2] += common(low, column);
                d[j / 2 * 4 + j % 2 + 2] += common(high, column);
            }
        }
        collect(d, of_tile.thresholds[0], first + warp_row, 0, queue);
    }
    queue.close();
}
