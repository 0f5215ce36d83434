// Weights of the members of units: G w = 1, by Cholesky, one thread a unit.
//
//     G = L L^T;   L z = 1;   L^T w = z;   w = 0 where a pivot falls below `cut` times the trace
//
// Such units have members that depend on each other; `easy` tells which have none.
//
// Compiled for SIZE, the members of a unit.
extern "C" __global__ void __launch_bounds__(128) solve(
    const float* __restrict__ grams,     // IN (n_units, SIZE, SIZE)
    int n_units, double cut,
    float* __restrict__ weights,         // OUT (n_units, SIZE)
    unsigned char* __restrict__ easy)    // OUT (n_units,)
{
    const int unit = blockIdx.x * blockDim.x + threadIdx.x;
    if (unit >= n_units) return;
    const float* gram = grams + (long long)unit * SIZE * SIZE;
    double l[SIZE * (SIZE + 1) / 2], z[SIZE], trace = 0;
    for (int i = 0; i < SIZE; i++) trace += gram[i * SIZE + i];
    bool solved = true;
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = gram[i * SIZE + j];
            for (int k = 0; k < j; k++) sum -= l[i * (i + 1) / 2 + k] * l[j * (j + 1) / 2 + k];
            if (i == j) {
                solved = solved && sum > cut * trace;
                l[i * (i + 1) / 2 + i] = sqrt(fmax(sum, cut * trace));
            } else {
                l[i * (i + 1) / 2 + j] = sum / l[j * (j + 1) / 2 + j];
            }
        }
        double sum = 1;
        for (int k = 0; k < i; k++) sum -= l[i * (i + 1) / 2 + k] * z[k];
        z[i] = sum / l[i * (i + 1) / 2 + i];
    }
    for (int i = SIZE - 1; i >= 0; i--) {
        double sum = z[i];
        for (int k = i + 1; k < SIZE; k++) sum -= l[k * (k + 1) / 2 + i] * z[k];
        z[i] = sum / l[i * (i + 1) / 2 + i];
    }
    for (int i = 0; i < SIZE; i++) weights[(long long)unit * SIZE + i] = solved ? (float)z[i] : 0;
    easy[unit] = solved;
}
