"""Mathematical functions of single-precision vectors, within three units in the last place.

All are exponentials, by a polynomial fitted to e^r - 1 - r and by 2^n in the bits of a float.
"""

from __future__ import annotations

from weft.codegen.helpers_float import Text

# 2^n comes from the low bits of shifted, n + 254; half of the scaling at a time reaches
# subnormals.
_EXP = """\
/* e to the power of each lane. */
static __attribute__((always_inline)) {V} weft_exp_{V}({V} x)
{{
    const {V} low = weft_max_{V}(x, {V}_OF(-104.0f));
    const {V} held = weft_min_{V}(low, {V}_OF(89.0f));
    const {V} shifted = held * 1.44269504f + 12583166.0f;
    const {V} power = shifted - 12583166.0f;
    const {M} n = ({M})shifted;
    const {M} half = n >> 1;
    const {V} r = (held - power * 0.693359375f) + power * 2.12194440e-4f;
    {V} y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = y * (r * r) + r + 1.0f;
    y = y * ({V})(({U})half << 23);
    return y * ({V})(({U})(n - half) << 23);
}}
"""

# The divisor of a logistic function: where e^-x is far from 1 only one of both counts, so
# the scaling needs no subnormals.  A fused product spares the second part of ln 2.
_LOGISTIC = """\
/* 1 and e to the power of minus each lane. */
static __attribute__((always_inline)) {V} weft_logistic_{V}({V} x)
{{
    const {V} low = weft_max_{V}(x, {V}_OF(-89.0f));
    const {V} held = weft_min_{V}(low, {V}_OF(88.0f));
    const {V} shifted = held * -1.44269504f + 12583039.0f;
    const {V} power = 12583039.0f - shifted;
    const {V} scale = ({V})(({U})shifted << 23);
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    const {V} r = power * 0.69314718f - held;
#else
    const {V} r = (power * 0.693359375f - held) - power * 2.12194440e-4f;
#endif
    {V} y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = y * (r * r) + r + 1.0f; /* above 0, so that overflow gives infinity */
    return y * scale + 1.0f;
}}
"""

# By e^p - 1, p = -2x, which is small where the result is.
_TANH = """\
/* The hyperbolic tangent of each lane. */
static __attribute__((always_inline)) {V} weft_tanh_{V}({V} x)
{{
    const {M} minus = ({M})(-({V}){{0}});
    const {V} p = weft_min_{V}(({V})(({M})x & ~minus), {V}_OF(9.1f)) * -2.0f;
    const {V} shifted = p * 1.44269504f + 12583039.0f;
    const {V} power = shifted - 12583039.0f;
    const {V} r = (p - power * 0.693359375f) + power * 2.12194440e-4f;
    const {V} scale = ({V})(({U})shifted << 23);
    {V} y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = y * (r * r) + r;
    y = y * scale + (scale - 1.0f);
    y = y / (y + 2.0f);
    return ({V})((({M})y & ~minus) | (({M})x & minus));
}}
"""

# 1 - e^p for a polynomial p: the logarithm of what is missing to 1.  The low bits of
# shifted are the exponent of 2^n, biased; e^r - 1 keeps small results exact.
_ERF = """\
/* The error function of each lane. */
static __attribute__((always_inline)) {V} weft_erf_{V}({V} x)
{{
    const {M} minus = ({M})(-({V}){{0}});
    const {V} size = weft_min_{V}(({V})(({M})x & ~minus), {V}_OF(4.0f));
    {V} p = size * -4.070929208e-5f + 3.810102644e-4f;
    {V} shifted, r, y, scale;
    p = p * size - 1.251772977e-3f;
    p = p * size - 2.056804806e-4f;
    p = p * size + 1.932169124e-2f;
    p = p * size - 1.028143987e-1f;
    p = p * size - 6.366164684e-1f;
    p = (p * size - 1.128379226e+0f) * size;
    shifted = p * 1.44269504f + 12583039.0f;
    r = p - (shifted - 12583039.0f) * 0.69314718f;
    scale = ({V})(({U})shifted << 23);
    y = r * 1.394644729e-3f + 8.366581984e-3f;
    y = y * r + 4.166628048e-2f;
    y = y * r + 1.666654348e-1f;
    y = y * r + 0.5f;
    y = y * (r * r) + r;
    y = y * scale + (scale - 1.0f);
    return ({V})((({M})y & ~minus) | (({M})x & minus));
}}
"""

# max(x, 0) - |x| Q(|x|) with the normal distribution's tail Q = 2^p for a polynomial p: what is
# small stays exact.  The low bits of shifted are the exponent, which is added to that of 2^r.
_GELU = """\
/* Each lane times the normal distribution up to it. */
static __attribute__((always_inline)) {V} weft_gelu_{V}({V} x)
{{
    const {M} minus = ({M})(-({V}){{0}});
    const {V} size = weft_min_{V}(({V})(({M})x & ~minus), {V}_OF(6.0f));
    {V} p = size * 5.1849307e-6f - 2.27215029e-5f;
    {V} shifted, r, y;
    p = p * size - 5.33675559e-4f;
    p = p * size + 7.58316302e-3f;
    p = p * size - 5.28559048e-2f;
    p = p * size - 4.59089676e-1f;
    p = p * size - 1.15111948e+0f;
    p = p * size - 9.99999725e-1f;
    shifted = p + 12582912.0f;
    r = p - (shifted - 12582912.0f);
    y = r * 1.32764725e-3f + 9.67554133e-3f;
    y = y * r + 5.55071327e-2f;
    y = y * r + 2.40221197e-1f;
    y = y * r + 6.93146967e-1f;
    y = y * r + 1.00000007e+0f;
    y = ({V})(({U})y + (({U})shifted << 23));
    return weft_max_{V}(x, ({V}){{0}}) - size * y;
}}
"""

_TEXTS = {
    "exp": (_EXP, ("weft_max_{V}", "weft_min_{V}")),
    "logistic": (_LOGISTIC, ("weft_max_{V}", "weft_min_{V}")),
    "tanh": (_TANH, ("weft_min_{V}",)),
    "erf": (_ERF, ("weft_min_{V}",)),
    "gelu": (_GELU, ("weft_max_{V}", "weft_min_{V}")),
}


def math_helper(op: str, lanes: int) -> Text | None:
    """A function of ``f32`` vectors that is computed on all lanes at once."""
    if op not in _TEXTS:
        return None
    text, needs = _TEXTS[op]
    vector = f"v{lanes}f32"
    body = text.format(V=vector, M=f"v{lanes}i32", U=f"v{lanes}u32")
    for constant in ("-104.0f", "-89.0f", "88.0f", "89.0f", "9.1f", "4.0f", "6.0f"):
        body = body.replace(f"{vector}_OF({constant})", f"({constant} - ({vector}){{0}})")
    return body, tuple(each.format(V=vector) for each in needs)
