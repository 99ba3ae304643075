// Vectors of half precision (f16 and bf16, as their bits) and of single precision.

//@ convert
/* $told */
static __attribute__((always_inline)) $R weft_${op}_$V($A x)
{
    $plain
}

//@ convert_by
/* $told */
#if $when
#include <$header>
#endif
static __attribute__((always_inline)) $R weft_${op}_$V($A x)
{
#if $when
    return ($R)$call;
#else
    $plain
#endif
}

//@ from_bf16
return ($R)(__builtin_convertvector(x, $U) << 16);

//@ to_bf16
const $U bits = ($U)x;
const $U nan = ($U)(x != x);
const $U near = bits + 0x7fffu + ((bits >> 16) & 1u);
return __builtin_convertvector(((near & ~nan) | ((bits | 0x400000u) & nan)) >> 16, $R);

//@ lanes
$R result;
int lane;
for (lane = 0; lane < $L; ++lane) {
    result[lane] = $each(x[lane]);
}
return result;

//@ rounded
/* Single precision rounded to half precision, ties to even. */
static __attribute__((always_inline)) $V weft_${op}_$V($V x)
{
    return weft_from_${half}_$V(weft_to_${half}_$V(x));
}
