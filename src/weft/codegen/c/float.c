// Floats: minimum, sign, remainders for $S, f32 or f64, and what they share with other types.

//@ round_$name
/* Rounds to what $name holds. */
static float weft_round_$name(float number)
{
    return weft_${name}_to_f32(weft_f32_to_$name(number));
}

//@ bits_${source}_$target
/* The same bits as another type. */
static $to weft_bits_${source}_$target($of x)
{
    union {
        $of from;
        $to to;
    } value;
    value.from = x;
    return value.to;
}

//@ min_$S
/* The smaller number; a NaN on the left stays, one on the right is passed over. */
static $T weft_min_$S($T lhs, $T rhs)
{
    return rhs < lhs ? rhs : lhs;
}

//@ max_$S
/* The larger number; a NaN on the left stays, one on the right is passed over. */
static $T weft_max_$S($T lhs, $T rhs)
{
    return lhs < rhs ? rhs : lhs;
}

//@ sign_$S
/* -1, 0 or 1; a NaN stays. */
static $T weft_sign_$S($T x)
{
    return x != x ? x : ($T)((x > $zero) - (x < $zero));
}

//@ mod_$S
/* The remainder with the sign of the divisor. */
static $T weft_mod_$S($T x, $T y)
{
    const $T rest = $fmod;
    if (rest != $zero) {
        return ((rest < $zero) != (y < $zero)) ? rest + y : rest;
    }
    return y < $zero ? -$zero : $zero;
}

//@ floordiv_$S
/* The quotient rounded towards minus infinity; exact where x / y would round up to it. */
static $T weft_floordiv_$S($T x, $T y)
{
    $T rest;
    $T quotient;
    $T whole;
    if (y == $zero) {
        return x / y;
    }
    rest = $fmod;
    quotient = (x - rest) / y;
    if (rest != $zero && (rest < $zero) != (y < $zero)) {
        quotient -= $one;
    }
    if (quotient == $zero) {
        return x / y < $zero ? -$zero : $zero * (x / y);
    }
    whole = $floor;
    return quotient - whole > $half ? whole + $one : whole;
}

//@ isnan_$S
/* 1 for a NaN. */
static int weft_isnan_$S($T x)
{
    return x != x;
}

//@ isinf_$S
/* 1 for an infinity. */
static int weft_isinf_$S($T x)
{
    return x == x && x - x != $zero;
}
