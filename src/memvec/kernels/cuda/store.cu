// Rows scaled to norm 1 and stored; `rows.cu` comes before it. A warp takes a row.
//
//     w = x / max|x|,  norm = sqrt(w_0^2 + w_1^2 + ...) from left to right, in float64
//     u = float32(w / norm); x itself where x is float32 and its norm is 1 but for `tolerance`
//     stored: u, or u / max|u| in halves, or u / max|u| * 127 in int8, in float32, to the nearest
//     s = 1 / norm of what is stored;  the unit row is then float32(stored * s)
//
// Every operation is rounded once: the CPU gives the same bytes.
//
// Compiled for GIVEN (0 float32, 1 halves, 3 float64) and STORED (0 float32, 1 halves, 2 int8).
typedef Entry<GIVEN>::type Given;
typedef Entry<STORED>::type Stored;

__device__ __forceinline__ double largest_of_lanes(double value) {
    for (int other = 1; other < 32; other *= 2)  // NaN goes on to all lanes
        value = [](double a, double b) { return a != a || a > b ? a : b; }(
            value, __shfl_xor_sync(EVERY_LANE, value, other));
    return value;
}

extern "C" __global__ void __launch_bounds__(128) store(
    const Given* __restrict__ rows,        // IN (n_rows, dim)
    int dim, long long n_rows, double tolerance,
    float* __restrict__ unit_rows,         // OUT (n_rows, dim): what stored rows stand for
    Stored* __restrict__ stored,           // OUT (n_rows, width), zeros past dim; null for float32
    int width,
    double* __restrict__ scales,           // OUT (n_rows,); null for float32
    u64* __restrict__ unusable)            // OUT the first row without a direction
{
    const int lane = threadIdx.x % 32;
    for (long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32; row < n_rows;
         row += (long long)gridDim.x * blockDim.x / 32) {
        const Given* x = rows + row * dim;
        float* u = unit_rows + row * dim;
        double peak = 0;
        for (int j = lane; j < dim; j += 32) {
            const double size = fabs(widened(x[j]));
            peak = size != size || size > peak ? size : peak;
            if (size != size) break;
        }
        peak = largest_of_lanes(peak);
        if (!(peak > 0) || peak > 1.7976931348623157e308) {
            if (lane == 0) atomicMin(unusable, (u64)row);
            continue;
        }
        double sum = 0;
        for (int first = 0; first < dim; first += 32) {
            const int j = first + lane;
            const double w = j < dim ? __ddiv_rn(widened(x[j]), peak) : 0;
            const double square = __dmul_rn(w, w);
            for (int k = 0; k < 32; k++)  // zeros past the end change nothing
                sum = __dadd_rn(sum, __shfl_sync(EVERY_LANE, square, k));
        }
        const double norm = __dsqrt_rn(sum);
        const bool ready = GIVEN == 0 && fabs(__dmul_rn(norm, peak) - 1.0) <= tolerance;
        float top = 0;
        for (int j = lane; j < dim; j += 32) {
            const float entry = ready ? (float)widened(x[j])
                                      : (float)__ddiv_rn(__ddiv_rn(widened(x[j]), peak), norm);
            u[j] = entry;
            top = fmaxf(top, fabsf(entry));
        }
        if (STORED == 0) continue;
        for (int other = 1; other < 32; other *= 2)
            top = fmaxf(top, __shfl_xor_sync(EVERY_LANE, top, other));
        Stored* kept = stored + row * width;
        long long squares = 0;
        for (int j = lane; j < width; j += 32) {
            const float share = j < dim ? __fdiv_rn(u[j], top) : 0;
#if STORED == 2
            const int entry = __float2int_rn(__fmul_rn(share, 127.0f));
            kept[j] = (signed char)entry;
            squares += entry * entry;
#elif STORED == 1
            kept[j] = half_of(share);
#endif
        }
#if STORED == 2
        for (int other = 1; other < 32; other *= 2)
            squares += __shfl_xor_sync(EVERY_LANE, squares, other);
        const double square = (double)squares;
#else
        __syncwarp();
        double partial = 0;  // four times the same: lanes past the eighth repeat the first ones
        for (int j = lane % 8; j < dim; j += 8)
            partial = __fma_rn(widened(kept[j]), widened(kept[j]), partial);
        const double square = sum_in_order(partial);
#endif
        const double scale = __ddiv_rn(1.0, __dsqrt_rn(square));
        if (lane == 0) scales[row] = scale;
        for (int j = lane; j < dim; j += 32) u[j] = (float)__dmul_rn(widened(kept[j]), scale);
    }
}
