"""What is captured of modules: nesting, weights, states, constants, writes in place."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import fx, nn
from torch._decomp import decompositions
from torch.nn import functional
from torch.utils import _pytree as pytree

from weft.api.net import Net
from weft.errors import UserError
from weft.torch.aten.importer import import_all
from weft.torch.capture import Captured, capture
from weft.torch.tensors import as_array


def run(captured: Captured, *args: Any, **kwargs: Any) -> Any:
    """Runs a captured graph by the reference, as its importer understands it."""
    imported = import_all(captured)
    assert not imported.refused, list(imported.refused.items())
    leaves = pytree.tree_leaves((args, kwargs))
    values: dict[fx.Node, Any] = {slot.node: slot.value for slot in captured.weights}
    values |= dict(zip((slot.node for slot in captured.inputs), leaves, strict=True))
    given = [as_array(values[node].contiguous()) for node in imported.inputs]
    made = Net(imported.graph).reference(*given) if imported.outputs else ()
    values |= zip(imported.outputs, (torch.from_numpy(each.copy()) for each in made), strict=True)
    found = []
    for result in captured.results:
        value = values[result.value] if isinstance(result.value, fx.Node) else result.value
        if result.target is None:
            found.append(value)
        else:
            values[result.target.node].detach().copy_(value)
    return pytree.tree_unflatten(found, captured.out_spec)


def agree(module: nn.Module, *args: Any, calls: int = 1, **kwargs: Any) -> Captured:
    """Compares calls of a module with runs of its graph, and what both change."""
    module = module.eval()
    captured = capture(module, _copied(args), _copied(kwargs))
    for _ in range(calls):
        before = {name: value.clone() for name, value in module.named_buffers()}
        own_args, own_kwargs = _copied(args), _copied(kwargs)
        with torch.no_grad():
            expected = _copied(module(*own_args, **own_kwargs))
        changed = {name: value.clone() for name, value in module.named_buffers()}
        for name, value in module.named_buffers():
            value.copy_(before[name])
        got_args, got_kwargs = _copied(args), _copied(kwargs)
        got = run(captured, *got_args, **got_kwargs)
        same(got, expected)
        same((got_args, got_kwargs), (own_args, own_kwargs))
        torch.testing.assert_close(dict(module.named_buffers()), changed)
    return captured


def same(got: Any, expected: Any) -> None:
    leaves, spec = pytree.tree_flatten(got)
    assert spec == pytree.tree_structure(expected)
    for mine, other in zip(leaves, pytree.tree_leaves(expected), strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
        else:
            assert mine == other


def _copied(tree: Any) -> Any:
    return pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, tree)


class Function(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Any, **weights: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in weights.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        weights = dict(self.named_buffers())
        return self.function(*args, **weights, **kwargs)


X = torch.randn(3, 4)


# --- arguments and results ----------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Named:
    scores: torch.Tensor
    rest: tuple[torch.Tensor, ...]


class Arguments(nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        scale: float = 1.0,
        *,
        mask: torch.Tensor | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        y = x * scale
        if mask is not None:
            y = y.masked_fill(mask, -1)
        if options:
            y = y + options["shift"] * len(options["name"])
        return {"y": y, "nothing": None, "number": 3, "pair": Pair(y + 1, [x])}


def test_arguments_of_all_kinds_in_any_order():
    mask = X > 0
    options = {"name": "abc", "shift": torch.ones(4)}
    agree(Arguments(), X)
    agree(Arguments(), X, 2.5)
    agree(Arguments(), X, options=options, mask=mask)
    agree(Arguments(), mask=mask, options=None, scale=3, x=X)


def test_results_that_are_dataclasses():
    pytree.register_dataclass(Named)
    agree(Function(lambda x: Named(x + 1, (x * 2, x.t()))), X)


def test_results_that_are_inputs_weights_constants_or_twice_the_same():
    module = Function(lambda x, w: (x, w, x, x + w, torch.arange(3), None, 2.5), w=torch.ones(4))
    captured = agree(module, X)
    doubled = agree(Function(lambda x: 2 * (x + 1,)), X)
    assert len(import_all(doubled).outputs) == 1
    assert len(captured.results) == 7


def test_results_that_are_views_of_inputs():
    agree(Function(lambda x: (x.t(), x[1:], x.view(-1), x.detach())), X)


# --- weights ------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 5, bias=False)
        self.decoder = nn.Linear(4, 5, bias=False)
        self.decoder.weight = self.encoder.weight
        self.plain = torch.full((5,), 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x) - 2 * self.decoder(x) + self.plain


def test_tied_weights_are_one():
    imported = import_all(agree(Tied(), X))
    kinds = [slot.kind for slot in imported.weights.values()]
    assert sorted(kinds) == ["constant", "parameter"]


def test_what_is_known_is_evaluated():
    def positions(x: torch.Tensor, table: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        mask = torch.full((3, 3), float("-inf")).triu(1)
        grid = x.new_zeros(3, 4)
        for count, row in enumerate(grid.unbind(0)):
            row.fill_(count)
        grid[:, 1:3] += 1
        return (
            mask.softmax(-1)[:, 1:2] * x
            + grid
            + table[order.flip(0)[:, None] * 4 + torch.arange(4)]
        )

    module = Function(positions, table=torch.randn(12), order=torch.tensor([2, 0, 1]))
    captured = agree(module, X)
    ops = {node.op for node in captured.graph.nodes if "fill" in str(node.target)}
    assert not ops
    assert [slot.name for slot in captured.baked] == ["order"]
    assert len([node for node in captured.graph.nodes if node.op == "call_function"]) == 4


def test_random_numbers_are_not_evaluated():
    captured = capture(Function(lambda x: x + torch.rand(4)), (X,))
    assert list(import_all(captured).refused.values()) == ["random numbers are not supported"]


# --- contexts -----------------------------------------------------------------------------------


class Contexts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            y = self.linear(x)
            y, z = y + 1, y * 2
        with torch.autocast("cpu", enabled=False):
            z = self.linear(z) + torch.arange(4)
            with torch.enable_grad():
                z = z.to(torch.float64).float() * 2
        return y, z


def test_bodies_of_contexts_are_inlined():
    agree(Contexts(), X)


def test_autocast_is_refused():
    def computed(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x.t()

    with pytest.raises(UserError, match="autocast inside of a module is not supported"):
        capture(Function(computed), (X,))


def test_modules_that_cannot_be_exported():
    with pytest.raises(UserError, match=r"cannot export Function.*data-dependent"):
        capture(Function(lambda x: x + 1 if x.sum() > 0 else x), (X,))


@pytest.mark.parametrize(
    ("args", "why"), [((X, X), "too many positional arguments|takes 2"), ((X[:, :1],), "shapes")]
)
def test_arguments_that_the_module_refuses(args: tuple[torch.Tensor, ...], why: str) -> None:
    with pytest.raises(UserError, match=rf"Linear must run with the example arguments.*({why})"):
        capture(nn.Linear(4, 2), args)


def test_modules_that_cannot_be_exported_keep_their_states() -> None:
    class Refused(Counting):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            return y if y.sum() > 0 else x

    module = Refused()
    with pytest.raises(UserError, match="cannot export Refused"):
        capture(module, (X,))
    assert module.calls == 0
    assert not module.cache.any()


def test_parameters_are_not_written() -> None:
    module = nn.Embedding(3, 2, max_norm=1.0).eval()
    with pytest.raises(UserError, match="must not write parameters; got weight"):
        capture(module, (torch.tensor([0, 2]),))


# --- writes in place ----------------------------------------------------------------------------


class Counting(nn.Module):
    calls: torch.Tensor
    cache: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("cache", torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.cache[1:] = self.cache[:-1].clone()
        self.cache[0] = x[0]
        return self.cache.sum(0) * self.calls


def test_wrong_shapes_of_last_states_are_refused(monkeypatch: pytest.MonkeyPatch):
    """As PyTorch before 2.13 infers them; where nobody reads them, they do not matter."""
    for name in ("one_layer_lstm", "mkldnn_one_layer_lstm"):
        layer = getattr(decompositions, name)

        def wrong(*args: Any, layer: Any = layer, **kwargs: Any) -> Any:
            out, states = layer(*args, **kwargs)
            return out, tuple(each.view(1, 3, 6) for each in states)

        monkeypatch.setattr(decompositions, name, wrong)
    lstm, x = nn.LSTM(5, 6, 2), torch.randn(4, 3, 5)

    class Outputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = lstm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lstm(x)[0]

    assert not import_all(capture(Outputs(), (x,))).refused
    with pytest.raises(UserError) as caught:
        capture(lstm, (x,))
    assert caught.value.rule == "PyTorch infers a wrong shape for the last states of LSTMs"
    assert caught.value.got == "(2, 1, 3, 6) for (2, 3, 6)"


def test_buffers_that_change():
    captured = agree(Counting(), X, calls=3)
    assert {slot.name for slot in captured.weights if slot.kind == "state"} == {"calls", "cache"}


def test_inputs_that_change():
    def changed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y[1:].mul_(2)
        return x + y

    captured = agree(Function(changed), X, X + 5)
    assert sum(result.target is not None for result in captured.results) == 2


def _stale_view(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    row = y[0]
    y.relu_()
    return row + y


def _write_through_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y[0].mul_(3)
    return y


def _write_through_dropout(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    functional.dropout(y, 0.5, False).mul_(3)
    return y


def _write_through_reshape(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.reshape(-1)[2:5] = 7
    y.t().reshape(-1).zero_()
    return y


def _write_to_unknown_of_known(x: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(3, 4)
    view = made.view(-1)
    made[1] = x[0]
    view[0] = 5
    return view * 2


def _known_read_before_and_after(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    made = torch.zeros(4)
    first = x + made
    made[1:] = 2
    second = x * made
    made.add_(1)
    return first, second, made


def _chain(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + 1
    z = y.relu_()
    z.add_(y)
    y *= 2
    return y, z


def _view_of_a_view(x: torch.Tensor) -> torch.Tensor:
    first, second = (x * 2).chunk(2, 1)
    first += second
    return first * second


def _parts_of_one(x: torch.Tensor) -> torch.Tensor:
    whole = x * 2
    first, second = whole.split(2, 1)
    first += second
    return whole


def _overlapping(x: torch.Tensor) -> torch.Tensor:
    whole = x.clone()
    whole[:, 1:] += whole[:, :-1].clone()
    whole[[0, 2]] = whole[[2, 0]]
    whole[whole > 1] = 0
    return whole


def _swapped(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    kept = y.t()
    y.copy_(x)
    y = y + kept.t()
    return y.sigmoid_()


WRITES = (
    _stale_view,
    _write_through_a_view,
    _write_through_dropout,
    _write_through_reshape,
    _write_to_unknown_of_known,
    _known_read_before_and_after,
    _chain,
    _view_of_a_view,
    _parts_of_one,
    _overlapping,
    _swapped,
)


@pytest.mark.parametrize("function", WRITES, ids=lambda each: each.__name__)
def test_writes_in_place(function: Any):
    agree(Function(function), X)


def never(*_: Any) -> None:
    raise AssertionError("decomposed")


def test_plain_writes_do_not_need_another_graph(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", never)
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(True), nn.Dropout(0.5, True), nn.ReLU(True))
    agree(layers, X)
    agree(Function(lambda x: (x + 1).view(-1).relu_().view(3, 4).mul_(2)), X)
    agree(Function(_known_read_before_and_after), X)


@pytest.mark.parametrize("function", WRITES, ids=lambda each: each.__name__)
def test_writes_to_memory_of_the_graph_do_not_need_another_graph(
    function: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", never)
    agree(Function(function), X)


def test_writes_that_change_types_or_shapes_in_place():
    def changed(x: torch.Tensor) -> torch.Tensor:
        y = x.half()
        row = y[0]
        y.mul_(x)
        z = x + 1
        column = z[:, 0]
        z.unsqueeze_(0)
        z.add_(1)
        return row.float() + y.float() + z + column[0]

    agree(Function(changed), X)


# --- time ---------------------------------------------------------------------------------------

_IMPORTS = """
import sys, torch
from weft.torch.capture import capture
before = set(sys.modules)
capture(torch.nn.Linear(3, 4).eval(), (torch.randn(2, 3),))
print(len(set(sys.modules) - before))
"""


def test_the_first_capture_imports_next_to_nothing():
    # torch.export imports seven hundred modules when it is first used.
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 50
