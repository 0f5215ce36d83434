// Codes that several lanes read together: what scans and tests of members share.
//
// LANES lanes share a code, 16 bytes each, and SHARE times so where a code has more:
//
//     LANES = 8, SHARE = 1: 1024 bits     bytes  0-15  16-31  ...  112-127
//                                         lane   0     1      ...  7
//     LANES = 2, SHARE = 3: 768 bits      bytes  0-15  16-31 | 32-47  48-63 | 64-79  80-95
//                                         lane   0     1     | 0      1     | 0      1
//
// Compiled for BITS.
typedef unsigned int u32;
typedef unsigned long long u64;
const u32 EVERY_LANE = 0xffffffffu;
const int CHUNKS = BITS / 128;
const int LANES = CHUNKS % 16 == 0 ? 16 : CHUNKS % 8 == 0 ? 8 : CHUNKS % 4 == 0 ? 4 : 2;
const int SHARE = CHUNKS / LANES;

// Bits that a lane sees in both of two codes
__device__ __forceinline__ int seen_in_both(const uint4 (&a)[SHARE], const uint4 (&b)[SHARE]) {
    int n = 0;
    #pragma unroll
    for (int s = 0; s < SHARE; s++)
        n += __popc(a[s].x & b[s].x) + __popc(a[s].y & b[s].y) + __popc(a[s].z & b[s].z)
           + __popc(a[s].w & b[s].w);
    return n;
}

// Bits in which two codes differ, as a lane sees them; above 2^16, those of the first WORDS words of
// 64 bits alone.
template <int WORDS>
__device__ __forceinline__ int seen_to_differ(const uint4 (&a)[SHARE], const uint4 (&b)[SHARE]) {
    int n = 0;
    #pragma unroll
    for (int s = 0; s < SHARE; s++) {
        const int low = __popc(a[s].x ^ b[s].x) + __popc(a[s].y ^ b[s].y);
        const int high = __popc(a[s].z ^ b[s].z) + __popc(a[s].w ^ b[s].w);
        const int word = 2 * (threadIdx.x % LANES + s * LANES);
        n += low + high;
        if (WORDS) n += (word < WORDS ? low << 16 : 0) + (word + 1 < WORDS ? high << 16 : 0);
    }
    return n;
}

// The sum over the lanes that share a code
__device__ __forceinline__ int sum_of_sharers(int value) {
    #pragma unroll
    for (int other = 1; other < LANES; other *= 2)
        value += __shfl_xor_sync(EVERY_LANE, value, other);
    return value;
}

// The place in a queue of each lane that has something to append, by one atomic addition
__device__ __forceinline__ u64 place_in_queue(u64* count, u32 lanes) {
    const int lane = threadIdx.x & 31;
    u64 at = 0;
    if (lane == 0) at = atomicAdd(count, (u64)__popc(lanes));
    return __shfl_sync(EVERY_LANE, at, 0) + __popc(lanes & ((1u << lane) - 1));
}
