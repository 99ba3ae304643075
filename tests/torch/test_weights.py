"""Weights change in every way that PyTorch's users change them: the next call is right."""

import copy
import operator
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import weft
from tests.torch.small import OWN, Small, agrees, small
from weft.runtime.library import Library
from weft.torch import native as native_call
from weft.torch.native import Native, calibration
from weft.torch.native.calibration import Offsets
from weft.torch.watch import Watch, places

Change = Callable[[Any], object]


def _step(kind: Any, **options: object) -> Change:
    def change(module: Any) -> None:
        optimizer = kind(module.parameters(), lr=0.1, **options)
        with torch.enable_grad():
            module(torch.randn(2, 3, 6, 6)).square().sum().backward()
        optimizer.step()

    return change


def _step_of_few(module: Any) -> None:
    """A fused step in which most gradients are zero, as an embedding's are."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, fused=True)
    for each in module.parameters():
        each.grad = torch.zeros_like(each)
    module.head.bias.grad[2] = 1
    optimizer.step()


def _ema(module: Any) -> None:
    for each in module.parameters():
        average = 0.5 * each.data + 0.1
        each.data, average = average, each.data


def _numpy(module: Any) -> None:
    module.head.weight.detach().numpy()[:] *= 1.5


def _numpy_refreshed(module: Any) -> None:
    module.head.weight.detach().numpy()[2, 3] += 1


def _running(module: Any) -> None:
    module.train()
    with torch.no_grad():
        module(torch.randn(4, 3, 6, 6) + 1)
    module.eval()


def _assign(module: Any) -> None:
    module.load_state_dict(
        {k: (1.5 * v).to(v.dtype) for k, v in module.state_dict().items()}, assign=True
    )


def _data(module: Any) -> None:
    module.head.weight.data = torch.randn(5, 8)


def _data_but_for_one(module: Any) -> None:
    """Other memory, in which no sample differs."""
    other = module.head.weight.data.clone()
    other[2, 3] += 1
    module.head.weight.data = other


def _storage(module: Any) -> None:
    module.head.weight.set_(torch.randn(5, 8))


CHANGES: dict[str, Change] = {
    "SGD": _step(torch.optim.SGD, foreach=False),
    "SGD foreach": _step(torch.optim.SGD, foreach=True),
    "SGD fused": _step(torch.optim.SGD, fused=True),
    "Adam": _step(torch.optim.Adam, foreach=False),
    "Adam fused": _step(torch.optim.Adam, fused=True),
    "fused step of one element": _step_of_few,
    "load_state_dict": lambda m: m.load_state_dict(Small().state_dict()),
    "load_state_dict assign": _assign,
    "copy_": lambda m: m.head.weight.copy_(torch.randn(5, 8)),
    "one element": lambda m: m.head.weight.select(0, 2).select(0, 3).add_(1),
    "one row": lambda m: m.head.weight[2].mul_(2),
    "a buffer": lambda m: m.norm.running_var.add_(1),
    "data.copy_": lambda m: m.head.weight.data.copy_(torch.randn(5, 8)),
    "data.add_": lambda m: m.head.weight.data.add_(0.1),
    "data =": _data,
    "data = but for one element": _data_but_for_one,
    "set_": _storage,
    "numpy": _numpy,
    "EMA by data": _ema,
    "new parameter": lambda m: setattr(m.head, "weight", nn.Parameter(torch.randn(5, 8))),
    "new buffer": lambda m: setattr(m.norm, "running_var", torch.rand(8) + 1),
    "running statistics": _running,
    "requires_grad": lambda m: m.requires_grad_(False),
    "share_memory": lambda m: m.share_memory(),
    "there and back": lambda m: m.double().float(),
    "vector_to_parameters": lambda m: nn.utils.vector_to_parameters(
        torch.randn(sum(each.numel() for each in m.parameters())), m.parameters()
    ),
    "init": lambda m: nn.init.normal_(m.head.weight),
    "bias": lambda m: m.head.bias.data.neg_(),
}


@pytest.fixture(scope="module", params=["calibrated", "asked"])
def shared(request: pytest.FixtureRequest):
    """A module and its twin, by the two ways of looking at weights."""
    torch.manual_seed(0)
    patch = pytest.MonkeyPatch()
    if request.param == "asked":
        patch.setattr(native_call, "offsets", lambda: Offsets(*[-1] * 7))
    library = Native(native_call._build())
    assert (library.torch.at.impl >= 0) == (request.param == "calibrated")
    patch.setattr("weft.torch.watch.native", lambda: library)
    patch.setattr("weft.torch.module.native", lambda: library)
    yield small()
    patch.undo()


@pytest.mark.parametrize("name", CHANGES)
@torch.no_grad()
def test_the_next_call_is_right(shared, name: str):
    module, fast, x = shared
    torch.manual_seed(1 + list(CHANGES).index(name))
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    before = fast(x)
    CHANGES[name](module)
    agrees(module, fast, x)
    module.zero_grad()
    if name not in ("requires_grad", "share_memory", "there and back"):
        # The change is one that matters.
        assert not torch.allclose(before, fast(x), rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_swapped_tensors(shared):
    module, fast, x = shared
    # PyTorch swaps no tensors that have weak references, as those that were captured do.
    module.head.weight = nn.Parameter(torch.randn(5, 8))
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    torch.utils.swap_tensors(module.head.weight, nn.Parameter(torch.randn(5, 8)))
    agrees(module, fast, x)


@torch.no_grad()
def test_writes_that_nothing_counts_and_no_sample_meets_need_refresh(shared):
    module, fast, x = shared
    agrees(module, fast, x, compiled=None)
    before = fast(x)
    _numpy_refreshed(module)
    assert torch.equal(fast(x), before)
    fast.refresh()
    agrees(module, fast, x)
    assert not torch.equal(fast(x), before)


@pytest.mark.parametrize("place", [0, 15, 24, 39])
@torch.no_grad()
def test_each_sample_shows_a_write_that_nothing_counts(shared, place: int):
    module, fast, x = shared
    module.norm.bias.fill_(5)  # no input of the head is zero, whatever changed before
    weight = module.head.weight
    assert {4 * each for each in (0, 15, 24, 39)} == set(places(weight))
    agrees(module, fast, x, compiled=None)
    before, counted = fast(x), weight._version
    weight.detach().numpy().reshape(-1)[place] += 1
    assert weight._version == counted
    agrees(module, fast, x)
    assert not torch.allclose(before, fast(x), rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_functional_calls_use_what_they_are_given(shared):
    module, fast, x = shared
    others = Small().eval().state_dict()
    agrees(module, fast, x, compiled=None)
    expected = torch.func.functional_call(module, others, (x,))
    with pytest.warns(UserWarning, match="functional_call"):
        got = torch.func.functional_call(fast, others, (x,))
    torch.testing.assert_close(got, expected)
    agrees(module, fast, x)


@torch.no_grad()
def test_pruning():
    module, fast, x = small()
    before = fast(x)
    prune.l1_unstructured(module.head, "weight", amount=0.5)
    with pytest.warns(UserWarning, match="runs its own forward: head has hooks"):
        fast(x)
    agrees(module, fast, x, compiled=False)
    prune.remove(module.head, "weight")
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    assert not torch.allclose(before, fast(x))


class _Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "own"])
@torch.no_grad()
def test_parametrizations(kind: str):
    module, fast, x = small()
    if kind == "own":
        parametrize.register_parametrization(module.head, "weight", _Doubled())
    else:
        getattr(parametrizations, kind)(module.head, "weight")
    module.eval()
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    for each in module.head.parameters():
        each.mul_(1.5)
    agrees(module, fast, x)
    parametrize.remove_parametrizations(module.head, "weight")
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("order", torch.tensor([2, 0, 1, 3]))
        self.offset = torch.randn(4)
        self.pair = (torch.randn(4), torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        OWN.append("_Tied")
        y = self.second(torch.relu(self.first(x)))[:, self.order] + self.offset
        return y * self.pair[0] + self.pair[1]


@torch.no_grad()
def test_what_is_part_of_the_code_is_compiled_anew():
    module: Any = _Tied().eval()
    x = torch.randn(2, 4)
    fast = weft.optimize(module, x, measure=False)
    agrees(module, fast, x)
    for change in (
        lambda: module.first.weight.mul_(2),
        lambda: setattr(module.second, "weight", nn.Parameter(torch.randn(4, 4))),
        lambda: module.order.copy_(torch.tensor([3, 1, 0, 2])),
        lambda: module.offset.add_(1),
        lambda: setattr(module, "offset", torch.randn(4)),
        lambda: setattr(module, "order", torch.tensor([0, 3, 1, 2])),
        lambda: module.pair[0].add_(1),
        lambda: setattr(module, "pair", (module.pair[0], torch.randn(4))),
    ):
        change()
        agrees(module, fast, x, compiled=None)
        agrees(module, fast, x)


class _Configured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)
        self.scales = [[1.0], 2.0]
        self.config = SimpleNamespace(table={"shift": 0.0}, steps=np.ones(4, np.float32))
        self.config.own = weakref.proxy(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        OWN.append("_Configured")
        y = self.head(x) * self.scales[0][0] + self.config.table["shift"]
        return y * float(self.config.steps[1])


@torch.no_grad()
@pytest.mark.parametrize(
    "change",
    [
        lambda m: operator.setitem(m.scales[0], 0, 3.0),
        lambda m: m.config.table.update(shift=1.5),
        lambda m: setattr(m.config, "table", {"shift": -1.0}),
        lambda m: operator.setitem(m.config.steps, 1, 0.5),
    ],
)
def test_refresh_looks_into_containers_and_objects(change: Change):
    module: Any = _Configured().eval()
    x = torch.randn(2, 4)
    fast: Any = weft.optimize(module, x, measure=False)
    change(module)
    fast.refresh()
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    module.head.weight.view(-1).numpy()[5] = 7.0
    fast.refresh()
    captures = fast._weft._captures
    agrees(module, fast, x)
    assert fast._weft._captures == captures == 1  # weights alone are no reason to compile again


@torch.no_grad()
def test_too_many_changes_of_structure_end_in_the_own_forward():
    module, fast, x = small()
    for number in range(8):
        module.scale = float(number)
        agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    module.scale = 0.5
    with pytest.warns(UserWarning, match="changed 9 times"):
        fast(x)
    agrees(module, fast, x, compiled=False)


@torch.no_grad()
def test_python_alone_sees_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.torch.watch.native", lambda: None)
    for name, change in CHANGES.items():
        module = Small().eval()
        watch = Watch(module)
        assert watch.same(), name
        change(module)
        optimizer = name == "fused step of one element"  # which the hook sees
        assert watch.same() == (optimizer or name == "requires_grad"), name


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "scale", 3.0),
        lambda m: setattr(m.conv, "stride", (2, 2)),
        lambda m: setattr(m.norm, "track_running_stats", False),
        lambda m: setattr(m, "norm", nn.BatchNorm2d(8)),
        lambda m: m.register_buffer("more", torch.zeros(1)),
        lambda m: setattr(m, "__class__", nn.Module),
        lambda m: m.train(),
    ],
)
def test_python_alone_sees_attributes_and_modules(monkeypatch: pytest.MonkeyPatch, change: Change):
    monkeypatch.setattr("weft.torch.watch.native", lambda: None)
    module = Small().eval()
    watch = Watch(module)
    assert watch.holds()
    change(module)
    assert not watch.holds()
    assert not watch.same()


@torch.no_grad()
def test_another_tensor_of_the_same_memory_is_a_change(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.torch.watch.native", lambda: None)
    module = Small().eval()
    weight = module.head.weight.add_(0)
    watch = Watch(module)
    other = nn.Parameter(weight.data)
    while other._version < weight._version:
        other[2, 3].add_(1)
    module.head.weight = other
    # Address, version and samples are what they were.
    assert watch.changed() == {"head.weight"}


@pytest.mark.parametrize("in_c", [True, False])
@torch.no_grad()
def test_other_strides_of_the_same_memory_are_a_change(monkeypatch: pytest.MonkeyPatch, in_c: bool):
    module: Any = nn.Linear(8, 8, bias=False).eval()
    module.weight.zero_()[1, 3] = 1
    x = torch.randn(1, 8)
    fast: Any = weft.optimize(module, x, measure=False)
    agrees(module, fast, x)
    if not in_c:
        monkeypatch.setattr("weft.torch.watch.native", lambda: None)
        fast.refresh()
        agrees(module, fast, x, compiled=None)
    # Address, version, shape and samples are what they were.
    module.weight.data = module.weight.data.t()
    agrees(module, fast, x, compiled=None)


def test_places_are_found_in_this_process():
    """Where they are not, calls of modules with many weights are slow: that should be known."""
    found = calibration.offsets()
    assert all(
        getattr(found, name) >= 0 for name in "impl storage counter layout data version".split()
    )


def test_a_copy_is_not_touched_by_its_original():
    module, fast, x = small()
    twin = copy.deepcopy(fast)
    agrees(module, twin, x, compiled=None)
    with torch.no_grad():
        expected = fast(x)
        module.head.weight.mul_(2)
        torch.testing.assert_close(twin(x), expected)
    agrees(module, fast, x)


def test_weights_are_prepared_once(monkeypatch):
    prepared: list[object] = []
    load = Library.load

    def counted(library: Library, parameters: Any) -> None:
        prepared.append(library)
        load(library, parameters)

    monkeypatch.setattr(Library, "load", counted)
    module, fast, x = small()
    agrees(module, fast, x)
    assert len(prepared) == 1
    module.conv.stride = (1, 1)  # equal, but another: nothing has to be prepared for it
    agrees(module, fast, x)
    assert len(prepared) == 1
    module.conv.weight.data.mul_(2)
    agrees(module, fast, x)
    assert len(prepared) == 2
