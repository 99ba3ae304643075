// Functions of GNU vectors: $V is the type, $M that of a mask for it, $U of its bits, $L lanes.

//@ select_$V
/* The left lanes where the mask is all ones, the right ones where it is zero. */
static $V weft_select_$V($M mask, $V yes, $V no)
{
    return ($V)((($M)yes & mask) | (($M)no & ~mask));
}

//@ extreme
// All forms compile to one instruction on x86; each compiler knows one of them only.
/* The $word lanes; a NaN on the left stays, one on the right is passed over. */
static $V weft_${op}_$V($V lhs, $V rhs)
{
$builtin
#if defined(__clang__)
    const $M mask = ($M)($left < $right);
    return ($V)((($M)rhs & mask) | (($M)lhs & ~mask));
#else
    $V result;
    int lane;
    ${kept}for (lane = 0; lane < $L; ++lane) {
        result[lane] = $left[lane] < $right[lane] ? rhs[lane] : lhs[lane];
    }
    return result;
#endif
}

//@ builtin
// With AVX-512, gcc makes a comparison and a blend of the loop; -O3 unrolls it before it looks for
// vectors, and in large functions then finds none: a small detector takes 1.25 times as long (gcc
// 12, AVX2).
#if defined(__${needs}__) && !defined(__clang__)
    return __builtin_ia32_$call;
#endif

//@ shuffle_$V
// Each compiler knows one of the two builtins, both in all versions that matter.
/* Lanes of two vectors, by number; those of the second come after those of the first. */
#if defined(__clang__)
#define weft_shuffle_$V(lhs, rhs, ...) __builtin_shufflevector(lhs, rhs, __VA_ARGS__)
#else
#define weft_shuffle_$V(lhs, rhs, ...) __builtin_shuffle(lhs, rhs, ($M){__VA_ARGS__})
#endif

//@ keep_$V
// With 16 registers, nearly all taken, gcc would rather read a vector from memory for each use: a
// product of 128x3072x768 takes 1.3 times as long then (gcc 12, -march=native, Zen 3).
/* Has a vector stay in one of the 16 registers of AVX; AVX-512 has 32. */
#if defined(__AVX__) && !defined(__AVX512VL__)
#define weft_keep_$V(x) __asm__("" : "+x"(x))
#else
#define weft_keep_$V(x) (void)(x)
#endif

//@ abs_float
/* The lanes without their signs. */
static $V weft_abs_$V($V x)
{
    return ($V)(($M)x & ~($M)(-($V){0}));
}

//@ abs_int
/* The absolute values; the most negative number stays. */
static $V weft_abs_$V($V x)
{
    const $V sign = x < 0;
    return ($V)((($U)x ^ ($U)sign) - ($U)sign);
}

//@ round_$V
// Adding and taking away 2^23 (2^52) rounds to whole numbers; larger ones are whole already.
/* The nearest whole numbers, ties to even. */
static $V weft_round_$V($V x)
{
    const $M sign = ($M)(-($V){0});
    const $M bits = ($M)x & ~sign;
    const $V size = ($V)bits;
    const $V whole = (size + $whole) - $whole;
    const $M small = ($M)(size < $whole);
    return ($V)((((($M)whole & small) | (bits & ~small))) | (($M)x & sign));
}

//@ zip_$V
/* The lanes of two vectors in turn. */
static $V weft_zip_$V($H lhs, $H rhs)
{
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(lhs, rhs, $order);
#else
    $V result;
    int lane;
    for (lane = 0; lane < $half; ++lane) {
        result[2 * lane] = lhs[lane];
        result[2 * lane + 1] = rhs[lane];
    }
    return result;
#endif
}

//@ pair_$V
/* Two neighbours again and again. */
static $V weft_pair_$V(const $C *x)
{
    const int64_t pair = (int64_t)*(const ${P}_mem *)x;
    return ($V)($W){$pairs};
}

//@ saturate
/* Truncates; numbers beyond the type give its ends and a NaN gives 0. */
static $R weft_${op}_$V($V x)
{
    const $M number = ($M)(x == x);
    const $V below = weft_min_$V(x, $most - ($V){0});
    const $V inside = weft_max_$V(below, $least - ($V){0});
    const $M whole = __builtin_convertvector(($V)(($M)inside & number), $M);
    return $narrow;
}

//@ lanes
/* $op of each lane. */
static $R weft_${op}_$V($arguments)
{
    $R result;
    int lane;
    ${kept}for (lane = 0; lane < $L; ++lane) {
        result[lane] = $call;
    }
    return result;
}

//@ quantize
/* Rounds to the nearest, ties to even, adds a zero point and saturates; a NaN is the least. */
static __attribute__((always_inline)) $R weft_${op}_$V($V x, int zero)
{
    $plain
}

//@ quantize_by
/* Rounds to the nearest, ties to even, adds a zero point and saturates; a NaN is the least. */
#if defined(__GNUC__) && $when
#include <immintrin.h>
#endif
static __attribute__((always_inline)) $R weft_${op}_$V($V x, int zero)
{
#if defined(__GNUC__) && $when
    $body
#else
    $plain
#endif
}

// Between the bounds, adding 1.5 * 2^23 rounds to whole numbers, which are the sum's low bits.
//@ quantize_plain
const $V above = weft_max_$V((float)($least - zero) - ($V){0}, x);
const $V inside = weft_min_$V(above, (float)($most - zero) - ($V){0});
const $M whole = ($M)(inside + 12582912.0f) + (zero - 0x4b400000);
return $result;

// Where an operand is a NaN the result is the right one: the bound stands there.
//@ quantize_avx512
const __m512 above = _mm512_max_ps((__m512)x, _mm512_set1_ps((float)($least - zero)));
const __m512 inside = _mm512_min_ps(above, _mm512_set1_ps((float)($most - zero)));
const __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(inside), _mm512_set1_epi32(zero));
$pack_it

//@ quantize_avx2
const __m256 above = _mm256_max_ps((__m256)x, _mm256_set1_ps((float)($least - zero)));
const __m256 inside = _mm256_min_ps(above, _mm256_set1_ps((float)($most - zero)));
const __m256i whole = _mm256_add_epi32(_mm256_cvtps_epi32(inside), _mm256_set1_epi32(zero));
$pack_it

//@ quantize_sse2
const __m128 above = _mm_max_ps((__m128)x, _mm_set1_ps((float)($least - zero)));
const __m128 inside = _mm_min_ps(above, _mm_set1_ps((float)($most - zero)));
const __m128i whole = _mm_add_epi32(_mm_cvtps_epi32(inside), _mm_set1_epi32(zero));
$pack_it

//@ quantize_wide
return ($R)whole;

//@ quantize_avx512_pack
return ($R)_mm512_cvtepi32_epi8(whole);

//@ quantize_avx2_pack
const __m128i words = _mm_packs_epi32(
        _mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
const int64_t bytes = _mm_cvtsi128_si64(_mm_${pack}_epi16(words, words));
return ($R)bytes;

//@ quantize_sse2_pack
const __m128i words = _mm_packs_epi32(whole, whole);
return ($R)_mm_cvtsi128_si32(_mm_${pack}_epi16(words, words));

//@ saturate_whole
/* The numbers as bytes, those beyond as the nearest byte. */
static __attribute__((always_inline)) $R weft_${op}_$V($V x)
{
    $body
}

//@ saturate_by
/* The numbers as bytes, those beyond as the nearest byte. */
#if defined(__GNUC__) && $when
#include <immintrin.h>
#endif
static __attribute__((always_inline)) $R weft_${op}_$V($V x)
{
#if defined(__GNUC__) && $when
    const $kind whole = ($kind)x;
    $body
#else
    $plain
#endif
}

//@ saturate_plain
const $V inside = weft_min_$V(weft_max_$V(x, $least - ($V){0}), $most - ($V){0});
return $result;

//@ saturate_avx512_i8
return ($R)_mm512_cvtsepi32_epi8(whole);

//@ saturate_avx512_u8
return ($R)_mm512_cvtusepi32_epi8(_mm512_max_epi32(whole, _mm512_setzero_si512()));

//@ requantize
/* x * multiplier * 2^(shift - 31), rounded twice, plus a zero point, saturated. */
static __attribute__((always_inline)) $R weft_${op}_$V($V x, $V multiplier, $V shift, int zero)
{
    $plain
}

//@ requantize_by
/* x * multiplier * 2^(shift - 31), rounded twice, plus a zero point, saturated. */
#if defined(__GNUC__) && $when
#include <immintrin.h>
#endif
static __attribute__((always_inline)) $R weft_${op}_$V($V x, $V multiplier, $V shift, int zero)
{
#if defined(__GNUC__) && $when
    $body
#else
    $plain
#endif
}

// High halves and one more fit 32 bits, as multipliers are not negative.
// Halves go away from zero: a rest below zero must be more than a half.
//@ requantize_plain
const $V left = shift & ~(shift >> 31);
const $V right = -shift & (shift >> 31);
const $W wide = __builtin_convertvector(($V)(($U)x << ($U)left), $W)
        * __builtin_convertvector(multiplier, $W);
const $V high = __builtin_convertvector((wide + 1073741824) >> 31, $V);
const $V rest = ($V)(((($U){0} + 1u) << ($U)right) - 1u);
const $V scaled = (high >> right) - ($V)((high & rest) > (rest >> 1) - ($V)(high < 0));
$end

// Products of even lanes and of odd ones; what is divided last is divided by 2 in a second step.
//@ requantize_avx512
const __m512i none = _mm512_setzero_si512(), one = _mm512_set1_epi32(1);
const __m512i factor = (__m512i)multiplier, nudge = _mm512_set1_epi64(1 << 30);
const __m512i right = _mm512_sub_epi32(none, (__m512i)shift);
const __mmask16 divided = _mm512_cmpgt_epi32_mask(right, none);
const __m512i moved = _mm512_sllv_epi32((__m512i)x, _mm512_max_epi32((__m512i)shift, none));
const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(moved, factor), nudge);
const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(
        _mm512_srli_epi64(moved, 32), _mm512_srli_epi64(factor, 32)), nudge);
const __m512i high = _mm512_mask_blend_epi32(
        0xaaaa, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
const __m512i lower = _mm512_add_epi32(high, _mm512_srai_epi32(high, 31));
const __m512i twice = _mm512_srav_epi32(lower, _mm512_sub_epi32(right, one));
const __m512i scaled = _mm512_mask_srai_epi32(high, divided, _mm512_add_epi32(twice, one), 1);
$end

//@ requantize_avx2
const __m256i none = _mm256_setzero_si256(), one = _mm256_set1_epi32(1);
const __m256i factor = (__m256i)multiplier, nudge = _mm256_set1_epi64x(1 << 30);
const __m256i right = _mm256_sub_epi32(none, (__m256i)shift);
const __m256i divided = _mm256_cmpgt_epi32(right, none);
const __m256i moved = _mm256_sllv_epi32((__m256i)x, _mm256_max_epi32((__m256i)shift, none));
const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(moved, factor), nudge);
const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(
        _mm256_srli_epi64(moved, 32), _mm256_srli_epi64(factor, 32)), nudge);
const __m256i high = _mm256_blend_epi32(
        _mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xaa);
const __m256i lower = _mm256_add_epi32(high, _mm256_srai_epi32(high, 31));
const __m256i twice = _mm256_srav_epi32(lower, _mm256_sub_epi32(right, one));
const __m256i halved = _mm256_srai_epi32(_mm256_add_epi32(twice, one), 1);
const __m256i scaled = _mm256_blendv_epi8(high, halved, divided);
$end

//@ requantize_plain_end
const $V above = weft_max_$V(scaled, ($least - zero) - ($V){0});
const $V whole = weft_min_$V(above, ($most - zero) - ($V){0}) + zero;
return $result;

//@ requantize_avx512_end
const __m512i above = _mm512_max_epi32(scaled, _mm512_set1_epi32($least - zero));
const __m512i whole = _mm512_add_epi32(
        _mm512_min_epi32(above, _mm512_set1_epi32($most - zero)), _mm512_set1_epi32(zero));
$pack_it

//@ requantize_avx2_end
const __m256i above = _mm256_max_epi32(scaled, _mm256_set1_epi32($least - zero));
const __m256i whole = _mm256_add_epi32(
        _mm256_min_epi32(above, _mm256_set1_epi32($most - zero)), _mm256_set1_epi32(zero));
$pack_it

//@ requantize_whole
(void)zero;
return ($R)scaled;

// Only gcc does not find these instructions itself.
//@ widen
/* The lanes in a wider type. */
#if defined(__${need}__) && !defined(__clang__)
#include <immintrin.h>
#endif
static __attribute__((always_inline)) $R weft_${op}_$V($V x)
{
#if defined(__${need}__) && !defined(__clang__)
    return ($R)$call;
#else
    return __builtin_convertvector($plain, $R);
#endif
}
