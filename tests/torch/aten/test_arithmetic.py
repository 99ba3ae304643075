# pyright: basic
"""Rows of functions of two and more elements."""

import pytest
import torch

from tests.torch.aten.checking import check

X = torch.tensor([-7.5, -2.0, -0.5, 0.0, 0.3, 2.0, 7.0, float("inf"), float("nan"), 5.0])
Y = torch.tensor([2.0, -3.0, 0.25, 4.0, -0.1, 2.0, -2.5, 3.0, 1.0, float("nan")])
I = torch.tensor([-7, -6, -1, 0, 1, 6, 7])  # noqa: E741
J = torch.tensor([2, -3, 4, 5, -2, 3, -7])
B = torch.tensor([True, False, True, False])
C = torch.tensor([True, True, False, False])


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_of_two(compiled: bool):
    binary = {
        "add": lambda x, y: torch.add(x, y, alpha=3),
        "sub": lambda x, y: torch.sub(x, y, alpha=2),
        "mul": torch.mul,
        "div": torch.div,
        "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "floor_divide": torch.floor_divide,
        "remainder": torch.remainder,
        "fmod": torch.fmod,
        "rsub": lambda x, y: torch.rsub(x, y, alpha=2),
        "minimum": torch.minimum,
        "maximum": torch.maximum,
        "fmin": torch.fmin,
        "fmax": torch.fmax,
        "clamp": lambda x, y: torch.clamp(x, min=y, max=y + 2),
        "atan2": torch.atan2,
    }
    floats = {
        "hypot": torch.hypot,
        "copysign": torch.copysign,
        "xlogy": lambda x, y: torch.xlogy(x, y.abs()),
        "logaddexp": torch.logaddexp,
        "power": lambda x, y: torch.pow(x.abs(), y),
        "lerp": lambda x, y: torch.lerp(x.clamp(max=9), y, y),
        "addcmul": lambda x, y: torch.addcmul(x, y, y, value=0.5),
        "addcdiv": lambda x, y: torch.addcdiv(x, y, y + 9, value=-2),
    }
    cases = {f"{name}_f": (function, X, Y) for name, function in (binary | floats).items()}
    cases |= {f"{name}_i": (function, I, J) for name, function in binary.items()}
    cases |= {f"{name}_m": (function, I, Y[:7]) for name, function in binary.items()}
    check(cases, compiled=compiled)


def test_functions_of_a_tensor_and_a_number():
    functions = {
        "add": lambda x: 2 + x,
        "sub": lambda x: x - 1.5,
        "rsub": lambda x: 1 - x,
        "mul": lambda x: x * 2.5,
        "div": lambda x: x / 4,
        "over": lambda x: 4 / (x + 0.125),
        "floor": lambda x: x // 2,
        "remainder": lambda x: x % 3,
        "under": lambda x: 7 % (x + 0.125),
        "fmod": lambda x: torch.fmod(x, 2),
        "square": lambda x: x**2,
        "cube": lambda x: x**3,
        "root": lambda x: x.abs() ** 0.5,
        "base": lambda x: 2**x,
        "clamp": lambda x: x.clamp(-1, 4),
        "clamp_min": lambda x: x.clamp_min(-1),
        "clamp_max": lambda x: torch.clamp_max(x, 2.5),
        "lerp": lambda x: torch.lerp(x + 0.5, x.clamp(max=9) + 1.0, 0.25),
    }
    cases = {f"{name}_f": (function, X) for name, function in functions.items()}
    cases |= {f"{name}_i": (function, I) for name, function in functions.items() if name != "base"}
    check(cases)


def test_roots_as_powers_are_roots():
    far = torch.tensor([-float("inf"), -0.0, 0.0, float("inf"), 4.0, -4.0])
    cases = {
        "root": (lambda x: 1 / x**0.5, far),
        "inverse": (lambda x: x**-0.5, far),
        "double": (lambda x: torch.float_power(x, 0.5), far),
    }
    check(cases)
    check(cases, compiled=True)


def test_booleans_add_and_multiply():
    check({"or": (lambda a, b: a + b, B, C), "and": (lambda a, b: a * b, B, C)})
    check({"more": (torch.maximum, B, C), "less": (torch.minimum, B, C)})


def test_writes_in_place_use_the_rows_of_what_they_write():
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.mul(2).add_(1).clamp_(-3, 3).div_(2).sub_(0.5).pow_(2)

    check({"chain": (function, X)})
