// What every join shares: which pairs pass, and the queue that takes them.
//
// A pair passes where popcount(row & column) >= threshold of the column, and row < stop of the
// column. Rows are numbered from 0; a stop below their number tests a triangle only.
//
// Every warp holds its products in fragments of 16 rows by N / 2 columns, as tensor cores do:
//
//              columns  0 1   2 3   4 5   6 7 | 8 9  ...
//    row 0     lane     0     1     2     3   | 0    ...     d[0] d[1] | d[4] d[5] ...
//    row 1              4     5     6     7   | 4
//     ...
//    row 7             28    29    30    31   | 28
//    row 8              0     1     2     3   | 0            d[2] d[3] | d[6] d[7] ...
//
// Nearly all fragments hold no survivor: the largest product is compared with the smallest
// threshold of the tile, and nothing else is done. Otherwise, groups of sixteen products of a lane
// that hold a large one are put aside, in shared memory, and the warp goes on: all four warps of a
// warpgroup would wait for it. When 32 groups lie there, each lane compares one with the limits of
// its columns, and one atomic addition makes room for all survivors. The count goes on when the
// queue is full, so that the host knows how much room to make.
typedef unsigned int u32;
typedef unsigned long long u64;
const u32 EVERY_LANE = 0xffffffffu;
const int GROUP = 16;    // products that are put aside together: 2 rows, 4 times 2 columns
const int SLOTS = 64;    // room of a warp for groups
const int NEVER = 0x7fffffff;

// Limits of N columns, in shared memory.
template <int N>
struct Limits {
    int thresholds[N], stops[N];
};

// Groups that a warp has put aside, in shared memory.
struct Aside {
    int rows[SLOTS], columns[SLOTS];    // of the first product; columns count from the block's
    u32 products[GROUP / 2][SLOTS];     // of two columns next to each other, in halves of a word
};

struct Queue {
    int2* pairs;            // OUT (capacity,): row, column
    u64* count;             // OUT how many pairs there are, in the queue or beyond its end
    u64 capacity;
    Aside* aside;
    const int* thresholds;  // of the columns of the block, in shared memory
    const int* stops;
    int first_column;       // of the block
    int n;                  // groups put aside; the same in all lanes

    // Queues what survives of the first 32 groups.
    __device__ __forceinline__ void resolve() {
        const int lane = threadIdx.x & 31;
        __syncwarp();
        const int row = aside->rows[lane], column = lane < n ? aside->columns[lane] : 0;
        u32 passed = 0;
        #pragma unroll
        for (int i = 0; i < GROUP; i++) {
            const u32 both = aside->products[i / 2][lane];
            const int product = i % 2 ? both >> 16 : both & 0xffff, c = column + i / 4 * 8 + i % 2;
            const bool passes = product >= thresholds[c] && row + i / 2 % 2 * 8 < stops[c];
            passed |= (u32)passes << i;
        }
        if (lane >= n) passed = 0;
        int before = __popc(passed);  // survivors of the lanes up to this one
        #pragma unroll
        for (int other = 1; other < 32; other *= 2) {
            const int more = __shfl_up_sync(EVERY_LANE, before, other);
            before += lane >= other ? more : 0;
        }
        u64 at = 0;
        if (lane == 31 && before) at = atomicAdd(count, (u64)before);
        at = __shfl_sync(EVERY_LANE, at, 31) + before - __popc(passed);
        for (; passed; passed &= passed - 1, at++) {
            const int i = __ffs(passed) - 1;
            if (at < capacity)
                pairs[at] = make_int2(row + i / 2 % 2 * 8,
                                      first_column + column + i / 4 * 8 + i % 2);
        }
        aside->rows[lane] = aside->rows[lane + 32];
        aside->columns[lane] = aside->columns[lane + 32];
        #pragma unroll
        for (int i = 0; i < GROUP / 2; i++)
            aside->products[i][lane] = aside->products[i][lane + 32];
        __syncwarp();
        n = max(n - 32, 0);
    }

    __device__ void close() {
        while (n) resolve();
    }
};

// Reads the limits of the columns of a block; columns that do not exist let nothing pass.
// Fills the smallest threshold and the largest stop of each of M tiles of columns.
template <int N, int M>
__device__ void read_limits(
    const short* thresholds, const int* stops, int row_end, int first, int n_columns,
    Limits<N>& limits, Limits<M>& of_tile)
{
    for (int i = threadIdx.x; i < M; i += blockDim.x) {
        of_tile.thresholds[i] = NEVER;
        of_tile.stops[i] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < N; i += blockDim.x) {
        const bool exists = first + i < n_columns;
        limits.thresholds[i] = exists ? thresholds[first + i] : NEVER;
        limits.stops[i] = !exists ? 0 : stops ? min(stops[first + i], row_end) : row_end;
        atomicMin(&of_tile.thresholds[i / (N / M)], limits.thresholds[i]);
        atomicMax(&of_tile.stops[i / (N / M)], limits.stops[i]);
    }
    __syncthreads();
}

// The larger product, or both where two are packed: all products are below 2048, and cards that
// can compare halves of registers compare two at once.
__device__ __forceinline__ u32 larger(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 900
    u32 both;
    asm("max.u16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));
    return both;
#else
    return max(a, b);
#endif
}

// Two products packed, by a multiplication: other units do it than those that compare
__device__ __forceinline__ u32 packed(int a, int b) {
#if __CUDA_ARCH__ >= 900
    return b * 65536u + a;
#else
    return max(a, b);
#endif
}

__device__ __forceinline__ bool reaches(u32 packed, int threshold) {
#if __CUDA_ARCH__ >= 900
    packed = max(packed & 0xffff, packed >> 16);
#endif
    return (int)packed >= threshold;
}

// Puts aside what may survive of a fragment; `column` counts from that of the block.
template <int N>
__device__ __forceinline__ void collect(
    const int (&d)[N], int lowest, int row, int column, Queue& queue)
{
    const int GROUPS = N / GROUP;
    u32 best[GROUPS], most = 0;
    #pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        best[g] = packed(d[g * GROUP], d[g * GROUP + 1]);
        #pragma unroll
        for (int i = 2; i < GROUP; i += 2)
            best[g] = larger(best[g], packed(d[g * GROUP + i], d[g * GROUP + i + 1]));
        most = larger(most, best[g]);
    }
    if (!__any_sync(EVERY_LANE, reaches(most, lowest))) return;

    const int lane = threadIdx.x & 31;
    u32 lanes[GROUPS], left = 0;
    #pragma unroll
    for (int g = 0; g < GROUPS; g++) lanes[g] = __ballot_sync(EVERY_LANE, reaches(best[g], lowest));
    do {
        left = 0;
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            if (lanes[g] && queue.n < SLOTS - 32) {
                if (lanes[g] >> lane & 1) {
                    const int slot = queue.n + __popc(lanes[g] & ((1u << lane) - 1));
                    queue.aside->rows[slot] = row + lane / 4;
                    queue.aside->columns[slot] = column + g * 32 + lane % 4 * 2;
                    #pragma unroll
                    for (int i = 0; i < GROUP / 2; i++) {
                        const int j = g * GROUP + i * 2;
                        queue.aside->products[i][slot] = d[j + 1] * 65536u + d[j];
                    }
                }
                queue.n += __popc(lanes[g]);
                lanes[g] = 0;
            }
            left |= lanes[g];
        }
        if (queue.n >= 32) queue.resolve();
    } while (left);
}

#if __CUDA_ARCH__ >= 800
// Copies 16 bytes to shared memory without waiting; zeros where there is nothing to copy.
__device__ __forceinline__ void copy_16(u32 to, const uint4* from, bool exists) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(exists ? 16 : 0));
}
#endif
