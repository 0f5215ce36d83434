// Weights of the members of units: G w = 1 with G_ij = x_i . x_j, by Cholesky, one block a unit.
//
//     G = L L^T;   L z = 1;   L^T w = z;   w = 0 where a pivot falls below `cut` times the trace
//
//     unit u: slots begins[u] ... ends[u] - 1, rows order[slot];  a warp takes an entry of
//             the lower triangle of G, its lanes every 32nd product
//
// Such units have members that depend on each other; `easy` tells which have none. Units of more
// than MOST members are not solved. Sums have a fixed order.
//
// Compiled for MOST, at most 128.
extern "C" __global__ void __launch_bounds__(128) weights(
    const float* __restrict__ rows,      // IN (n_rows, dim)
    int dim,
    const int* __restrict__ order,       // IN the row of each slot
    const int* __restrict__ offsets,     // IN (n_units + 1,): where the slots of units begin
    int n_units, double cut,
    float* __restrict__ weights,         // OUT by slot
    unsigned char* __restrict__ easy)    // OUT (n_units,)
{
    __shared__ double l[MOST * (MOST + 1) / 2], column[MOST];
    const int t = threadIdx.x, lane = t % 32;
    for (int unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
        const int first = offsets[unit], n = offsets[unit + 1] - first;
        if (n > MOST || n == 0) {
            for (int i = t; i < n; i += blockDim.x) weights[first + i] = 0;
            if (t == 0) easy[unit] = 0;
            continue;
        }
        __syncthreads();  // the unit before is done
        for (int i = 0, j = t / 32; i < n; j += blockDim.x / 32) {
            while (j > i) j -= ++i;
            if (i >= n) break;
            const float* x = rows + (long long)order[first + i] * dim;
            const float* y = rows + (long long)order[first + j] * dim;
            float sum = 0;
            for (int k = lane; k < dim; k += 32) sum = fmaf(x[k], y[k], sum);
            for (int other = 16; other > 0; other /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, other);
            if (lane == 0) l[i * (i + 1) / 2 + j] = sum;
        }
        __syncthreads();
        double trace = 0;
        for (int i = 0; i < n; i++) trace += l[i * (i + 1) / 2 + i];
        __syncthreads();  // all have seen the diagonal
        bool solved = true;
        for (int j = 0; j < n; j++) {
            if (t >= j && t < n) {
                double sum = l[t * (t + 1) / 2 + j];
                for (int k = 0; k < j; k++) sum -= l[t * (t + 1) / 2 + k] * l[j * (j + 1) / 2 + k];
                column[t] = sum;
            }
            __syncthreads();
            const double pivot = column[j];
            solved = solved && pivot > cut * trace;
            const double root = sqrt(fmax(pivot, cut * trace));
            if (t >= j && t < n) l[t * (t + 1) / 2 + j] = t == j ? root : column[t] / root;
            __syncthreads();
        }
        if (t == 0) {
            for (int i = 0; i < n; i++) {
                double sum = 1;
                for (int k = 0; k < i; k++) sum -= l[i * (i + 1) / 2 + k] * column[k];
                column[i] = sum / l[i * (i + 1) / 2 + i];
            }
            for (int i = n - 1; i >= 0; i--) {
                double sum = column[i];
                for (int k = i + 1; k < n; k++) sum -= l[k * (k + 1) / 2 + i] * column[k];
                column[i] = sum / l[i * (i + 1) / 2 + i];
            }
            easy[unit] = solved;
        }
        __syncthreads();
        for (int i = t; i < n; i += blockDim.x) weights[first + i] = solved ? (float)column[i] : 0;
    }
}
