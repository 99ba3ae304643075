// Functions of single-precision vectors, within three units in the last place.
// Most are exponentials, by a polynomial fitted to e^r - 1 - r and by 2^n in the bits of a float.

//@ ${exp}_$V
// 2^n comes from the low bits of shifted, n + 126; half of it fits where it does not.  No result is
// subnormal (nor is one of oneDNN's): many processors of Intel are slow with such operands, and
// masked scores make many of them.  AVX-512 scales by a power in one instruction, which clears
// lanes, too.
/* $base to the power of each lane, within $units units in the last place; what is below $tiny
 * becomes 0. */
static __attribute__((always_inline)) $V weft_${op}_$V($V x)
{
    const $V held = weft_min_$V(x, ($most - ($V){0}));
    const $V shifted = held$doublings + 12583038.0f;
    const $V power = shifted - 12583038.0f;
    const $V r = $rest;
    $V y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = (y * r + 1.0f) * r + 1.0f;
$scaled
}

//@ scaled
    y = y * ($V)(($U)shifted << 23);
    return ($V)(($M)(y + y) & ~($M)(x < $least));

//@ scaled_16
#if defined(__AVX512F__)
    const $V least = $least - ($V){0};
    const unsigned short all = 0xffff;
    const unsigned short kept = __builtin_ia32_cmpps512_mask(x, least, 21, all, 4); /* not less */
#if defined(__clang__)
    return __builtin_ia32_scalefps512_mask(y, power, ($V){0}, kept, 4);
#else
    return __builtin_ia32_scalefps512_mask(y, power, ($V){0}, (short)kept, 4);
#endif
#else
    y = y * ($V)(($U)shifted << 23);
    return ($V)(($M)(y + y) & ~($M)(x < $least));
#endif

//@ expm1_$V
// 2^n - 1 and what 2^n makes of e^r - 1, both halved: n may be 128.
/* e to the power of each lane, less 1. */
static __attribute__((always_inline)) $V weft_expm1_$V($V x)
{
    const $V low = weft_max_$V(x, (-18.0f - ($V){0}));
    const $V held = weft_min_$V(low, (89.0f - ($V){0}));
    const $V shifted = held * 1.44269504f + 12583038.0f;
    const $V power = shifted - 12583038.0f;
    const $V r = (held - power * 0.693359375f) + power * 2.12194440e-4f;
    const $V half = ($V)(($U)shifted << 23);
    $V y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = y * (r * r) + r;
    y = y * half + (half - 0.5f);
    return ($V)(($M)(y + y) | (($M)x & ($M)(-($V){0}))); /* -0 for -0 */
}

//@ logistic_$V
// The divisor of a logistic function: where e^-x is far from 1 only one of both counts, so
// the scaling needs no subnormals.  A fused product spares the second part of ln 2.
/* 1 and e to the power of minus each lane. */
static __attribute__((always_inline)) $V weft_logistic_$V($V x)
{
    const $V low = weft_max_$V(x, (-89.0f - ($V){0}));
    const $V held = weft_min_$V(low, (88.0f - ($V){0}));
    const $V shifted = held * -1.44269504f + 12583039.0f;
    const $V power = 12583039.0f - shifted;
    const $V scale = ($V)(($U)shifted << 23);
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    const $V r = power * 0.69314718f - held;
#else
    const $V r = (power * 0.693359375f - held) - power * 2.12194440e-4f;
#endif
    $V y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = y * (r * r) + r + 1.0f; /* above 0, so that overflow gives infinity */
    return y * scale + 1.0f;
}

//@ tanh_$V
// 1 - 2t / (1 + t) of t = e^-2x, and where that would cancel a polynomial (Cephes's).
/* The hyperbolic tangent of each lane, within 1.5 units in the last place. */
static __attribute__((always_inline)) $V weft_tanh_$V($V x)
{
    const $M minus = ($M)(-($V){0});
    const $V size = ($V)(($M)x & ~minus);
    const $V p = weft_min_$V(size, (9.1f - ($V){0})) * -2.0f;
    const $V shifted = p * 1.44269504f + 12583039.0f;
    const $V power = shifted - 12583039.0f;
    const $V r = (p - power * 0.693359375f) + power * 2.12194440e-4f;
    const $V scale = ($V)(($U)shifted << 23);
    const $V z = size * size;
    const $M small = ($M)(size < 0.625f);
    $V near = z * -5.70498872745e-3f + 2.06390887954e-2f;
    $V t = r * 1.394644729e-3f + 8.366581984e-3f;
    near = near * z + -5.37397155531e-2f;
    t = t * r + 4.166628048e-2f;
    near = near * z + 1.33314422036e-1f;
    t = t * r + 1.666654348e-1f;
    near = near * z + -3.33332819422e-1f;
    t = t * r + 0.5f;
    near = near * (z * size) + size;
    t = t * (r * r) + r;
    t = t * scale + scale;
    t = 1.0f - (t + t) / (t + 1.0f);
    return ($V)((($M)near & small) | (($M)t & ~small) | (($M)x & minus));
}

//@ gate_$V
// tanh x is -t / (t + 2) of t = e^-2x - 1, which does not cancel: one division for both.  The two
// polynomials take turns, so that their steps overlap.
/* The hyperbolic tangent of each lane times the logistic function of another's, within 8 units in
 * the last place. */
static __attribute__((always_inline)) $V weft_gate_$V($V x, $V y)
{
    const $M minus = ($M)(-($V){0});
    const $V size = ($V)(($M)x & ~minus);
    const $V low = weft_max_$V(y, (-89.0f - ($V){0}));
    const $V p = weft_min_$V(size, (9.1f - ($V){0})) * -2.0f;
    const $V held = weft_min_$V(low, (88.0f - ($V){0}));
    const $V shifted = p * 1.44269504f + 12583039.0f;
    const $V raised = held * -1.44269504f + 12583039.0f;
    const $V power = shifted - 12583039.0f;
    const $V other = 12583039.0f - raised;
    const $V r = (p - power * 0.693359375f) + power * 2.12194440e-4f;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    const $V q = other * 0.69314718f - held;
#else
    const $V q = (other * 0.693359375f - held) - other * 2.12194440e-4f;
#endif
    const $V scale = ($V)(($U)shifted << 23);
    const $V factor = ($V)(($U)raised << 23);
    $V t = r * 1.394644729e-3f + 8.366581984e-3f;
    $V d = q * 1.394644729e-3f + 8.366581984e-3f;
    t = t * r + 4.166628048e-2f;
    d = d * q + 4.166628048e-2f;
    t = t * r + 1.666654348e-1f;
    d = d * q + 1.666654348e-1f;
    t = t * r + 0.5f;
    d = d * q + 0.5f;
    t = t * (r * r) + r;
    d = d * (q * q) + q + 1.0f;
    t = t * scale + (scale - 1.0f);
    d = d * factor + 1.0f;
    d = (t + 2.0f) * d; /* above 0, so that overflow gives infinity */
    return ($V)((($M)t & ~minus) | (($M)x & minus)) / d;
}

//@ erf_$V
// 1 - e^p for a polynomial p: the logarithm of what is missing to 1.  The low bits of
// shifted are the exponent of 2^n, biased; e^r - 1 keeps small results exact.
/* The error function of each lane. */
static __attribute__((always_inline)) $V weft_erf_$V($V x)
{
    const $M minus = ($M)(-($V){0});
    const $V size = weft_min_$V(($V)(($M)x & ~minus), (4.0f - ($V){0}));
    $V p = size * -4.070929208e-5f + 3.810102644e-4f;
    $V shifted, r, y, scale;
    p = p * size - 1.251772977e-3f;
    p = p * size - 2.056804806e-4f;
    p = p * size + 1.932169124e-2f;
    p = p * size - 1.028143987e-1f;
    p = p * size - 6.366164684e-1f;
    p = (p * size - 1.128379226e+0f) * size;
    shifted = p * 1.44269504f + 12583039.0f;
    r = p - (shifted - 12583039.0f) * 0.69314718f;
    scale = ($V)(($U)shifted << 23);
    y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = y * (r * r) + r;
    y = y * scale + (scale - 1.0f);
    return ($V)((($M)y & ~minus) | (($M)x & minus));
}

//@ gelu_$V
// max(x, 0) - |x| Q(|x|) with the normal distribution's tail Q = 2^p for a polynomial p: what is
// small stays exact, within 5e-4 at -4 and within 2 % at -12.  The low bits of shifted are the
// exponent, which is added to that of 2^r.  Below -12.9, it stays at -3e-37.
/* Each lane times the normal distribution up to it. */
static __attribute__((always_inline)) $V weft_gelu_$V($V x)
{
    const $M minus = ($M)(-($V){0});
    const $V size = weft_min_$V(($V)(($M)x & ~minus), (12.9f - ($V){0}));
    $V p = size * -3.126171774e-9f + 1.510531257e-7f;
    $V shifted, power, r, y;
    p = p * size - 2.907148595e-6f;
    p = p * size + 2.74617436e-5f;
    p = p * size - 1.072305781e-4f;
    p = p * size - 3.596717738e-4f;
    p = p * size + 7.385570168e-3f;
    p = p * size - 5.273778643e-2f;
    p = p * size - 4.591221463e-1f;
    p = p * size - 1.151116591e+0f;
    p = p * size - 9.999997484e-1f;
    shifted = p + 12582912.0f;
    power = shifted - 12582912.0f;
    r = p - power;
    y = r * 1.32764725e-3f + 9.67554133e-3f;
    y = y * r + 5.55071327e-2f;
    y = y * r + 2.40221197e-1f;
    y = y * r + 6.93146967e-1f;
    y = y * r + 1.00000007e+0f;
$raised
    return weft_max_$V(x, ($V){0}) - size * y;
}

//@ raised
    y = ($V)(($U)y + (($U)shifted << 23));

//@ raised_16
#if defined(__AVX512F__) && defined(__clang__)
    y = __builtin_ia32_scalefps512_mask(y, power, y, (unsigned short)0xffff, 4);
#elif defined(__AVX512F__)
    y = __builtin_ia32_scalefps512_mask(y, power, y, -1, 4);
#else
    y = ($V)(($U)y + (($U)shifted << 23));
#endif

//@ ${log}_$V
// x = 2^n m with m around 1; subnormals are scaled up first.
/* The $name logarithm of each lane. */
static $V weft_${op}_$V($V x)
{
    const $M low = ($M)(x < 1.17549435e-38f);
    const $V up = x * 8388608.0f;
    const $U bits = (($U)up & ($U)low) | (($U)x & ~($U)low);
    const $M n = ($M)(bits - 0x3f3504f3u) >> 23;
    const $V r = ($V)(bits - (($U)n << 23)) - 1.0f;
    const $V power = __builtin_convertvector(n + (low & -23), $V);
    const $M none = ($M)(x < 0.0f);
    const $M zero = ($M)(x == 0.0f);
    const $M finite = ($M)(x <= 3.402823466e+38f) & ~none & ~zero;
$logarithm
}

//@ log1p_$V
// As log of 1 + x, with what that sum lost put back.  2^-n is doubled: n may be 128.
/* The natural logarithm of 1 plus each lane. */
static $V weft_log1p_$V($V x)
{
    const $V up = x + 1.0f;
    const $V lost = (x - (up - 1.0f)) * 0.5f;
    const $U bits = ($U)up;
    const $M n = ($M)(bits - 0x3f3504f3u) >> 23;
    const $V scale = ($V)(0x40000000u - (($U)n << 23));
    const $V r = (($V)(bits - (($U)n << 23)) - 1.0f) + lost * scale;
    const $V power = __builtin_convertvector(n, $V);
    const $M none = ($M)(up < 0.0f);
    const $M zero = ($M)(up == 0.0f);
    const $M finite = ($M)(up <= 3.402823466e+38f) & ($M)(x != 0.0f) & ~none & ~zero;
$logarithm
}

//@ logarithm
    const $V square = r * r;
    $V y = r * 7.0376836292e-2f - 1.1514610310e-1f;
    y = y * r + 1.1676998740e-1f;
    y = y * r - 1.2420140846e-1f;
    y = y * r + 1.4249322787e-1f;
    y = y * r - 1.6668057665e-1f;
    y = y * r + 2.0000714765e-1f;
    y = y * r - 2.4999993993e-1f;
    y = y * r + 3.3333331174e-1f;
    y = y * (r * square)$fraction;
    y = (r + (y - square * 0.5f))$factor + power$whole;
    /* What has no logarithm among the real numbers. */
    return ($V)((($M)y & finite) | (zero & -8388608) | (none & 0x7fc00000)
        | (($M)x & ~(finite | zero | none)));

//@ ${op}_$V
// Quarter turns are taken off in four parts whose products are exact; past 8192 that is no
// longer so, and the C library takes over.
/* The $word of each lane. */
static $V weft_${op}_$V($V x)
{
    const $M minus = ($M)(-($V){0});
    const $V size = ($V)(($M)x & ~minus);
    const $M far = ($M)(size > 8192.0f);
    const $V shifted = size * 6.36619772e-1f + 12582912.0f;
    const $V turns = shifted - 12582912.0f;
    const $M quarter = ($M)shifted + $first;
    const $M odd = -(quarter & 1);
    const $V a = (size - turns * 1.5703125f) - turns * 4.8351287841796875e-4f;
    const $V r = (a - turns * 3.1385570764541626e-7f) - turns * 6.0771006282767e-11f;
    const $V square = r * r;
    $V sine = square * -1.9515295891e-4f + 8.3321608736e-3f;
    $V cosine = square * 2.443315711809948e-5f - 1.388731625493765e-3f;
    $V result;
    int lane, any = 0;
    sine = (sine * square - 1.6666654611e-1f) * (square * r) + r;
    cosine = cosine * square + 4.166664568298827e-2f;
    cosine = cosine * (square * square) - square * 0.5f + 1.0f;
    result = ($V)((($M)cosine & odd) | (($M)sine & ~odd));
    result = ($V)(($M)result ^ (($M)(($U)quarter << 30) & minus)$sign);
    ${kept}for (lane = 0; lane < $L; ++lane) {
        any |= far[lane];
    }
    if (any != 0) {
        for (lane = 0; lane < $L; ++lane) {
            result[lane] = ${op}f(x[lane]);
        }
    }
    return result;
}
