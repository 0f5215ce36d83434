// Canonical scores of given pairs of int8 rows.
//
//     score = float64(x . y) * (s_x * s_y),   x . y an integer, each product rounded once
//
// Eight lanes share a pair, 16 bytes each at a time:
//
//     bytes    0-15   16-31  ...  112-127 | 128-143 ...
//     lane     0      1      ...  7       | 0       ...
//
// Rows take a multiple of 16 bytes: zeros follow their entries.
extern "C" __global__ void __launch_bounds__(256) score_int8(
    const int4* __restrict__ left,             // IN int8 (n_left, chunks * 16)
    const double* __restrict__ left_scales,    // IN (n_left,)
    const int4* __restrict__ right,            // IN int8 (n_right, chunks * 16)
    const double* __restrict__ right_scales,   // IN (n_right,)
    int chunks,
    const int2* __restrict__ pairs,            // IN (n_pairs,): row of left, row of right
    long long n_pairs,
    double* __restrict__ scores)               // OUT (n_pairs,)
{
    const int part = threadIdx.x % 8;
    const long long step = (long long)gridDim.x * blockDim.x / 8;
    const long long own = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 8;
    for (long long base = own / 4 * 4; base < n_pairs; base += step) {  // the same in all lanes
        const long long at = base + own % 4;
        const int2 pair = at < n_pairs ? pairs[at] : make_int2(0, 0);
        const int4* x = left + (long long)pair.x * chunks;
        const int4* y = right + (long long)pair.y * chunks;
        int product = 0;
        #pragma unroll 4
        for (int c = part; c < chunks; c += 8) {
            const int4 a = x[c], b = y[c];
            product = __dp4a(a.x, b.x, product);
            product = __dp4a(a.y, b.y, product);
            product = __dp4a(a.z, b.z, product);
            product = __dp4a(a.w, b.w, product);
        }
        for (int other = 1; other < 8; other *= 2)
            product += __shfl_xor_sync(0xffffffffu, product, other);
        if (part == 0 && at < n_pairs)
            scores[at] = __dmul_rn((double)product,
                                   __dmul_rn(left_scales[pair.x], right_scales[pair.y]));
    }
}
