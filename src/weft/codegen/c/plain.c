// Helpers that all flavours share: conversions of 16-bit floats, and what keeps compilers in hand.

//@ bits
/* A float and its bits. */
typedef union weft_bits {
    float number;
    uint32_t bits;
} weft_bits;

//@ f16_to_f32
/* Half precision to single; exact. */
#if defined(__GNUC__) && defined(__F16C__)
#include <immintrin.h>
static float weft_f16_to_f32(uint16_t code)
{
    return _cvtsh_ss(code);
}
#else
static float weft_f16_to_f32(uint16_t code)
{
    const uint32_t sign = ((uint32_t)code & 0x8000u) << 16;
    const uint32_t rest = (uint32_t)code & 0x7fffu;
    weft_bits result;
    if (rest >= 0x7c00u) {
        result.bits = 0x7f800000u | (rest << 13);
    } else if (rest >= 0x0400u) {
        result.bits = (rest << 13) + 0x38000000u;
    } else {
        result.number = (float)(int)rest * 5.9604644775390625e-8f;
    }
    result.bits |= sign;
    return result.number;
}
#endif

//@ f32_to_f16
/* Single precision to half; rounds to nearest, ties to even. */
#if defined(__GNUC__) && defined(__F16C__)
#include <immintrin.h>
static uint16_t weft_f32_to_f16(float number)
{
    return _cvtss_sh(number, 0);
}
#else
static uint16_t weft_f32_to_f16(float number)
{
    weft_bits value;
    uint32_t sign;
    value.number = number;
    sign = (value.bits >> 16) & 0x8000u;
    value.bits &= 0x7fffffffu;
    if (value.bits > 0x7f800000u) {
        value.bits = 0x7e00u;
    } else if (value.bits >= 0x477ff000u) {
        value.bits = 0x7c00u;
    } else if (value.bits < 0x38800000u) {
        value.number += 0.5f; /* the last bit of [0.5, 1) is that of subnormal halves */
        value.bits -= 0x3f000000u;
    } else {
        value.bits += 0x0fffu + ((value.bits >> 13) & 1u);
        value.bits = (value.bits - 0x38000000u) >> 13;
    }
    return (uint16_t)(sign | value.bits);
}
#endif

//@ bf16_to_f32
/* bfloat16 to single; exact. */
static float weft_bf16_to_f32(uint16_t brain)
{
    weft_bits result;
    result.bits = (uint32_t)brain << 16;
    return result.number;
}

//@ f32_to_bf16
/* Single precision to bfloat16; rounds to nearest, ties to even. */
static uint16_t weft_f32_to_bf16(float number)
{
    weft_bits value;
    value.number = number;
    if ((value.bits & 0x7fffffffu) > 0x7f800000u) {
        value.bits |= 0x00400000u;
    } else {
        value.bits += 0x7fffu + ((value.bits >> 16) & 1u);
    }
    return (uint16_t)(value.bits >> 16);
}

//@ f64_to_odd
/* Double to single, rounded to odd: rounding once more to half precision is then right. */
static float weft_f64_to_odd(double number)
{
    weft_bits result;
    double back;
    result.number = (float)number;
    back = (double)result.number;
    if (back != number && number - number == 0.0 && (result.bits & 1u) == 0u) {
        if ((result.bits & 0x7fffffffu) != 0x7f800000u) {
            result.bits += ((back < number) == (number > 0.0)) ? 1u : 0xffffffffu;
        }
    }
    return result.number;
}

//@ fetch
/* Fetches memory that will be read soon. */
static void weft_fetch(const void *memory, int bytes)
{
    const unsigned char *const first = (const unsigned char *)memory;
    int at;
    for (at = 0; at < bytes; at += 64) {
        __builtin_prefetch(first + at, 0, 2);
    }
}

//@ WEFT_LANES
// Four steps that are left are unrolled: 16 floats in vectors of 4, as every machine has them.
/* gcc unrolls loops of up to 16 steps before it looks for vectors, and then finds few.  This
   keeps a loop over lanes until they are vectors. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__)
#define WEFT_LANES _Pragma("GCC unroll 4")
#else
#define WEFT_LANES
#endif

//@ WEFT_FOUR
// C89 of four small networks takes 0.4 to 0.8 of the time (gcc 12 -O3, AVX2); -O2 unrolls none.
/* gcc -O3 unrolls loops of four steps before it looks for vectors, and then finds few.  Where
   vectors hold four floats, this keeps such a loop until it is one. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__) \
        && (defined(__SSE2__) || defined(__ARM_NEON) || defined(__ALTIVEC__))
#define WEFT_FOUR _Pragma("GCC unroll 1")
#else
#define WEFT_FOUR
#endif

//@ WEFT_SUMS
// By gcc 12 -O2, a fifth fewer instructions of a keyword spotter on a Cortex-M4.
/* Where no vectors shorten a loop over many sums, this unrolls it. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__) \
        && !defined(__SSE2__) && !defined(__ARM_NEON) && !defined(__ALTIVEC__)
#define WEFT_SUMS _Pragma("GCC unroll 8")
#else
#define WEFT_SUMS
#endif

//@ WEFT_STEPS
// A product of 197x768x3072 on two threads of a Zen 3, whose cores have other users, too: 1.08 to
// 1.14 times as fast (gcc 12).  Statements that are written out four times instead spill: gcc gives
// every sum another register at each step.
/* Four steps of a tile share the instructions of the loop, where 16 registers keep tiles small. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__) \
        && defined(__SSE2__) && !defined(__AVX512VL__)
#define WEFT_STEPS _Pragma("GCC unroll 4")
#else
#define WEFT_STEPS
#endif

//@ free_registers
// 12 sums in 16 registers, then Swish: gcc 12 keeps constants of Swish over all tiles, and one sum in
// memory.  Products of 196x80x480 and 196x112x672 take 1.8 and 1.9 times as long so (Zen 3).
/* No vector stays in a register here, where 16 of them are to hold the sums that follow. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__SSE2__) \
        && !defined(__AVX512VL__)
#define weft_free_registers() \
    __asm__ volatile("" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
#else
#define weft_free_registers() (void)0
#endif

//@ WEFT_APART
// clang would put functions that are called once into their callers, and their locals with them:
// 5.5 KB of stack for the run function of a quantized image classifier, 2.2 KB without.
/* Keeps kernels out of the run function: the locals of all of them would add up there. */
#if defined(__GNUC__)
#define WEFT_APART __attribute__((noinline))
#else
#define WEFT_APART
#endif
