// Join of balanced codes by 1-bit products of warpgroups (sm_90a); `survivors.cu` comes before it.
//
//     h(row, column) = popcount(row & column),   BITS = 256 * k,   zero bits count for nothing
//
//              TILES tiles of 256 columns, kept in shared memory by a block
//             +-----------------+-----------------+----
//   64 rows   | warpgroup 0     |  then the next  | ...    each warpgroup has two buffers of
//   64 rows   | warpgroup 1     |  tile           |        64 rows: one is read while the other
//   64 rows   | warpgroup 2     |                 |        is filled
//             +-----------------+-----------------+----
//                 rows [first, last) of the block, from top to bottom
//
// While one warpgroup looks for survivors, the others multiply. In shared memory, codes are cut
// into panels of PANEL bytes, the widest swizzle that divides a code. Byte b of row r of a panel
// lies at r * PANEL + b, bits 4.. of which are XORed with bits 7..: eight rows hit all banks once.
//
// Compiled for BITS, TILES, WARPGROUPS.
const int BYTES = BITS / 8, CHUNKS = BYTES / 16;
const int PANEL = BITS % 1024 == 0 ? 128 : BITS % 512 == 0 ? 64 : 32;
const u64 SWIZZLE = PANEL == 128 ? 1 : PANEL == 64 ? 2 : 3;
const int ROWS = 64, COLUMNS = 256, PRODUCTS = COLUMNS / 2;

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
#define D128 D16(0), D16(16), D16(32), D16(48), D16(64), D16(80), D16(96), D16(112)

// d (+)= popcounts of 64 rows and 256 columns over 256 bits
__device__ __forceinline__ void multiply(int (&d)[PRODUCTS], u64 rows, u64 columns, int add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k256.s32.b1.b1.and.popc {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
        "}, %128, %129, p;\n}\n"
        : D128 : "l"(rows), "l"(columns), "r"(add));
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
    __shared__ Limit limits[TILES * COLUMNS], of_tile[TILES];
    __shared__ int2 parts[WARPGROUPS * 4 * PART];
    const int group = threadIdx.x / 128, t = threadIdx.x % 128, warp = threadIdx.x / 32;
    const u32 columns_at = ((u32)__cvta_generic_to_shared(memory) + 1023) & ~1023u;
    const u32 rows_at = columns_at + TILES * COLUMNS * BYTES + group * 2 * ROWS * BYTES;
    const int n_blocks = (n_columns + TILES * COLUMNS - 1) / (TILES * COLUMNS);
    const int first_column = blockIdx.x % n_blocks * (TILES * COLUMNS);
    const long long begin = row_begin + (long long)(blockIdx.x / n_blocks) * rows_of_block;
    Queue queue = {pairs, count, capacity, parts + warp * PART, 0};

    read_limits(thresholds, stops, row_end, first_column, n_columns, COLUMNS, TILES * COLUMNS,
                limits, of_tile);
    int end = 0;
    for (int i = 0; i < TILES; i++) end = max(end, of_tile[i].stop);
    end = (int)min((long long)end, begin + rows_of_block);
    if (begin >= end) return;  // all pairs lie on the other side of the triangle
    const int first = (int)begin, n_tiles = (end - first + ROWS - 1) / ROWS;

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
    int d[PRODUCTS], buffer = 0;
    if (group < n_tiles) load(group, 0);
    for (int tile = group; tile < n_tiles; tile += WARPGROUPS, buffer ^= 1) {
        if (tile + WARPGROUPS < n_tiles) {
            load(tile + WARPGROUPS, buffer ^ 1);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        asm volatile("fence.proxy.async;\nbar.sync %0, 128;" ::"r"(group + 1) : "memory");
        const int row = first + tile * ROWS;
        #pragma unroll 1
        for (int i = 0; i < TILES; i++) {
            if (row >= of_tile[i].stop) continue;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            #pragma unroll
            for (int k = 0; k < BITS / 256; k++) {
                const int panel = k * 32 / PANEL, within = k * 32 % PANEL;
                multiply(d,
                         operand(rows_at + buffer * ROWS * BYTES + panel * ROWS * PANEL + within),
                         operand(columns_at + i * COLUMNS * BYTES + panel * COLUMNS * PANEL + within),
                         k);
            }
            asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
            collect(d, of_tile[i].threshold, row + warp % 4 * 16, first_column + i * COLUMNS,
                    limits + i * COLUMNS, queue);
        }
        asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
    }
    queue.flush();
}
