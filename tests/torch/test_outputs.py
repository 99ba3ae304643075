"""Results of calls in C are tensors like any other, however they are made."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.torch.small import agrees, small
from weft.torch.native import native
from weft.torch.native import outputs as making
from weft.torch.native.outputs import new_output, output_words

_LIKE = {
    "image": torch.empty(1, 3, 4, 5),
    "number": torch.empty(()),
    "nothing": torch.empty(0, 3),
    "integers": torch.empty(7, dtype=torch.int64),
    "half": torch.empty(2, 9, dtype=torch.bfloat16),
    "truths": torch.empty(2, dtype=torch.bool),
}


@pytest.fixture(params=["quick", "public"])
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Inductor's function, or what there is without it."""
    if request.param == "public":
        monkeypatch.setattr(making, "_quick", lambda: None)
    elif making._quick() is None:
        pytest.skip("this PyTorch has no such function")
    for each in (new_output, native):
        each.cache_clear()
    yield request.param
    for each in (new_output, native):
        each.cache_clear()


@pytest.mark.parametrize("name", _LIKE)
def test_a_tensor_like_another(maker: str, name: str):
    like = _LIKE[name]
    made = new_output()(*output_words(like))
    assert (new_output() is torch.empty_like) == (maker == "public")
    assert type(made) is torch.Tensor
    assert (made.shape, made.stride(), made.dtype) == (like.shape, like.stride(), like.dtype)
    assert made.device == like.device
    assert made.untyped_storage().resizable()
    assert made.data_ptr() != like.data_ptr() or not like.numel()
    made.zero_()


@pytest.mark.usefixtures("maker")
def test_calls_give_what_the_module_gives():
    module, fast, x = small()
    agrees(module, fast, x)
    with torch.no_grad():
        first, second = fast(x), fast(-x)
    assert first.data_ptr() != second.data_ptr()
    torch.testing.assert_close(second, module(-x).detach(), rtol=1e-4, atol=1e-5)


def test_functions_that_make_something_else_are_not_used(monkeypatch: pytest.MonkeyPatch):
    guards: Any = vars(torch._C)["_dynamo"].guards

    def meta(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")

    def refuses(*_: object) -> torch.Tensor:
        raise TypeError("other arguments")

    for wrong in (meta, refuses, lambda *_: torch.empty(3, 1, 4)):
        monkeypatch.setattr(guards, "_empty_strided_cpu", wrong, raising=False)
        assert making._quick() is None
    monkeypatch.delattr(guards, "_empty_strided_cpu")
    assert making._quick() is None


def test_it_is_found_in_inference_mode():
    outside = making._quick()
    with torch.inference_mode():
        assert making._quick() is outside
