// Join of balanced codes by 1-bit products of warps (sm_80 and later); `survivors.cu` comes before.
//
//     h(row, column) = popcount(row & column),   BITS = 256 * k,   zero bits count for nothing
//
//                 128 columns, kept in shared memory by a block
//              +---------------------+---------------------+
//    32 rows   | warp 0: 32 x 64     | warp 1              |     BITS <= 1024: 128 rows;
//    32 rows   | warp 2              | warp 3              |     else 64 rows, 32 x 32 a warp
//     ...      |                     |                     |     two buffers of rows
//              +---------------------+---------------------+
//
// A code lies in shared memory with 16 bytes after it, so that eight codes hit all banks once.
//
// Compiled for BITS.
const int BYTES = BITS / 8, CHUNKS = BYTES / 16, STRIDE = BYTES + 16;
const int COLUMNS = 128, ROWS = BITS <= 1024 ? 128 : 64, WARPS = 8;
const int WARP_ROWS = 32, WARP_COLUMNS = COLUMNS / (WARPS / (ROWS / WARP_ROWS));
const int PRODUCTS = WARP_COLUMNS / 2;

__device__ __forceinline__ void load_4(u32 (&to)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

// d[0..3] += popcounts of 16 rows and 8 columns over 256 bits
__device__ __forceinline__ void multiply(int* d, const u32 (&rows)[4], u32 low, u32 high) {
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(low), "r"(high));
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
    extern __shared__ __align__(16) char memory[];
    __shared__ Limits<COLUMNS> limits;
    __shared__ Limits<1> of_tile;
    __shared__ Aside aside[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp % (ROWS / WARP_ROWS) * WARP_ROWS;
    const int warp_column = warp / (ROWS / WARP_ROWS) * WARP_COLUMNS;
    const u32 columns_at = (u32)__cvta_generic_to_shared(memory);
    const u32 rows_at = columns_at + COLUMNS * STRIDE;
    const int n_blocks = (n_columns + COLUMNS - 1) / COLUMNS;
    const int first_column = blockIdx.x % n_blocks * COLUMNS;
    const long long begin = row_begin + (long long)(blockIdx.x / n_blocks) * rows_of_block;
    Queue queue = {pairs, count, capacity, aside + warp, limits.thresholds, limits.stops,
                   first_column, 0};

    read_limits(thresholds, stops, row_end, first_column, n_columns, limits, of_tile);
    const int end = (int)min((long long)of_tile.stops[0], begin + rows_of_block);
    if (begin >= end) return;  // all pairs lie on the other side of the triangle
    const int first = (int)begin, n_tiles = (end - first + ROWS - 1) / ROWS;

    auto load = [&](u32 to, const uint4* from, int begin, int n, int end) {
        for (int i = threadIdx.x; i < n * CHUNKS; i += WARPS * 32) {
            const bool exists = begin + i / CHUNKS < end;
            copy_16(to + i / CHUNKS * STRIDE + i % CHUNKS * 16,
                    from + (exists ? (long long)begin * CHUNKS + i : 0), exists);
        }
    };
    load(columns_at, columns, first_column, COLUMNS, n_columns);
    load(rows_at, rows, first, ROWS, row_end);
    asm volatile("cp.async.commit_group;" ::: "memory");

    // Matrices of eight codes by 16 bytes: rows 0-7 and 8-15, then the second half of 256 bits.
    const u32 row_lane = (warp_row + lane % 16) * STRIDE + lane / 16 * 16;
    // Columns 0-7, both halves, then columns 8-15.
    const u32 column_lane = (warp_column + lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 16;
    for (int tile = 0; tile < n_tiles; tile++) {
        if (tile + 1 < n_tiles)
            load(rows_at + (tile + 1) % 2 * ROWS * STRIDE, rows, first + (tile + 1) * ROWS, ROWS,
                 row_end);
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        int d[2][PRODUCTS] = {};
        #pragma unroll 2
        for (int k = 0; k < BITS / 256; k++) {
            u32 a[2][4], b[4];
            const u32 at = rows_at + tile % 2 * ROWS * STRIDE + row_lane + k * 32;
            load_4(a[0], at);
            load_4(a[1], at + 16 * STRIDE);
            #pragma unroll
            for (int c = 0; c < WARP_COLUMNS / 16; c++) {
                load_4(b, columns_at + column_lane + c * 16 * STRIDE + k * 32);
                #pragma unroll
                for (int half = 0; half < 2; half++) {
                    multiply(d[half] + c * 8, a[half], b[0], b[1]);
                    multiply(d[half] + c * 8 + 4, a[half], b[2], b[3]);
                }
            }
        }
        #pragma unroll
        for (int half = 0; half < 2; half++)
            collect(d[half], of_tile.thresholds[0], first + tile * ROWS + warp_row + half * 16,
                    warp_column, queue);
        __syncthreads();
    }
    queue.close();
}
