// Join of balanced codes by 1-bit products of warpgroups (sm_90a); `survivors.cu` comes before it.
//
//     h(row, column) = popcount(row & column),   BITS = 256 * k,   zero bits count for nothing
//
//              TILES tiles of 128 columns, kept in shared memory by a block
//             +-----------------+-----------------+----
//   64 rows   | warpgroup 0     |  then the next  | ...    each warpgroup has two buffers of
//   64 rows   | warpgroup 1     |  tile           |        64 rows: one is read while the other
//   64 rows   | warpgroup 2     |                 |        is filled
//             +-----------------+-----------------+----
//                 rows [first, last) of the block, from top to bottom
//
// A warpgroup has the products of two tiles: it looks for survivors in one while the other is
// multiplied. In shared memory, codes are cut into panels of PANEL bytes, the widest swizzle that
// divides a code. Byte b of row r of a panel lies at r * PANEL + b, bits 4.. of which are XORed
// with bits 7..: eight rows hit all banks once.
//
// Compiled for BITS, TILES (even), WARPGROUPS.
const int BYTES = BITS / 8, CHUNKS = BYTES / 16;
const int PANEL = BITS % 1024 == 0 ? 128 : BITS % 512 == 0 ? 64 : 32;
const u64 SWIZZLE = PANEL == 128 ? 1 : PANEL == 64 ? 2 : 3;
const int ROWS = 64, COLUMNS = 128, PRODUCTS = COLUMNS / 2;

// The place of 16 bytes of a row in panels of `rows` rows.
__device__ __forceinline__ u32 place(int row, int chunk, int rows) {
    const u32 at = row * PANEL + chunk % (PANEL / 16) * 16;
    return chunk / (PANEL / 16) * rows * PANEL + (at ^ (at >> 7 & PANEL / 16 - 1) << 4);
}

// The operand that begins at an address of shared memory; groups of 8 rows lie 8 * PANEL apart.
__device__ __forceinline__ u64 operand(u32 at) {
    return (at & 0x3FFFF) >> 4 | 1ull << 16 | (u64)(8 * PANEL >> 4) << 32 | SWIZZLE << 62;
}

#define D4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D64 D16(0), D16(16), D16(32), D16(48)

// d (+)= popcounts of 64 rows and 128 columns over 256 bits
__device__ __forceinline__ void multiply(int (&d)[PRODUCTS], u64 rows, u64 columns, int add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k256.s32.b1.b1.and.popc {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, p;\n}\n"
        : D64 : "l"(rows), "l"(columns), "r"(add));
}

// Waits until at most LATER products that were begun later are under way.
template <int LATER>
__device__ __forceinline__ void wait(int (&d)[PRODUCTS]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
    asm volatile("" : D64::"memory");  // nothing reads the products before
}

extern "C" __global__ void __launch_bounds__(WARPGROUPS * 128, 1) join(
    const uint4* __restrict__ rows,           // IN (≥ row_end, CHUNKS)
    int row_begin, int row_end,
    const uint4* __restrict__ columns,        // IN (n_columns, CHUNKS)
    int n_columns,
    const short* __restrict__ thresholds,     // IN (n_columns,)
    const int* __restrict__ stops,            // IN (n_columns,), or null: all rows
    int rows_of_block, int2* pairs, u64* count, u64 capacity)
{
    extern __shared__ char memory[];  // 1024 bytes more than needed, so that it can be aligned
    __shared__ Limits<TILES * COLUMNS> limits;
    __shared__ Limits<TILES> of_tile;
    __shared__ Aside aside[WARPGROUPS * 4];
    // By shuffles, the compiler sees that all lanes go the same way.
    const int group = __shfl_sync(EVERY_LANE, threadIdx.x / 128, 0);
    const int t = threadIdx.x % 128, warp = threadIdx.x / 32;
    const u32 columns_at = ((u32)__cvta_generic_to_shared(memory) + 1023) & ~1023u;
    const u32 rows_at = columns_at + TILES * COLUMNS * BYTES + group * 2 * ROWS * BYTES;
    const int n_blocks = (n_columns + TILES * COLUMNS - 1) / (TILES * COLUMNS);
    const int first_column = blockIdx.x % n_blocks * (TILES * COLUMNS);
    const long long begin = row_begin + (long long)(blockIdx.x / n_blocks) * rows_of_block;
    Queue queue = {pairs, count, capacity, aside + warp, limits.thresholds, limits.stops,
                   first_column, 0};

    read_limits(thresholds, stops, row_end, first_column, n_columns, limits, of_tile);
    int end = 0;
    for (int i = 0; i < TILES; i++) end = max(end, of_tile.stops[i]);
    end = (int)min((long long)end, begin + rows_of_block);
    if (begin >= end) return;  // all pairs lie on the other side of the triangle
    const int first = (int)begin;
    const int n_tiles = __shfl_sync(EVERY_LANE, (end - first + ROWS - 1) / ROWS, 0);

    for (int i = threadIdx.x; i < TILES * COLUMNS * CHUNKS; i += WARPGROUPS * 128) {
        const int c = i / CHUNKS, tile = c / COLUMNS;
        const bool exists = first_column + c < n_columns;
        copy_16(columns_at + tile * COLUMNS * BYTES + place(c % COLUMNS, i % CHUNKS, COLUMNS),
                columns + (exists ? (long long)first_column * CHUNKS + i : 0), exists);
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;\nfence.proxy.async;" ::: "memory");
    __syncthreads();

    auto load = [&](int tile, int buffer) {
        #pragma unroll
        for (int i = t; i < ROWS * CHUNKS; i += 128) {
            const int r = i / CHUNKS, row = first + tile * ROWS + r;
            const bool exists = row < row_end;
            copy_16(rows_at + buffer * ROWS * BYTES + place(r, i % CHUNKS, ROWS),
                    rows + (exists ? (long long)row * CHUNKS + i % CHUNKS : 0), exists);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    int even[PRODUCTS], odd[PRODUCTS], buffer = 0;
    auto begin_products = [&](int (&d)[PRODUCTS], int tile) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int k = 0; k < BITS / 256; k++) {
            const int panel = k * 32 / PANEL, within = k * 32 % PANEL;
            multiply(d, operand(rows_at + (buffer * BYTES + panel * PANEL) * ROWS + within),
                     operand(columns_at + (tile * BYTES + panel * PANEL) * COLUMNS + within), k);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    };
    auto look = [&](int (&d)[PRODUCTS], int row, int tile) {
        collect(d, of_tile.thresholds[tile], row + warp % 4 * 16, tile * COLUMNS, queue);
    };
    if (group < n_tiles) load(group, 0);
    #pragma unroll 1
    for (int n = group; n < n_tiles; n += WARPGROUPS, buffer ^= 1) {
        if (n + WARPGROUPS < n_tiles) {
            load(n + WARPGROUPS, buffer ^ 1);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        asm volatile("fence.proxy.async;\nbar.sync %0, 128;" ::"r"(group + 1) : "memory");
        #pragma unroll 1
        for (int tile = 0; tile < TILES; tile += 2) {
            begin_products(even, tile);
            begin_products(odd, tile + 1);
            wait<1>(even);
            look(even, first + n * ROWS, tile);
            wait<0>(odd);
            look(odd, first + n * ROWS, tile + 1);
        }
        asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
    }
    queue.close();
}
