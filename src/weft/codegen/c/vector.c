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
    for (lane = 0; lane < $L; ++lane) {
        result[lane] = $left[lane] < $right[lane] ? rhs[lane] : lhs[lane];
    }
    return result;
#endif
}

//@ builtin
// With AVX-512, gcc makes a comparison and a blend of the loop.
#if defined(__AVX512VL__) && !defined(__clang__)
    return $call;
#endif

//@ shuffle_$V
// Each compiler knows one of the two builtins, both in all versions that matter.
/* Lanes of two vectors, by number; those of the second come after those of the first. */
#if defined(__clang__)
#define weft_shuffle_$V(lhs, rhs, ...) __builtin_shufflevector(lhs, rhs, __VA_ARGS__)
#else
#define weft_shuffle_$V(lhs, rhs, ...) __builtin_shuffle(lhs, rhs, ($M){__VA_ARGS__})
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
    return __builtin_convertvector(whole, $R);
}

//@ lanes
/* $op of each lane. */
static $R weft_${op}_$V($arguments)
{
    $R result;
    int lane;
    for (lane = 0; lane < $L; ++lane) {
        result[lane] = $call;
    }
    return result;
}
