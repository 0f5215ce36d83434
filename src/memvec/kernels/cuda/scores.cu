// Canonical scores of pairs of stored rows; those that reach the lowest are kept. `rows.cu` comes
// before it.
//
//     score = (x . y) * (s_x * s_y), in float64; s = 1 for float32
//     x . y = p_0 + p_1 + ... + p_7 from left to right, p_l the sum over entries l, l + 8, l + 16 ...
//             from left to right; of int8 an integer, in any order
//
// Eight lanes share a pair. Of int8, each reads 16 bytes at a time; rows take a multiple of that:
//
//     bytes    0-15   16-31  ...  112-127 | 128-143 ...
//     lane     0      1      ...  7       | 0       ...
//
// Compiled for STORED.
typedef Entry<STORED>::type Stored;

__device__ __forceinline__ double product(const Stored* x, const Stored* y, int dim) {
    const int part = threadIdx.x % 8;
#if STORED == 2
    int sum = 0;
    #pragma unroll 4
    for (int c = part; c < dim / 16; c += 8) {
        const int4 a = ((const int4*)x)[c], b = ((const int4*)y)[c];
        sum = __dp4a(a.x, b.x, sum);
        sum = __dp4a(a.y, b.y, sum);
        sum = __dp4a(a.z, b.z, sum);
        sum = __dp4a(a.w, b.w, sum);
    }
    for (int other = 1; other < 8; other *= 2) sum += __shfl_xor_sync(EVERY_LANE, sum, other);
    return sum;
#else
    double sum = 0;
    #pragma unroll 4
    for (int j = part; j < dim; j += 8)  // products are exact: fused or not, the sum is the same
        sum = __fma_rn(widened(x[j]), widened(y[j]), sum);
    return sum_in_order(sum);
#endif
}

extern "C" __global__ void __launch_bounds__(256) score(
    const Stored* __restrict__ left,           // IN (n_left, dim)
    const double* __restrict__ left_scales,    // IN (n_left,), or null: 1
    const int* __restrict__ left_places,       // IN where the rows lie that pairs name; null: there
    const Stored* __restrict__ right,          // IN (n_right, dim)
    const double* __restrict__ right_scales,   // IN (n_right,), or null: 1
    const int* __restrict__ right_places,      // IN, or null
    int dim,
    const unsigned char* __restrict__ allowed, // IN by place on the right, or null: all
    const int2* __restrict__ pairs,            // IN (pair_room,): row of left, row of right
    const u64* n_pairs, u64 pair_room,
    double lowest,
    int2* hits,                                // OUT (capacity,): row of left, place on the right
    double* scores,                            // OUT (capacity,)
    u64* count,                                // OUT how many there are, or would be with room
    u64 capacity)
{
    const int lane = threadIdx.x % 32, part = lane % 8;
    const long long n = min(*n_pairs, pair_room);
    const long long step = (long long)gridDim.x * blockDim.x / 8;
    const long long own = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 8;
    for (long long base = own / 4 * 4; base < n; base += step) {  // the same in all lanes
        const long long at = base + own % 4;
        const int2 pair = at < n ? pairs[at] : pairs[base];
        const long long x = left_places ? left_places[pair.x] : pair.x;
        const long long y = right_places ? right_places[pair.y] : pair.y;
        double score = product(left + x * dim, right + y * dim, dim);
        if (left_scales) score = __dmul_rn(score, __dmul_rn(left_scales[x], right_scales[y]));
        const bool kept = part == 0 && at < n && score >= lowest && (!allowed || allowed[y]);
        const u32 lanes = __ballot_sync(EVERY_LANE, kept);
        if (!lanes) continue;
        u64 place = 0;
        if (lane == 0) place = atomicAdd(count, (u64)__popc(lanes));
        place = __shfl_sync(EVERY_LANE, place, 0) + __popc(lanes & ((1u << lane) - 1));
        if (kept && place < capacity) {
            hits[place] = make_int2(pair.x, (int)y);
            scores[place] = score;
        }
    }
}
