# pyright: basic
"""Rows of mathematical functions of one element."""

import pytest
import torch

from tests.torch.aten.checking import check

X = torch.cat([torch.linspace(-3, 3, 41), torch.tensor([1e-6, -1e-6, float("nan")])])
ENDS = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, 2.5, -2.5])
FUNCTIONS = """
abs acos asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 log1p
log2 neg reciprocal round rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc deg2rad
rad2deg acosh positive sgn
""".split()


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_of_one(compiled: bool):
    cases = {name: (getattr(torch, name), X) for name in FUNCTIONS}
    cases |= {
        f"{name}_ends": (getattr(torch, name), ENDS)
        for name in ("exp", "log", "expm1", "log1p", "trunc", "erf", "sqrt", "tanh", "nan_to_num")
    }
    cases["nan_to_num_given"] = (lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), ENDS)
    cases["logit"] = (torch.logit, X)
    cases["logit_eps"] = (lambda x: torch.logit(x, 0.1), X)
    cases["decimals"] = (lambda x: torch.round(x * 100, decimals=1), X)
    cases["tens"] = (lambda x: torch.round(x * 100, decimals=-1), X)
    check(cases, compiled=compiled, atol=2e-6)


def test_small_arguments_keep_their_digits():
    small = torch.tensor([1e-7, -1e-7, 3e-5, -3e-5, 0.4, 0.6, 30.0])
    functions = {"expm1": torch.expm1, "log1p": torch.log1p}
    cases = {name: (function, small) for name, function in functions.items()}
    check(cases, compiled=True, rtol=1e-6, atol=0)


def test_functions_of_whole_numbers():
    whole = torch.tensor([-3, 0, 5])
    names = "abs ceil floor round trunc neg sign square sqrt exp sin sigmoid relu".split()
    check({name: (getattr(torch, name), whole) for name in names})
