"""The forms of a convolution of bytes by pairs of products, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.dual.products import FORMS, Form, write
from weft.kernels.bytes.lines import has_lines, is_signed
from weft.kernels.bytes.windows import ByteWindow, byte_window
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.instruction import families

_FILL = 1.4
"""Instructions that widen an element."""
_OUTPUT = 9
"""Instructions that requantize and store a sum."""
_BYTE = (-128, 127)


def forms_of(window: ByteWindow) -> Iterator[Form]:
    """The forms that fit a contraction and its target."""
    found = window.found
    positions = prod(each[1].out.extent for each in (window.rows, window.columns) if each)
    wide = found.task.optimize == "speed"
    for form in FORMS:
        # Weights in 16 bits take twice the flash: for speed alone, or where 8 bits do not fit.
        needs, _ = families()[form.family]
        small = form.bits == 8
        low, high = found.weights.min(), found.weights.max()
        fits = not small or (_BYTE[0] <= low and high <= _BYTE[1])
        whole = found.channel.extent % form.channels == 0 and positions >= form.positions
        if needs in found.task.target.features and whole and fits and (small or wide):
            yield form


def cost(window: ByteWindow, form: Form) -> float:
    """About how many cycles it takes."""
    found = window.found
    channels, depth = found.weights.shape
    positions = prod(axis.extent for axis in found.positions)
    tiles = -(-positions // form.positions)
    groups = channels / form.channels
    sums = groups * (-(-depth // 4) * form.instructions + form.ahead)
    each = sums + form.positions * (_FILL * depth + _OUTPUT * channels)
    # As other generators count: two instructions a cycle.
    return tiles * each / 2


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternatives of this generator."""
    needed = {families()[form.family][0] for form in FORMS}
    if needed.isdisjoint(task.target.features):
        return Refusal("the target has no instructions that multiply pairs of 16 bits")
    window = byte_window(task)
    if isinstance(window, Refusal):
        return window
    if not is_signed(window) or not has_lines(window):
        return Refusal("its input is not rows of signed bytes, channels side by side")
    forms = tuple(forms_of(window))
    if not forms:
        return Refusal("no instruction of the target takes its types and sizes")
    return tuple(
        Alternative(
            form.family,
            cost(window, form),
            Sums("tensorized"),
            partial(write, window, form),
            always,
        )
        for form in forms
    )


GENERATOR = Generator(
    "byte-dual",
    "Convolutions and matrix products of bytes by pairs of products (SMLAD): what a few positions "
    "read is widened once, then loops that all layers share make the sums of all channels and "
    "requantize them.",
    (
        "one sum of products, in i32, of signed bytes and constant weights less their zero points",
        "output channels fastest in the output, all of which read the same input channels",
        "the target multiplies pairs of 16 bits and adds (Arm DSP extension)",
    ),
    propose,
    any_threads=True,
)
