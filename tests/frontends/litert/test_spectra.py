"""Fourier transforms, and what takes the complex numbers that they give, against LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.frontends.litert.against import by_litert, by_weft, check, imported
from tests.frontends.litert.builder import Op, Sub, T, const, file
from weft.errors import UserError

COMPLEX = "complex64"


def spectrum(shape: tuple[int, ...], lengths: tuple[int, int], takers: Sequence[str]) -> bytes:
    """A transform, and operators that each take what it gives."""
    made = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    tensors = [T(shape), const(lengths), T(made, COMPLEX)]
    tensors += [T(made) for _ in takers]
    ops = [Op("RFFT2D", (0, 1), (2,), "Rfft2dOptions")]
    ops += [Op(name, (2,), (place,)) for place, name in enumerate(takers, 3)]
    return file([Sub(tensors, ops, [0], range(3, 3 + len(takers)))])


def agrees(content: bytes, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    check(by_weft(imported(content), [x]), by_litert(content, [x]), 0, 1e-5)


@pytest.mark.parametrize(
    ("shape", "lengths"),
    [((2, 1, 64), (1, 64)), ((3, 8, 16), (8, 16)), ((1, 5, 12), (8, 16)), ((1, 8, 32), (4, 16))],
)
def test_transforms(shape: tuple[int, ...], lengths: tuple[int, int]) -> None:
    agrees(spectrum(shape, lengths, ["COMPLEX_ABS", "REAL", "IMAG"]), shape)


def test_frames_as_tensorflow_converts_them() -> None:
    """``tf.signal.stft``: a new axis, the transform, and away with the axis."""
    tensors = [
        T((4, 32)), const(1), T((4, 1, 32)), const((1, 32)), T((4, 1, 17), COMPLEX),
        T((4, 17), COMPLEX), const((2, 2, 17)), T((2, 2, 17), COMPLEX), const(-2),
        T((2, 2, 1, 17), COMPLEX), T((2, 2, 1, 17)),
    ]  # fmt: skip
    ops = [
        Op("EXPAND_DIMS", (0, 1), (2,)),
        Op("RFFT2D", (2, 3), (4,), "Rfft2dOptions"),
        Op("SQUEEZE", (4,), (5,), "SqueezeOptions", {"squeezeDims": [-2]}),
        Op("RESHAPE", (5, 6), (7,), "ReshapeOptions"),
        Op("EXPAND_DIMS", (7, 8), (9,)),
        Op("COMPLEX_ABS", (9,), (10,)),
    ]
    agrees(file([Sub(tensors, ops, [0], [10])]), (4, 32))


def test_what_does_not_take_complex_numbers_says_so() -> None:
    with pytest.raises(UserError, match="NEG of complex numbers is not supported"):
        imported(spectrum((1, 1, 8), (1, 8), ["NEG"]))
    tensors = [T((1, 8)), const((1, 8)), T((1, 5), COMPLEX)]
    alone = file([Sub(tensors, [Op("RFFT2D", (0, 1), (2,), "Rfft2dOptions")], [0], [2])])
    with pytest.raises(UserError, match="output"):
        imported(alone)
    real = file([Sub([T((2, 3)), T((2, 3))], [Op("COMPLEX_ABS", (0,), (1,))], [0], [1])])
    with pytest.raises(UserError, match="COMPLEX_ABS is not supported"):
        imported(real)


@pytest.mark.parametrize("lengths", [(0, 8), (1, -8), (1,), (1, 2, 3)])
def test_lengths_are_checked(lengths: tuple[int, ...]) -> None:
    tensors = [T((1, 8)), const(lengths), T((1, 5), COMPLEX), T((1, 5))]
    ops = [Op("RFFT2D", (0, 1), (2,), "Rfft2dOptions"), Op("REAL", (2,), (3,))]
    with pytest.raises(UserError, match="two lengths"):
        imported(file([Sub(tensors, ops, [0], [3])]))
