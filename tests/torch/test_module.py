"""The optimized module is the module, but for its forward."""

import copy
import inspect
import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

import weft
from tests.torch.small import OWN, Small, agrees, image, small
from weft.errors import UserError
from weft.torch.eager import Times
from weft.torch.module import Optimized
from weft.torch.native import MISS

modules = nn.modules.module


@pytest.fixture(scope="module")
def shared():
    torch.manual_seed(0)
    return small()


def test_compiled_code_runs(shared):
    agrees(*shared)


def test_it_is_the_module(shared):
    module, fast, _ = shared
    assert isinstance(fast, Small)
    assert type(fast).__name__ == "Small"
    assert list(fast.state_dict()) == list(module.state_dict())
    pairs = zip(fast.named_parameters(), module.named_parameters(), strict=True)
    assert all(own == other and tensor is same for (own, tensor), (other, same) in pairs)
    assert [name for name, _ in fast.named_modules()] == [n for n, _ in module.named_modules()]
    assert fast.conv is module.conv
    assert fast.scale == 2.0
    assert str(inspect.signature(fast.forward)) == str(inspect.signature(module.forward))


def test_results_are_new_tensors(shared):
    _, fast, x = shared
    with torch.no_grad():
        first = fast(x)
        kept = first.clone()
        second = fast(-x)
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, kept)
    assert first.untyped_storage().resizable()


def test_inference_mode_gives_inference_tensors(shared):
    _, fast, x = shared
    with torch.inference_mode():
        assert fast(x).is_inference()
        assert fast(x.clone()).is_inference()
    with torch.no_grad():
        assert not fast(x).is_inference()


def test_modes_are_shared_and_training_runs_the_own_forward():
    module, fast, x = small()
    fast.train()
    assert module.training
    assert module.norm.training
    with pytest.warns(UserWarning, match="training mode"):
        fast(x)
    with torch.no_grad():
        fast(x)  # said once
    module.eval()
    agrees(module, fast, x)


def test_gradients_come_from_the_own_forward(shared):
    module, fast, x = shared
    with pytest.warns(UserWarning, match="require gradients"):
        fast(x).sum().backward()
    got = {name: each.grad for name, each in fast.named_parameters()}
    module.zero_grad()
    module(x).sum().backward()
    for name, each in module.named_parameters():
        torch.testing.assert_close(got[name], each.grad)
    module.zero_grad()


def test_without_parameters_that_need_gradients_compiled_code_runs_in_grad_mode():
    module, fast, x = small()
    module.requires_grad_(False)
    OWN.clear()
    fast(x)
    fast(x)
    assert not OWN
    with pytest.warns(UserWarning, match="an input requires"):
        assert fast(x.clone().requires_grad_()).requires_grad
    module.head.requires_grad_()
    with pytest.warns(UserWarning, match="parameters require"):
        assert fast(x).requires_grad


def _own(fast: Any, call: Any, why: str) -> Any:
    """What a call gives that must run the module's own forward, and say why."""
    fast._weft._said.clear()
    OWN.clear()
    with pytest.warns(UserWarning, match=why), torch.no_grad():
        got = call(fast)
    assert OWN
    return got


def test_autocast(shared):
    module, fast, x = shared
    with torch.autocast("cpu"), torch.no_grad():
        expected = module(x)
        got = _own(fast, lambda f: f(x), "autocast")
    assert got.dtype == expected.dtype


def test_vmap(shared):
    module, fast, x = shared
    many = torch.stack([x, -x])
    got = _own(fast, lambda f: torch.vmap(f)(many), "vmap")
    with torch.no_grad():
        torch.testing.assert_close(got[1], module(-x))


# Of `torch.jit.script`, which PyTorch itself calls; newer ones give a FutureWarning.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_forward_mode_differentiation(shared):
    _, fast, x = shared
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        fast._weft._said.clear()
        with pytest.warns(UserWarning, match="forward-mode"):
            got = fast(dual)
        assert forward_ad.unpack_dual(got).tangent is not None


def test_other_types(shared):
    module, fast, x = shared
    twin = copy.deepcopy(fast).double()
    got = _own(twin, lambda f: f(x.double()), "float64")
    with torch.no_grad():
        torch.testing.assert_close(got, copy.deepcopy(module).double()(x.double()))


def test_subclasses_of_tensors(shared):
    _, fast, x = shared

    class Mine(torch.Tensor):
        pass

    assert type(_own(fast, lambda f: f(x.as_subclass(Mine)), "Mine")) is Mine


def test_fake_tensors(shared):
    _, fast, x = shared
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        got = _own(fast, lambda f: f(mode.from_tensor(x)), "mode of PyTorch")
    assert got.shape == (1, 5)


def test_lazy_negations(shared):
    module, fast, x = shared
    negated = torch.ops.aten._neg_view(x)
    with torch.no_grad():
        torch.testing.assert_close(
            _own(fast, lambda f: f(negated), "negation"), module(-x), rtol=1e-4, atol=1e-5
        )


def test_tracers_see_the_own_forward(shared):
    module, fast, x = shared
    with torch.no_grad():
        expected = module(x)
        fast._weft._said.clear()
        with pytest.warns(UserWarning, match="mode of PyTorch"):
            exported = torch.export.export(fast, (x,))
        torch.testing.assert_close(exported.module()(x), expected)
        compiled = torch.compile(fast, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), expected)


def test_symbolic_tracing(shared):
    module, fast, x = shared
    fast._weft._said.clear()
    with pytest.warns(UserWarning, match="traced"):
        traced = torch.fx.symbolic_trace(fast)
    with torch.no_grad():
        torch.testing.assert_close(traced(x), module(x))
    assert any(node.op == "call_module" for node in traced.graph.nodes)


def test_hooks_on_the_module_run_and_compiled_code_does():
    module, fast, x = small()
    seen: list[str] = []
    before = fast.register_forward_pre_hook(lambda *_: seen.append("before"))
    after = module.register_forward_hook(lambda *given: seen.append("after") or given[2] * 2)
    OWN.clear()
    with torch.no_grad():
        got = fast(x)
    assert not OWN
    assert seen == ["before", "after"]
    before.remove()
    after.remove()
    with torch.no_grad():
        torch.testing.assert_close(got, 2 * module(x), rtol=1e-4, atol=1e-5)


def test_hooks_on_the_module_are_not_compiled_in():
    module: Any = Small().eval()
    x = image()
    module.register_forward_hook(lambda *given: given[2] + 1)
    agrees(module, weft.optimize(module, x, measure=False), x)


@pytest.mark.parametrize("own", [False, True])
def test_hooks_that_are_registered_later_are_not_compiled_in(
    own: bool, monkeypatch: pytest.MonkeyPatch
):
    taken = Times(weft=2.0 if own else 1.0, contiguous=1.0 if own else 2.0)
    monkeypatch.setattr("weft.torch.specialise.times", lambda *_, **__: taken)
    module: Any = Small().eval()
    fast: Any = weft.optimize(module, image())
    hook = module.register_forward_hook(lambda *given: given[2] + 1)
    other = torch.randn(2, 3, 6, 6)
    agrees(module, fast, other, compiled=None)  # A capture runs the forward.
    agrees(module, fast, image(), compiled=not own)
    hook.remove()
    agrees(module, fast, other, compiled=not own)


def test_hooks_inside_run_by_the_own_forward():
    module, fast, x = small()
    seen: list[torch.Tensor] = []
    hook = module.conv.register_forward_hook(lambda *_: seen.append(_[2]))
    _own(fast, lambda f: f(x), "conv has hooks")
    assert len(seen) == 1
    hook.remove()
    agrees(module, fast, x)
    everywhere = nn.modules.module.register_module_forward_hook(lambda *_: seen.append(_[2]))
    _own(fast, lambda f: f(x), "hooks on all modules")
    everywhere.remove()
    agrees(module, fast, x)


HOOKS: dict[str, Callable[[Any], Any]] = {
    "forward": lambda f: f.register_forward_hook(lambda *_: None),
    "before forward": lambda f: f.register_forward_pre_hook(lambda *_: None),
    "backward": lambda f: f.register_full_backward_hook(lambda *_: None),
    "before backward": lambda f: f.register_full_backward_pre_hook(lambda *_: None),
    "forward of all": lambda _: modules.register_module_forward_hook(lambda *_: None),
    "before forward of all": lambda _: modules.register_module_forward_pre_hook(lambda *_: None),
    "backward of all": lambda _: modules.register_module_full_backward_hook(lambda *_: None),
    "before backward of all": lambda _: modules.register_module_full_backward_pre_hook(
        lambda *_: None
    ),
}


@pytest.mark.parametrize("kind", HOOKS)
@torch.no_grad()
def test_no_call_passes_by_hooks(kind: str):
    module, fast, x = small()
    assert fast._weft.whole(x) is not MISS
    hook = HOOKS[kind](fast)
    try:
        assert fast._weft.whole(x) is MISS
        agrees(module, fast, x, compiled=None)
    finally:
        hook.remove()
    agrees(module, fast, x)
    assert fast._weft.whole(x) is not MISS


@torch.no_grad()
def test_no_call_passes_by_what_a_module_runs_instead(monkeypatch: pytest.MonkeyPatch):
    module, fast, x = small()
    seen: list[torch.Tensor] = []
    original = nn.Module.__call__

    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.extend(args)
        return original(self, *args, **kwargs)

    with monkeypatch.context() as context:
        context.setattr(nn.Module, "__call__", noting)
        fast(x)
        assert seen[0] is x
    module._compiled_call_impl = lambda x: x + 1
    assert torch.equal(fast(x), x + 1)
    fast.forward(x)  # takes notice of the attribute
    assert torch.equal(fast(x), x + 1)
    module._compiled_call_impl = None
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)


class Called(Small):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(2 * x)


def test_a_call_of_the_class_itself_stays():
    module = Called().eval()
    x = image()
    agrees(module, weft.optimize(module, x, measure=False), x)


def test_a_class_without_such_subclasses_is_refused():
    class Slotted(nn.Module):
        __slots__ = ("extra",)

    with pytest.raises(UserError, match="a subclass of the module's class; got Slotted: "):
        weft.optimize(Slotted().eval())


def test_copies_are_optimized_modules_of_their_own():
    module, fast, x = small()
    twins: list[Any] = [copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))]
    for twin in twins:
        assert Optimized in type(twin).__mro__
        assert twin.conv.weight is not module.conv.weight
        with torch.no_grad():
            twin.head.bias.add_(1)
            expected = module(x) + module.scale
            twin(x)
            OWN.clear()
            torch.testing.assert_close(twin(x), expected, rtol=1e-4, atol=1e-5)
        assert not OWN
    agrees(module, fast, x)


def test_share_memory_and_moves():
    module, fast, x = small()
    fast.share_memory()
    agrees(module, fast, x)
    agrees(module, fast.double(), x.double(), compiled=False)
    agrees(module, fast.float(), x)
    agrees(module, fast.to(memory_format=torch.channels_last), x)


def test_other_shapes_are_compiled_when_they_come():
    module, fast, x = small()
    agrees(module, fast, torch.randn(2, 3, 7, 5), compiled=None)
    agrees(module, fast, torch.randn(2, 3, 7, 5))
    agrees(module, fast, x)


def test_attributes_count():
    module, fast, x = small()
    module.scale = 3.0
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    fast.head = nn.Linear(8, 2).eval()
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)


@dataclass
class Pair:
    first: torch.Tensor
    second: Any


pytree.register_dataclass(Pair)


class Nested(nn.Module):
    def forward(self, x: Any, scale: float = 1.0, *, bias: Any = None, lists: Any = ()) -> Any:
        OWN.append("Nested")
        y = torch.relu(x["a"] if isinstance(x, dict) else x) * scale
        if bias is not None:
            y = y + bias
        for each in lists:
            y = y * each
        return Pair(y, OrderedDict(twice=2 * y, none=None, three=3))


def test_arguments_and_results_may_be_nested():
    module, x, b = Nested().eval(), torch.randn(2, 3), torch.randn(3)
    fast = weft.optimize(module, x, measure=False)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}),
        ((x, 3.0), {}),
        ((x,), {"scale": 4.0, "bias": b}),
        (({"a": x},), {"lists": [b, b]}),
    ]
    for args, kwargs in calls:
        expected = module(*args, **kwargs)
        fast(*args, **kwargs)
        OWN.clear()
        got = fast(*args, **kwargs)
        assert not OWN
        assert type(got) is Pair
        torch.testing.assert_close(got.first, expected.first)
        torch.testing.assert_close(got.second["twice"], expected.second["twice"])
        assert (got.second["none"], got.second["three"]) == (None, 3)


class Signed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = (1.0, 0.0)

    def forward(self, x: torch.Tensor, other: Any = 0.0) -> tuple[torch.Tensor, ...]:
        OWN.append("Signed")
        signs = (self.pair[1], other)
        return tuple(torch.copysign(x, torch.full_like(x, each)) for each in signs)


@pytest.mark.parametrize("kind", [float, np.float64])
def test_zeros_of_both_signs_are_two_values(kind: Any):
    module, x = Signed().eval(), torch.randn(3)
    fast = weft.optimize(module, x, kind(0.0), measure=False)
    for value in (0.0, -0.0, 0.0, -0.0):
        expected = module(x, kind(value))
        for _ in range(2):
            got = fast(x, kind(value))
            assert all(map(torch.equal, got, expected)), value
    fast(x)
    module.pair = (1.0, -0.0)
    assert torch.equal(fast(x)[0], module(x)[0])


def test_channels_last_inputs_are_read_where_they_lie():
    module, x = Small().eval(), torch.randn(2, 3, 6, 6)
    x = x.to(memory_format=torch.channels_last)
    fast: Any = weft.optimize(module, x, measure=False)
    (binding,) = fast._weft._bindings.values()
    assert binding.runner.part.compiled.library.inputs[0].shape == (2, 6, 6, 3)
    assert not binding.entry.table.instead
    agrees(module, fast, x)
    assert binding.runner.part.copies == 0
    agrees(module, fast, x.contiguous(), compiled=None)
    agrees(module, fast, x.contiguous())
    agrees(module, fast, x)


def test_inputs_with_gaps_are_copied_and_counted():
    module, fast, x = small()
    wide = torch.randn(1, 3, 6, 12)[..., ::2]
    agrees(module, fast, wide)
    agrees(module, fast, wide)
    agrees(module, fast, x)
    runners = [each.runner for each in fast._weft._bindings.values()]
    assert len({id(each) for each in runners}) == 1  # one build serves both
    assert runners[0].part.copies == 2
