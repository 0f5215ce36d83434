// Memory vectors: m_u = sum of w_i x_i over the members of a unit, in their order.
//
//     unit u: slots offsets[u] ... offsets[u + 1] - 1, rows order[slot];  a block takes a unit, a
//             thread every 128th entry of m_u
extern "C" __global__ void __launch_bounds__(128) combine(
    const float* __restrict__ rows,      // IN (n_rows, dim)
    int dim,
    const int* __restrict__ order,       // IN the row of each slot
    const int* __restrict__ offsets,     // IN (n_units + 1,)
    int n_units,
    const float* __restrict__ weights,   // IN by slot; null where all are 1
    float* __restrict__ vectors)         // OUT (n_units, dim)
{
    for (int unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
        const int first = offsets[unit], last = offsets[unit + 1];
        for (int k = threadIdx.x; k < dim; k += blockDim.x) {
            float sum = 0;
            #pragma unroll 4
            for (int slot = first; slot < last; slot++)
                sum = fmaf(weights ? weights[slot] : 1.0f,
                           rows[(long long)order[slot] * dim + k], sum);
            vectors[(long long)unit * dim + k] = sum;
        }
    }
}
