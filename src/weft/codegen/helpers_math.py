"""Mathematical functions of single-precision vectors, within three units in the last place.

The polynomials of exp and tanh are those of the Cephes library (Stephen L. Moshier, public
domain), those of erf are fitted to it.
"""

from __future__ import annotations

from weft.codegen.helpers_float import Text

# 2^n comes from the bits of a float; half of the scaling at a time reaches subnormals.
_EXP = """\
/* e to the power of each lane. */
static {V} weft_exp_{V}({V} x)
{{
    const {V} low = weft_max_{V}(x, {V}_OF(-104.0f));
    const {V} held = weft_min_{V}(low, {V}_OF(89.0f));
    const {V} shifted = held * 1.44269504f + 12582912.0f;
    const {V} power = shifted - 12582912.0f;
    const {M} n = ({M})shifted - 0x4b400000;
    const {M} half = n >> 1;
    const {V} r = (held - power * 0.693359375f) + power * 2.12194440e-4f;
    {V} y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    y = y * ({V})(({U})(half + 127) << 23);
    return y * ({V})(({U})(n - half + 127) << 23);
}}
"""

_TANH = """\
/* The hyperbolic tangent of each lane. */
static {V} weft_tanh_{V}({V} x)
{{
    const {M} sign = ({M})x & ({M})(-({V}){{0}});
    const {V} size = ({V})(({M})x ^ sign);
    const {V} far = 1.0f - 2.0f / (weft_exp_{V}(size + size) + 1.0f);
    const {V} square = x * x;
    {V} near = square * -5.70498872745e-3f + 2.06390887954e-2f;
    near = near * square - 5.37397155531e-2f;
    near = near * square + 1.33314422036e-1f;
    near = near * square - 3.33332819422e-1f;
    near = near * square * size + size;
    near = weft_select_{V}(size > 0.625f, far, near);
    return ({V})(({M})near | sign);
}}
"""

# 1 - e^p for a polynomial p: the logarithm of what is missing to 1.  The low bits of
# shifted are the exponent of 2^n, biased; e^r - 1 keeps small results exact.
_ERF = """\
/* The error function of each lane. */
static {V} weft_erf_{V}({V} x)
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

_TEXTS = {
    "exp": (_EXP, ("weft_max_{V}", "weft_min_{V}")),
    "tanh": (_TANH, ("weft_exp_{V}", "weft_select_{V}")),
    "erf": (_ERF, ("weft_min_{V}",)),
}


def math_helper(op: str, lanes: int) -> Text | None:
    """A function of ``f32`` vectors that is computed on all lanes at once."""
    if op not in _TEXTS:
        return None
    text, needs = _TEXTS[op]
    vector = f"v{lanes}f32"
    body = text.format(V=vector, M=f"v{lanes}i32", U=f"v{lanes}u32")
    for constant in ("-104.0f", "89.0f", "4.0f", "1.0f"):
        body = body.replace(f"{vector}_OF({constant})", f"({constant} - ({vector}){{0}})")
    return body, tuple(each.format(V=vector) for each in needs)
