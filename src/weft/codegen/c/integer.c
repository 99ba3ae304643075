// Integers: division that is defined everywhere, powers, saturating casts.

//@ min_$S
/* The smaller number. */
static $T weft_min_$S($T lhs, $T rhs)
{
    return rhs < lhs ? rhs : lhs;
}

//@ max_$S
/* The larger number. */
static $T weft_max_$S($T lhs, $T rhs)
{
    return lhs < rhs ? rhs : lhs;
}

//@ abs_$S
/* The absolute value; the most negative number stays. */
static $T weft_abs_$S($T x)
{
    return x < 0 ? ($T)(0u - ($U)x) : x;
}

//@ sign_$S
/* -1, 0 or 1. */
static int weft_sign_$S($T x)
{
    return (x > 0) - (x < 0);
}

//@ div_$S
/* The quotient towards zero; wraps, and is 0 for a divisor of 0. */
static $T weft_div_$S($T x, $T y)
{
    if (y == 0) {
        return 0;
    }
    return y == -1 ? ($T)(0u - ($U)x) : x / y;
}

//@ unsigned div_$S
/* The quotient; 0 for a divisor of 0. */
static $T weft_div_$S($T x, $T y)
{
    return y == 0u ? 0u : x / y;
}

//@ fmod_$S
/* The remainder with the sign of the dividend; 0 for a divisor of 0. */
static $T weft_fmod_$S($T x, $T y)
{
    return (y == 0 || y == -1) ? 0 : x % y;
}

//@ unsigned fmod_$S
/* The remainder; 0 for a divisor of 0. */
static $T weft_fmod_$S($T x, $T y)
{
    return y == 0u ? 0u : x % y;
}

//@ floordiv_$S
/* The quotient towards minus infinity; 0 for a divisor of 0. */
static $T weft_floordiv_$S($T x, $T y)
{
    const $T rest = weft_fmod_$S(x, y);
    const $T quotient = weft_div_$S(x, y);
    return (rest != 0 && (rest < 0) != (y < 0)) ? quotient - 1 : quotient;
}

//@ mod_$S
/* The remainder with the sign of the divisor; 0 for a divisor of 0. */
static $T weft_mod_$S($T x, $T y)
{
    const $T rest = weft_fmod_$S(x, y);
    return (rest != 0 && (rest < 0) != (y < 0)) ? rest + y : rest;
}

//@ pow_$S
/* A power, wrapping; a negative exponent gives the reciprocal towards zero. */
static $T weft_pow_$S($T base, $T exponent)
{
    $U result = 1u;
    $U square = ($U)base;
    $U left = ($U)exponent;
$negative
    while (left != 0u) {
        if ((left & 1u) != 0u) {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    return ($T)result;
}

//@ negative
    if (exponent < 0) {
        if (base != 1 && base != -1) {
            return 0;
        }
        left &= 1u;
    }

//@ shl_$D
/* A shift to the left; 0 from the width of the type on. */
static $T weft_shl_$D($T x, $T count)
{
    return ($U)count < ${bits}u ? ($T)(($U)x << ($U)count) : 0;
}

//@ shr_$D
/* A shift to the right; 0 from the width of the type on. */
static $T weft_shr_$D($T x, $T count)
{
    return ($U)count < ${bits}u ? ($T)(x >> ($U)count) : 0;
}

//@ ${S}_to_$D
/* Truncates; numbers beyond the type give its ends and a NaN gives 0. */
static $T weft_${S}_to_$D($F x)
{
    if (x > $below && x < $above) {
        return ($T)x;
    }
    return x >= $above ? $most : $least_or_zero;
}
