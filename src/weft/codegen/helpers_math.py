"""Mathematical functions of single-precision vectors, within three units in the last place.

The polynomials are those of the Cephes library (Stephen L. Moshier, public domain), but for
the error function above 1: that one is fitted to the logarithm of its distance from 1.
"""

from __future__ import annotations

from weft.codegen.helpers_float import Text

# 2^n comes from the bits of a float; half of the scaling at a time reaches subnormals.
_EXP = """\
/* e to the power of each lane. */
static {V} weft_exp_{V}({V} x)
{{
    const {V} low = weft_select_{V}(x < -104.0f, {V}_OF(-104.0f), x);
    const {V} held = weft_select_{V}(low > 89.0f, {V}_OF(89.0f), low);
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

# Above 1 it is 1 - e^p for a polynomial p, whose range spares the exponential its limits.
_ERF = """\
/* The error function of each lane. */
static {V} weft_erf_{V}({V} x)
{{
    const {M} sign = ({M})x & ({M})(-({V}){{0}});
    const {V} whole = ({V})(({M})x ^ sign);
    const {V} size = weft_select_{V}(whole > 4.0f, {V}_OF(4.0f), whole);
    const {V} square = size * size;
    {V} near = square * 7.853861353153693e-5f - 8.010193625184903e-4f;
    {V} far = size * 1.876048045e-4f - 2.960114274e-3f;
    {V} shifted, power, r, y;
    near = near * square + 5.188327685732524e-3f;
    near = near * square - 2.685381193529856e-2f;
    near = near * square + 1.128358514861418e-1f;
    near = near * square - 3.761262582423300e-1f;
    near = (near * square + 1.128379165726710e+0f) * size;
    far = far * size + 2.188964188e-2f;
    far = far * size - 1.032182053e-1f;
    far = far * size - 6.380122304e-1f;
    far = far * size - 1.127171636e+0f;
    far = far * size - 3.205739777e-4f;
    shifted = far * 1.44269504f + 12582912.0f;
    power = shifted - 12582912.0f;
    r = (far - power * 0.693359375f) + power * 2.12194440e-4f;
    y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    far = 1.0f - y * ({V})(({U})(({M})shifted - 0x4b400000 + 127) << 23);
    near = weft_select_{V}(size > 1.0f, far, near);
    return ({V})(({M})near | sign);
}}
"""

_TEXTS = {
    "exp": (_EXP, ("weft_select_{V}",)),
    "tanh": (_TANH, ("weft_exp_{V}", "weft_select_{V}")),
    "erf": (_ERF, ("weft_select_{V}",)),
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
