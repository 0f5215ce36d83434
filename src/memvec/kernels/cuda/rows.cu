// Entries of stored rows as numbers. STORED is 0 for float32, 1 for halves, 2 for int8.
typedef unsigned int u32;
typedef unsigned long long u64;
const u32 EVERY_LANE = 0xffffffffu;

template <int KIND> struct Entry { typedef float type; };
template <> struct Entry<1> { typedef unsigned short type; };
template <> struct Entry<2> { typedef signed char type; };
template <> struct Entry<3> { typedef double type; };

__device__ __forceinline__ double widened(float entry) { return entry; }
__device__ __forceinline__ double widened(double entry) { return entry; }
__device__ __forceinline__ double widened(signed char entry) { return entry; }
__device__ __forceinline__ double widened(unsigned short half) {
    float entry;
    asm("cvt.f32.f16 %0, %1;" : "=f"(entry) : "h"(half));
    return entry;
}

__device__ __forceinline__ unsigned short half_of(float entry) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(entry));
    return half;
}

// The sum of eight partial sums, from the first to the last, in all eight lanes
__device__ __forceinline__ double sum_in_order(double partial) {
    const int first = threadIdx.x % 32 / 8 * 8;
    double sum = __shfl_sync(EVERY_LANE, partial, first);
    for (int lane = 1; lane < 8; lane++)
        sum = __dadd_rn(sum, __shfl_sync(EVERY_LANE, partial, first + lane));
    return sum;
}
