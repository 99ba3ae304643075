"""Modules recorded without ``torch.export``: what it would give, and what is left to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.fx.node import map_arg
from torch.nn import functional
from torch.utils import _pytree as pytree

from weft.errors import UserError
from weft.torch import capture as capturing
from weft.torch.aten.importer import import_all, origin_of
from weft.torch.capture import Captured, capture
from weft.torch.recording import record


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    """As modules are captured."""
    with torch.no_grad():
        yield


class Of(nn.Module):
    """A module of a function, with weights to compute with."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("scale", torch.randn(4))
        self.register_buffer("hidden", torch.randn(4), persistent=False)
        self.table = torch.randn(4)
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def _norm(block: Of, x: torch.Tensor) -> torch.Tensor:
    x = block.layers[1](block.layers[0](x)).relu_()
    x += 1
    return functional.dropout(functional.max_pool2d(x, 2), 0.5, block.training).flatten(1)


def _shared(block: Of, x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        for layer in block.layers:
            x = layer(x)
    return functional.linear(x, block.weight) @ block.weight


def _regions(_: Of, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
    with torch.autocast("cpu", enabled=False):
        y = y + x
    with torch.enable_grad():
        return torch.exp(y)


def _nested(_: Of, pair: Any, named: Any, factor: int = 2, *, offset: Any = None) -> Any:
    first, second = pair
    result = first * factor + named["deep"][0]
    return {"sum": result, "parts": [second, (result, 3, None)], "offset": offset}


def _made(block: Of, x: torch.Tensor) -> torch.Tensor:
    mask = torch.tril(torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool, device=x.device))
    grid = torch.zeros(2, x.shape[-1])
    grid[0] = torch.arange(x.shape[-1])
    y = x.masked_fill(mask[0], -1.0).to(x.device).type_as(x) + grid.sum(0).to(x.dtype)
    return y * torch.tensor([1.0, 2.0, 3.0, 4.0]) + block.table + block.scale * block.hidden


def _parts(_: Of, x: torch.Tensor) -> Any:
    first, second = x.chunk(2, -1)
    values, indices = x.max(-1)
    return first.transpose(0, 1), second[..., None], values, indices, x[:, [0, 2]], x.mean()


def _written(_: Of, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[:, 1:3] = x[:, 1:3]
    y[0].mul_(3)
    return y


def _keeps(block: Of, x: torch.Tensor) -> torch.Tensor:
    return x + block.kept.setdefault(x.device, block.weight[:, [0, 2, 1, 3]].sum(0))


def _named(_: Of, input: torch.Tensor, sum: torch.Tensor, mul: torch.Tensor) -> torch.Tensor:
    return (input * sum).sum(-1) + mul


x, image = torch.randn(3, 4), torch.randn(2, 3, 8, 8)
CASES: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
    "norm": (Of(_norm, nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (image,), {}),
    "sequential": (
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2)),
        (x,),
        {},
    ),
    "shared": (Of(_shared, nn.Linear(4, 4), nn.LayerNorm(4)), (x,), {}),
    "nested": (Of(_nested), ((x, x + 1),), {"offset": None, "named": {"deep": [x + 2]}}),
    "parts": (Of(_parts), (x,), {}),
    "written": (Of(_written), (x,), {}),
    "keeps": (Of(_keeps), (x,), {}),
    "named": (Of(_named), (x, x + 1), {"mul": torch.randn(3)}),
    "lstm": (nn.LSTM(4, 5, 2, bidirectional=True), (torch.randn(6, 1, 4),), {}),
    "gru": (nn.GRU(4, 5, batch_first=True), (torch.randn(1, 6, 4),), {}),
    "attention": (nn.MultiheadAttention(4, 2, batch_first=True), (x[None],) * 3, {}),
    "encoder": (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (x[None],), {}),
    "instance": (nn.InstanceNorm2d(3), (image,), {}),
    "tied": (
        Of(lambda block, y: functional.linear(y, block.layers[0].weight) + block.layers[1](y)),
        (x,),
        {},
    ),
    "normalized": (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (x,), {}),
    "double": (nn.Linear(4, 3).double(), (x.double(),), {}),
    "numbers": (Of(lambda _, y, count, kind: y * count if kind == "mul" else y), (x, 3, "mul"), {}),
}
CASES["keeps"][0].kept = {}
CASES["tied"][0].layers.extend([nn.Linear(4, 4), nn.Linear(4, 4)])
CASES["tied"][0].layers[1].weight = CASES["tied"][0].layers[0].weight


ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def _exported(monkeypatch: pytest.MonkeyPatch, module: nn.Module, *call: Any) -> Captured:
    with monkeypatch.context() as patch:
        patch.setattr(capturing, "record", lambda *_: None)
        return capture(module, *call)


def _told(captured: Captured) -> list[Any]:
    """What a captured graph is, save for strides and values."""
    place = {node: f"%{number}" for number, node in enumerate(captured.graph.nodes)}
    nodes = [
        (node.name, node.target, *map(str, map_arg([node.args, node.kwargs], place.get)))
        for node in captured.graph.nodes
        if node.op == "call_function"
    ]
    types = [_types(node.meta["val"]) for node in captured.graph.nodes if node.op != "output"]
    origins = [origin_of(node) for node in captured.graph.nodes if node.op == "call_function"]
    # What PyTorch calls placeholders of weights differs by version.
    slots = [(place[slot.node], slot.kind, slot.name) for slot in captured.slots.values()]
    results = [str(map_arg(result.value, place.get)) for result in captured.results]
    return [nodes, types, origins, slots, results, captured.in_spec, captured.out_spec]


def _types(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda each: (each.dtype, each.shape), value)


@pytest.mark.parametrize("name", CASES)
def test_records_what_the_export_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, args, kwargs = CASES[name]
    module.eval()
    assert record(module, args, kwargs) is not None
    found = capture(module, args, kwargs)
    wanted = _exported(monkeypatch, module, args, kwargs)
    if not found.graph.find_nodes(op="call_function", target=ATTENTION):
        # After it, other strides may need calls of contiguous() here that do nothing.
        assert _told(found) == _told(wanted)
    for one, other in zip(found.slots.values(), wanted.slots.values(), strict=True):
        assert one.value is other.value or torch.equal(one.value, other.value)
    graphs = [import_all(each).graph for each in (found, wanted)]
    assert graphs[0].nodes == graphs[1].nodes
    assert graphs[0].types == graphs[1].types


@pytest.mark.parametrize(
    "function",
    [_regions, _made],
)
def test_records_what_the_export_has_in_other_words(function: Callable[..., Any]) -> None:
    module, given = Of(function).eval(), torch.randn(3, 4)
    found = record(module, (given,), {})
    assert found is not None
    values = {each.node: each.value for each in found.placeholders}
    with torch.no_grad():
        made = fx.Interpreter(fx.GraphModule({}, found.graph)).run(*values.values())
        wanted = module(given)
    torch.testing.assert_close(made[0], wanted, rtol=0, atol=0)


def _shifts(block: Of, y: torch.Tensor) -> torch.Tensor:
    if y.shape[0] < block.window:
        block.shift, block.window = 0, y.shape[0]
    return y.roll(block.shift, 0) * block.window


def _counts(block: Of, y: torch.Tensor) -> torch.Tensor:
    block.calls += 1
    return y * block.calls


def test_numbers_that_are_assigned_are_recorded_if_the_next_call_computes_the_same() -> None:
    module = Of(_shifts).eval()
    module.shift, module.window = 2, 7
    found = capture(module, (x,))
    assert (module.shift, module.window) == (2, 7)
    (rolled,) = found.graph.find_nodes(op="call_function", target=torch.ops.aten.roll.default)
    assert rolled.args[1] == [0]
    module = Of(_counts).eval()
    module.calls = 3
    with pytest.raises(UserError, match="computes with attributes that it changes"):
        capture(module, (x,))
    assert module.calls == 3


# --- what is left to the export ---------------------------------------------------------------


def _assigns(block: Of, y: torch.Tensor) -> torch.Tensor:
    block.last = y
    return y + 1


def _fills(block: Of, y: torch.Tensor) -> torch.Tensor:
    block.known.setdefault(y.shape, []).append(y)
    return y + 1


def _replaces(block: Of, y: torch.Tensor) -> torch.Tensor:
    block.scale = block.scale * 2
    return y * block.scale


def _swallows(_: Of, y: torch.Tensor) -> torch.Tensor:
    try:
        return y + y.sum().item()
    except Exception:  # noqa: BLE001
        return y


def _fails(_: Of, y: torch.Tensor) -> torch.Tensor:
    raise ValueError("no")


def _casts(block: Of, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return functional.linear(y, block.weight)


LEFT: dict[str, Callable[..., Any]] = {
    "decides": lambda _, y: y * 2 if y.sum() > 0 else y,
    "reads a number": lambda _, y: y * y.sum().item(),
    "reads all": lambda _, y: y + sum(y.flatten().tolist()),
    "as an array": lambda _, y: y + torch.from_numpy(y.numpy()),
    "replaces data": lambda _, y: setattr(y, "data", y * 2) or y,
    "sizes by data": lambda _, y: y.nonzero(),
    "resizes": lambda _, y: (y + 1).resize_(2, 2),
    "maps": lambda _, y: torch.func.vmap(lambda row: row.cumsum(0) * row)(y),
    "differentiates": lambda _, y: torch.func.grad(lambda z: (z * z).sum())(y),
    "trains": lambda b, y: functional.batch_norm(y, b.scale, b.hidden, training=True),
    "assigns": _assigns,
    "fills": _fills,
    "replaces a buffer": _replaces,
    "swallows": _swallows,
    "fails": _fails,
    "casts": _casts,
    "gives an object": lambda _, y: (y, object()),
}


@pytest.mark.parametrize("name", LEFT)
def test_leaves_to_the_export(name: str) -> None:
    """... and leaves the module as it is."""
    module = Of(LEFT[name], nn.Linear(4, 4)).eval()
    module.known = {"a": [1]}
    before = _state(module)
    flags = (nn.Module.__call__, torch.compiler.is_compiling(), torch.backends.mkldnn.enabled)
    assert record(module, (x,), {}) is None
    assert _state(module) == before
    assert module.known == {"a": [1]}
    after = (nn.Module.__call__, torch.compiler.is_compiling(), torch.backends.mkldnn.enabled)
    assert after == flags


def _state(module: nn.Module) -> list[Any]:
    tensors = dict([*module.named_parameters(), *module.named_buffers()])
    attributes = [dict(vars(each)) for each in module.modules()]
    ids = [{name: id(value) for name, value in each.items()} for each in attributes]
    return [ids, {name: id(value) for name, value in tensors.items()}]


@pytest.mark.parametrize(
    ("module", "args"),
    [
        (nn.BatchNorm1d(4).train(), (x,)),
        (nn.Conv2d(3, 4, 3).eval().to(memory_format=torch.channels_last), (image,)),
        (nn.Conv2d(3, 4, 3).eval(), (image.to(memory_format=torch.channels_last),)),
        (nn.Linear(4, 4).eval(), (x.to_sparse(),)),
        (Of(lambda block: block.weight * 2).eval(), ()),
        (fx.symbolic_trace(nn.Linear(4, 4).eval()), (x,)),
    ],
)
def test_leaves_such_modules_and_arguments(module: nn.Module, args: tuple[Any, ...]) -> None:
    assert record(module, args, {}) is None


def test_leaves_what_runs_under_autocast() -> None:
    module = nn.Linear(4, 4).eval()
    assert record(module, (x,), {}) is not None
    with torch.autocast("cpu"):
        assert record(module, (x,), {}) is None


def test_views_or_copies_that_are_written_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides decide what they are, and are not those of PyTorch's own ops here."""

    def attend(_: Of, y: torch.Tensor) -> torch.Tensor:
        made = functional.scaled_dot_product_attention(y, y, y)
        made.transpose(1, 2).contiguous().add_(1)
        return made

    module, y = Of(attend).eval(), torch.randn(1, 2, 3, 4)
    captured = capture(module, (y,))
    assert _told(captured) == _told(_exported(monkeypatch, module, (y,)))


def test_an_interruption_leaves_the_module_as_it_is() -> None:
    def stop(_: Of, y: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    module = Of(stop).eval()
    before = _state(module)
    with pytest.raises(KeyboardInterrupt):
        record(module, (x,), {})
    assert _state(module) == before


def test_random_numbers_are_not_drawn() -> None:
    module = Of(lambda _, y: y + torch.rand(4)).eval()
    before = torch.get_rng_state()
    assert record(module, (x,), {}) is not None
    assert torch.equal(torch.get_rng_state(), before)


def test_other_threads_run_other_modules() -> None:
    other, module = nn.Linear(4, 4).eval(), nn.Sequential(*(nn.Linear(4, 4) for _ in range(60)))
    module.eval()
    with torch.no_grad():
        wanted = other(x)
    wrong: list[Any] = []
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            with torch.no_grad():
                if not torch.equal(other(x), wanted):
                    wrong.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        found = [record(module, (x,), {}) for _ in range(10)]
    finally:
        done.set()
        thread.join()
    assert all(found)
    assert not wrong
