// The unit on which a row scores highest, of those that products in halves were made of; `rows.cu`
// comes before it. Of units that score alike, the first.
//
//     products      units first_unit ...             a warp takes a row, 32 times 8 products
//     row 0         p p p p p p p p | p p ...        at a time
extern "C" __global__ void __launch_bounds__(256) nearest(
    const uint4* __restrict__ products,     // IN halves (n_rows, n_units), n_units a multiple of 8
    int n_rows, int n_units, int n_real,    // units past n_real are none
    int first_unit,
    float* __restrict__ best,               // INOUT (n_rows,): the highest score so far
    int* __restrict__ labels)               // INOUT (n_rows,): the unit that it is of
{
    const int lane = threadIdx.x % 32, eights = n_units / 8;
    for (long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32; row < n_rows;
         row += (long long)gridDim.x * blockDim.x / 32) {
        const uint4* own = products + row * eights;
        float high = -3.4e38f;
        int unit = 0x7fffffff;
        for (int at = lane; at < eights; at += 32) {
            const uint4 eight = own[at];
            const u32 words[4] = {eight.x, eight.y, eight.z, eight.w};
            #pragma unroll
            for (int i = 0; i < 8; i++) {
                const float score = (float)widened((unsigned short)(words[i / 2] >> 16 * (i % 2)));
                if (at * 8 + i < n_real && score > high) {
                    high = score;
                    unit = at * 8 + i;
                }
            }
        }
        for (int other = 16; other > 0; other /= 2) {
            const float there = __shfl_xor_sync(EVERY_LANE, high, other);
            const int that = __shfl_xor_sync(EVERY_LANE, unit, other);
            if (there > high || (there == high && that < unit)) {
                high = there;
                unit = that;
            }
        }
        if (lane == 0 && high > best[row]) {
            best[row] = high;
            labels[row] = first_unit + unit;
        }
    }
}
