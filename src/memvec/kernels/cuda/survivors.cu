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
// threshold of the tile, and nothing else is done. Otherwise the sixteen products of a lane that
// hold a large one are compared with the thresholds of their own columns.
//
// Survivors first go to a part of the queue that a warp has in shared memory, without atomics.
// A full part is moved to the queue by one atomic addition. The count goes on when the queue is
// full, so that the host knows how much room to make.
typedef unsigned int u32;
typedef unsigned long long u64;
const u32 EVERY_LANE = 0xffffffffu;
const int PART = 64;     // pairs that a warp keeps in shared memory
const int GROUP = 16;    // products that are compared together
const int NEVER = 0x7fffffff;

struct Limit {
    int threshold, stop;
};

struct Queue {
    int2* pairs;        // OUT (capacity,): row, column
    u64* count;         // OUT how many pairs there are, in the queue or beyond its end
    u64 capacity;
    int2* part;         // this warp's part, in shared memory
    int n;              // pairs in the part; the same in all lanes

    __device__ void flush() {
        const int lane = threadIdx.x & 31;
        u64 at = 0;
        __syncwarp();
        if (lane == 0 && n) at = atomicAdd(count, (u64)n);
        at = __shfl_sync(EVERY_LANE, at, 0);
        for (int i = lane; i < n; i += 32)
            if (at + i < capacity) pairs[at + i] = part[i];
        __syncwarp();
        n = 0;
    }
};

// Reads the limits of the columns of a block; limits of columns that do not exist let nothing pass.
// Fills the smallest threshold and the largest stop of each tile of `tile` columns.
__device__ void read_limits(
    const short* thresholds, const int* stops, int row_end, int first, int n_columns, int tile,
    int n_limits, Limit* limits, Limit* of_tile)
{
    for (int i = threadIdx.x; i < n_limits / tile; i += blockDim.x) of_tile[i] = {NEVER, 0};
    __syncthreads();
    for (int i = threadIdx.x; i < n_limits; i += blockDim.x) {
        Limit limit = {NEVER, 0};
        if (first + i < n_columns) {
            limit.threshold = thresholds[first + i];
            limit.stop = stops ? min(stops[first + i], row_end) : row_end;
        }
        limits[i] = limit;
        atomicMin(&of_tile[i / tile].threshold, limit.threshold);
        atomicMax(&of_tile[i / tile].stop, limit.stop);
    }
    __syncthreads();
}

// Queues the pairs of a fragment that pass; `limits` are those of its columns.
template <int N>
__device__ __forceinline__ void collect(
    const int (&d)[N], int lowest, int row, int column, const Limit* limits, Queue& queue)
{
    int best[N / GROUP], most = 0;
    #pragma unroll
    for (int g = 0; g < N / GROUP; g++) {
        best[g] = d[g * GROUP];
        #pragma unroll
        for (int i = 1; i < GROUP; i++) best[g] = max(best[g], d[g * GROUP + i]);
        most = g ? max(most, best[g]) : best[g];
    }
    if (!__any_sync(EVERY_LANE, most >= lowest)) return;

    const int lane = threadIdx.x & 31;
    const int lane_row = row + lane / 4, lane_column = lane % 4 * 2;
    u32 passed[(N + 31) / 32] = {};
    #pragma unroll
    for (int g = 0; g < N / GROUP; g++) {
        if (!__any_sync(EVERY_LANE, best[g] >= lowest)) continue;
        #pragma unroll
        for (int i = 0; i < GROUP; i++) {
            const int j = g * GROUP + i;
            const Limit limit = limits[j / 4 * 8 + lane_column + j % 2];
            const bool passes = d[j] >= limit.threshold && lane_row + j / 2 % 2 * 8 < limit.stop;
            passed[j / 32] |= (u32)passes << j % 32;
        }
    }
    for (;;) {
        int j = -1;  // the next survivor of this lane
        #pragma unroll
        for (int w = 0; w < (N + 31) / 32; w++) {
            if (j < 0 && passed[w]) {
                j = w * 32 + __ffs(passed[w]) - 1;
                passed[w] &= passed[w] - 1;
            }
        }
        const u32 lanes = __ballot_sync(EVERY_LANE, j >= 0);
        if (!lanes) return;
        if (queue.n > PART - 32) queue.flush();
        if (j >= 0)
            queue.part[queue.n + __popc(lanes & ((1u << lane) - 1))] =
                make_int2(lane_row + j / 2 % 2 * 8, column + j / 4 * 8 + lane_column + j % 2);
        queue.n += __popc(lanes);
    }
}

#if __CUDA_ARCH__ >= 800
// Copies 16 bytes to shared memory without waiting; zeros where there is nothing to copy.
__device__ __forceinline__ void copy_16(u32 to, const uint4* from, bool exists) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(exists ? 16 : 0));
}
#endif
