"""What forwards do that a recording must leave to torch.export, or get right."""

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.torch.test_capture import Function, agree
from weft.torch.recording import record

X = torch.randn(3, 4)
IMAGE = torch.randn(1, 3, 3, 4)
Change = Callable[[nn.Module, torch.Tensor], None]


def left(module: nn.Module, *args: torch.Tensor) -> bool:
    """Whether a module is left to torch.export."""
    with torch.no_grad():
        return record(module.eval(), args, {}) is None


# --- weights ------------------------------------------------------------------------------------


class Changing(nn.Module):
    """Changes its weights, or those that it has not."""

    def __init__(self, change: Change, **weights: nn.Parameter) -> None:
        super().__init__()
        self.change = change
        self.register_buffer("missing", None)
        self.register_parameter("absent", None)
        for name, value in weights.items():
            self.register_parameter(name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.change(self, x)
        return x + 1


def _reorder(module: nn.Module, _: torch.Tensor) -> None:
    module.first = vars(module)["_parameters"].pop("first")


CHANGES: dict[str, Change] = {
    "buffer registered": lambda m, x: m.register_buffer("more", x * 2),
    "parameter registered": lambda m, _: m.register_parameter("more", nn.Parameter(torch.ones(4))),
    "buffer assigned": lambda m, x: setattr(m, "missing", x * 2),
    "buffer made": lambda m, _: setattr(m, "missing", torch.arange(4.0)),
    "parameter assigned": lambda m, _: setattr(m, "absent", nn.Parameter(torch.ones(4))),
    "parameters in another order": _reorder,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_weights_that_are_added_in_a_forward(change: Change):
    module = Changing(change, first=nn.Parameter(X), second=nn.Parameter(X + 1))
    spaces = [vars(module)[name] for name in ("_parameters", "_buffers")]
    before = [list(space.items()) for space in spaces]
    assert left(module, X)
    for space, known in zip(spaces, before, strict=True):
        assert [name for name, _ in known] == list(space)
        assert all(space[name] is value for name, value in known)


@pytest.mark.parametrize("assigned", [False, True])
def test_buffers_that_are_added_to_modules_without_weights(assigned: bool):
    module = Changing(CHANGES["buffer assigned" if assigned else "buffer registered"])
    assert left(module, X)
    assert vars(module)["_buffers"] == {"missing": None}


# --- tensors of other kinds ---------------------------------------------------------------------


def test_uninitialized_parameters():
    assert left(nn.LazyLinear(3), X)


# --- gradients ----------------------------------------------------------------------------------


class Gradients(nn.Module):
    def __init__(self, asked: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.asked = asked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = self.linear(x)
            return y * 2 if self.asked(y) else y


@pytest.mark.parametrize(
    "asked",
    [lambda y: y.requires_grad, lambda y: y.grad_fn is not None, lambda y: not y.is_leaf],
    ids=["requires_grad", "grad_fn", "is_leaf"],
)
def test_forwards_that_ask_for_gradients(asked: Callable[[torch.Tensor], Any]):
    agree(Gradients(asked), X)


# --- memory -------------------------------------------------------------------------------------


class Plain(nn.Module):
    """Reads a tensor that is no weight in some other way than by an op."""

    def __init__(self, reads: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.reads = reads
        self.plain = torch.arange(4.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + float(self.reads(self.plain))


READS: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda x: x.numpy()[1],
    "asarray": lambda x: np.asarray(x)[1],
    "dlpack": lambda x: torch.from_dlpack(x)[1],
    "capsule": lambda x: torch.from_dlpack(torch.to_dlpack(x))[1],
}


@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_plain_tensors_are_not_read_where_they_have_no_memory(reads: Any):
    assert left(Plain(reads), X)


def _otherwise(asked: Callable[[torch.Tensor], Any]) -> nn.Module:
    def computed(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * 2 if asked(x) else x
        except Exception:  # noqa: BLE001
            return x * 3

    return Function(computed)


ASKED: dict[str, Callable[[torch.Tensor], Any]] = {
    "tolist": lambda x: len(x.tolist()) == 3,
    "numpy": lambda x: x.numpy() is not None,
    "dlpack": lambda x: torch.from_dlpack(x) is not None,
    "repr": lambda x: len(repr(x)) > 1,
    "_is_view": lambda x: x[0]._is_view(),
    "_base": lambda x: x[0]._base is not None,
    "_version": lambda x: (x + 1).add_(1)._version == 1,
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_decides_without_an_op_is_left(asked: Any):
    assert left(_otherwise(asked), X)


@pytest.mark.parametrize("name", ["tolist", "_is_view", "_base", "_version"])
def test_what_decides_without_an_op(name: str):
    agree(_otherwise(ASKED[name]), X)


# --- layouts ------------------------------------------------------------------------------------


LAYERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conv2d": lambda x: functional.conv2d(x, torch.ones(2, 4, 1, 1)),
    "conv_transpose2d": lambda x: functional.conv_transpose2d(x, torch.ones(4, 2, 2, 2)),
    "group_norm": lambda x: functional.group_norm(x, 2),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_strides_that_decide(layer: Callable[[torch.Tensor], torch.Tensor]):
    def computed(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        y = layer(x.permute(0, 3, 1, 2))
        return y + 1 if y.is_contiguous() else y * 2, y.stride()

    assert left(Function(computed), IMAGE)


def test_strides_that_are_known():
    def computed(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.t().is_contiguous() else x * x.stride(0)

    module = Function(computed)
    assert not left(module, X)
    agree(module, X)


# --- transformations ----------------------------------------------------------------------------

TRANSFORMED: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda x: torch.func.vmap(lambda row: row * 2)(x),
    "vmap of a constant": lambda x: x + torch.func.vmap(lambda row: row * 2)(torch.ones(3, 4)),
    "vmap over a constant": lambda x: torch.func.vmap(lambda row: row * torch.ones(4))(x),
    "grad": torch.func.grad(lambda x: (x**2).sum()),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,)),
}


@pytest.mark.parametrize("function", TRANSFORMED.values(), ids=TRANSFORMED)
def test_functions_that_are_transformed(function: Callable[[torch.Tensor], Any]):
    assert left(Function(function), X)


# --- caches outside of modules ------------------------------------------------------------------


class Positions(nn.Module):
    """Keeps tensors in a cache that is no attribute of a module."""

    def __init__(self, *, counts: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.counts = counts
        self.calls: tuple[int, ...] = ()
        self.cache = functools.lru_cache(lambda size: torch.arange(float(size)).view(2, 2)[1:] * 2)
        self.kept = SimpleNamespace(last=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.counts:
            self.calls = (*self.calls, 1)
        y = self.linear(x) + self.cache(4).sum() + self.cache(4)[0, 1]
        self.kept.last = y
        return y


@pytest.mark.parametrize("counts", [False, True], ids=["recorded", "left"])
def test_caches_have_elements_afterwards(counts: bool):
    module = Positions(counts=counts)
    assert left(module, X) == counts
    expected = module.linear(X) + 16
    torch.testing.assert_close(module(X), expected)
    agree(module, X)
    agree(module, X[:2])
