// Vectors of bytes looked up in tables of 256: $V is the type of the bytes, $R that of elements.

//@ lookup
/* The elements of a table that bytes stand for; the smallest byte is the first. */
static __attribute__((always_inline)) $R weft_${op}_$V(const $C *table, $V x)
{
    $plain
}

//@ lookup_by
/* The elements of a table that bytes stand for; the smallest byte is the first. */
#if defined(__AVX512VBMI__) || $when
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
static __attribute__((always_inline)) $R weft_${op}_$V(const $C *table, $V x)
{
#if defined(__AVX512VBMI__) && defined(__AVX512BW__)
    $by_128
#elif $when
    $by_16
$neon
#else
    $plain
#endif
}

//@ plain
$R result;
int lane;
for (lane = 0; lane < $L; ++lane) {
    result[lane] = table[x[lane]$first];
}
return result;

// The low seven bits choose in each half of the table, the highest one between the halves.
//@ by_128
const __m512i at = $x;
const __m512i low = _mm512_permutex2var_epi8(
        _mm512_loadu_si512(table), at, _mm512_loadu_si512(table + 64));
const __m512i high = _mm512_permutex2var_epi8(
        _mm512_loadu_si512(table + 128), at, _mm512_loadu_si512(table + 192));
const __m512i found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), $ends);
return ($R)$found;

// The low four bits choose in every part of the table.  Negative bytes, as those before a part are
// once its place is taken away, give zero; what parts before gave is taken back by exclusive ors.
//@ by_16
const $kind next = ${prefix}_set1_epi8(16), flipped = ${prefix}_xor_$suffix(
        ($kind)x, ${prefix}_set1_epi8(-128));
$kind at = $lower, found = ${prefix}_setzero_$suffix();
__m128i part, last = _mm_setzero_si128();
int number;
#pragma GCC unroll 8
for (number = 0; number < 8; ++number) {
    part = _mm_loadu_si128((const __m128i *)(table + 16 * number));
    found = ${prefix}_xor_$suffix(
            found, ${prefix}_shuffle_epi8($spread(_mm_xor_si128(part, last)), at));
    at = ${prefix}_subs_epi8(at, next);
    last = part;
}
at = $upper;
last = _mm_setzero_si128();
#pragma GCC unroll 8
for (number = 8; number < 16; ++number) {
    part = _mm_loadu_si128((const __m128i *)(table + 16 * number));
    found = ${prefix}_xor_$suffix(
            found, ${prefix}_shuffle_epi8($spread(_mm_xor_si128(part, last)), at));
    at = ${prefix}_subs_epi8(at, next);
    last = part;
}
return ($R)found;

// What is no place in a part leaves what was found in those before.
//@ neon
#elif defined(__aarch64__)
    const uint8_t *const t = (const uint8_t *)table;
    const uint8x16_t next = vdupq_n_u8(64), at_0 = $x;
    const uint8x16_t at_1 = vsubq_u8(at_0, next), at_2 = vsubq_u8(at_1, next);
    const uint8x16x4_t part_0 = {
            {vld1q_u8(t), vld1q_u8(t + 16), vld1q_u8(t + 32), vld1q_u8(t + 48)}};
    const uint8x16x4_t part_1 = {
            {vld1q_u8(t + 64), vld1q_u8(t + 80), vld1q_u8(t + 96), vld1q_u8(t + 112)}};
    const uint8x16x4_t part_2 = {
            {vld1q_u8(t + 128), vld1q_u8(t + 144), vld1q_u8(t + 160), vld1q_u8(t + 176)}};
    const uint8x16x4_t part_3 = {
            {vld1q_u8(t + 192), vld1q_u8(t + 208), vld1q_u8(t + 224), vld1q_u8(t + 240)}};
    const uint8x16_t half = vqtbx4q_u8(vqtbl4q_u8(part_0, at_0), part_1, at_1);
    return ($R)vqtbx4q_u8(
            vqtbx4q_u8(half, part_2, at_2), part_3, vsubq_u8(at_2, next));

//@ table16
/* Elements of a table of 16 floats, at indices from 0 to 15. */
#if $when
#include <immintrin.h>
#endif
static inline __attribute__((always_inline)) v${L}f32 weft_table16_f32_v${L}i32(const float *table, v${L}i32 x)
{
$vector
#else
    v${L}f32 result;
    int lane;
    for (lane = 0; lane < $L; ++lane) {
        result[lane] = table[x[lane]];
    }
    return result;
#endif
}

//@ table16_by_16
#if defined(__AVX512F__)
    return (v16f32)_mm512_permutexvar_ps((__m512i)x, _mm512_loadu_ps(table));

//@ table16_by_8
#if defined(__AVX512VL__)
    return (v8f32)_mm256_permutex2var_ps(
            _mm256_loadu_ps(table), (__m256i)x, _mm256_loadu_ps(table + 8));
#elif defined(__AVX2__)
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)x);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), (__m256i)x);
    return (v8f32)_mm256_blendv_ps(low, high, (__m256)(x << 28));
