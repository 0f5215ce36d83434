// Balanced codes of rows: a bit for each entry of the rotated row, half of them set.
//
//     x  = row, zeros up to LENGTH
//     x  = mixed(x * flips of the round), round by round
//     bit i < CODED is set where (x_i, -i) is among the CODED / 2 largest of these; -0 equals 0
//     sum = |x_0| + |x_1| + ... over the entries that are coded, in any order
//
// mixed: eight runs of LENGTH / 8 entries; entries i of all runs become the entries 8i ... 8i + 7,
// by an eight-point Walsh-Hadamard transform in a fixed order of additions, each rounded once.
//
//     runs     a0 a1 a2 ... | b0 b1 b2 ... | ... | h0 h1 h2 ...
//     mixed    a0±b0±...±h0 (eight of them) | a1±b1±...±h1 (eight) | ...
//
// One warp encodes a row. Entry 32 w + l is looked at by lane l, and is bit l of word w. The
// threshold is found bit by bit: the largest key that LENGTH / 2 keys reach.
//
// Compiled for LENGTH (a multiple of 8 where there are rounds), CODED (even, at most LENGTH) and BITS
// (a multiple of 256, at least CODED; bits past CODED are 0).
typedef unsigned int u32;
const u32 EVERY_LANE = 0xffffffffu;
const int WARPS = 4, RUN = LENGTH / 8, HALF = CODED / 2;
const int SHARE = (CODED + 31) / 32;      // entries of a lane
const int TURNS = (RUN + 31) / 32;        // eights that a lane mixes

__device__ __forceinline__ int sum_of_lanes(int value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(EVERY_LANE, value);
#else
    for (int other = 1; other < 32; other *= 2)
        value += __shfl_xor_sync(EVERY_LANE, value, other);
    return value;
#endif
}

// Replaces x, y by x + y, x - y
__device__ __forceinline__ void butterfly(float& x, float& y) {
    const float sum = __fadd_rn(x, y), difference = __fsub_rn(x, y);
    x = sum;
    y = difference;
}

__device__ __forceinline__ void mix(float* values, const float* __restrict__ flips, int lane) {
    float v[TURNS][8];
    #pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = turn * 32 + lane;
        #pragma unroll
        for (int r = 0; r < 8; r++)
            v[turn][r] = i < RUN ? __fmul_rn(values[r * RUN + i], flips[r * RUN + i]) : 0.0f;
        #pragma unroll
        for (int apart = 1; apart < 8; apart *= 2)
            #pragma unroll
            for (int r = 0; r < 8; r++)
                if (!(r & apart)) butterfly(v[turn][r], v[turn][r + apart]);
    }
    __syncwarp();
    #pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = turn * 32 + lane;
        #pragma unroll
        for (int r = 0; r < 8; r++)
            if (i < RUN) values[i * 8 + r] = v[turn][r];
    }
    __syncwarp();
}

// Orders like the numbers themselves
__device__ __forceinline__ u32 key_of(float value) {
    const u32 bits = __float_as_uint(__fadd_rn(value, 0.0f));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

extern "C" __global__ void __launch_bounds__(WARPS * 32) encode(
    const float* __restrict__ rows,     // IN (n_rows, dim), dim <= LENGTH
    int dim, int n_rows,
    const float* __restrict__ flips,    // IN (n_rounds, LENGTH)
    int n_rounds,
    u32* __restrict__ codes,            // OUT (n_rows, BITS / 32)
    float* __restrict__ sums)           // OUT (n_rows,), or null
{
    __shared__ float memory[WARPS][LENGTH];
    const int lane = threadIdx.x % 32;
    float* values = memory[threadIdx.x / 32];
    for (long long row = blockIdx.x * (long long)WARPS + threadIdx.x / 32; row < n_rows;
         row += (long long)gridDim.x * WARPS) {
        for (int i = lane; i < LENGTH; i += 32) values[i] = i < dim ? rows[row * dim + i] : 0.0f;
        __syncwarp();
        for (int round = 0; round < n_rounds; round++) mix(values, flips + round * LENGTH, lane);
        u32 key[SHARE];
        float sum = 0;
        #pragma unroll
        for (int w = 0; w < SHARE; w++)  // no key of a number is 0
            key[w] = w * 32 + lane < CODED ? key_of(values[w * 32 + lane]) : 0;
        if (sums) {
            for (int i = lane; i < CODED; i += 32) sum += fabsf(values[i]);
            for (int other = 1; other < 32; other *= 2)
                sum += __shfl_xor_sync(EVERY_LANE, sum, other);
            if (lane == 0) sums[row] = sum;
        }
        __syncwarp();

        u32 threshold = 0;
        for (int bit = 31; bit >= 0; bit--) {
            const u32 higher = threshold | 1u << bit;
            int n = 0;
            #pragma unroll
            for (int w = 0; w < SHARE; w++) n += key[w] >= higher;
            if (sum_of_lanes(n) >= HALF) threshold = higher;
        }
        int above = 0;
        #pragma unroll
        for (int w = 0; w < SHARE; w++) above += key[w] > threshold;
        int left = HALF - sum_of_lanes(above);  // of the entries that equal the threshold
        #pragma unroll
        for (int w = 0; w < BITS / 32; w++) {
            u32 word = 0;
            if (w < SHARE) {
                const u32 equal = __ballot_sync(EVERY_LANE, key[w < SHARE ? w : 0] == threshold);
                const bool first = __popc(equal & ((1u << lane) - 1)) < left;
                const bool set = key[w < SHARE ? w : 0] > threshold
                    || (key[w < SHARE ? w : 0] == threshold && first);
                word = __ballot_sync(EVERY_LANE, set);
                left = max(left - __popc(equal), 0);
            }
            if (lane == 0) codes[row * (BITS / 32) + w] = word;
        }
    }
}
