"""``torch.compile(backend="weft")``."""

import copy
import tomllib
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn

import weft.torch.dynamo
from tests.torch.version import PYTORCH
from weft.torch.dynamo import CompiledGraph, DynamoGraph
from weft.torch.execution import CompiledPart
from weft.torch.specialise import Runner, Settings

OPTIONS: dict[str, Any] = {"measure": False}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        # What PyTorch deprecates of its own.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield


@pytest.fixture
def runs(monkeypatch):
    """Counts what PyTorch runs of graphs, and preparations of weights."""
    found = {"own": 0, "refreshed": 0}
    forward, refresh = DynamoGraph.forward, Runner.refresh

    def own(self, *given):
        found["own"] += not torch.compiler.is_exporting()
        return forward(self, *given)

    def refreshed(self):
        found["refreshed"] += 1
        return refresh(self)

    monkeypatch.setattr(DynamoGraph, "forward", own)
    monkeypatch.setattr(Runner, "refresh", refreshed)
    return found


class Tagger(nn.Module):
    def __init__(self, layer: Callable[..., nn.RNNBase]) -> None:
        super().__init__()
        self.layer = layer(5, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[0])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def _compiled(module: Any, **options: Any) -> Any:
    return torch.compile(module, backend="weft", options=OPTIONS | options)


def test_the_entry_point_is_the_backend():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    ((name, value),) = tomllib.loads(text)["project"]["entry-points"][
        "torch_dynamo_backends"
    ].items()
    assert EntryPoint(name, value, "torch_dynamo_backends").load() is weft.torch.dynamo.backend


def test_a_module_is_compiled(runs):
    module = Net().eval()
    fast = _compiled(module, threads=2, exact=True)
    x = torch.randn(2, 3, 8, 8)
    for _ in range(2):
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert runs["own"] == 0


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match="options of the backend weft are threads, exact"):
        _compiled(nn.Linear(2, 2), thread=2)(torch.randn(1, 2))


def test_tuning_is_asked_for_by_mode_or_option():
    def options(**asked: Any) -> Any:
        return weft.torch.dynamo.backend(fx.symbolic_trace(nn.ReLU()), [], **asked).settings

    assert options(mode="max-autotune").tune
    assert options(mode="max-autotune-no-cudagraphs").tune
    assert options(options={"tune": True}).tune
    assert not options(mode="max-autotune", options={"tune": False}).tune
    assert not options(mode="default").tune


@pytest.mark.thorough
def test_a_tuned_graph_is_right(runs, monkeypatch):
    tuned = []
    build = CompiledPart.__init__

    def built(part, imported, options):
        tuned.append(options.tune)
        build(part, imported, options)

    monkeypatch.setattr(CompiledPart, "__init__", built)
    module, x = Net().eval(), torch.randn(2, 3, 8, 8)
    fast = torch.compile(module, backend="weft", mode="max-autotune")
    torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert tuned == [True]


def test_python_control_flow_gives_several_graphs(runs):
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(self.one(x))
            if y.sum() > 1:
                return self.two(y) + 1
            return self.two(y) - 1

    module = Branching().eval()
    fast = _compiled(module)
    for x in (torch.full((2, 4), 9.0), torch.full((2, 4), -9.0)):
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert runs["own"] == 0


def test_dynamic_sizes_are_compiled_one_by_one_within_the_bound(runs):
    module = Net().eval()
    fast = _compiled(module, signatures=2)
    torch._dynamo.mark_dynamic(x := torch.randn(2, 3, 8, 8), 0)
    torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert runs["own"] == 0
    with pytest.warns(UserWarning, match="its cache of 2 signatures is full"):
        fast(x := torch.randn(4, 3, 8, 8))
    torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert runs["own"] == 2


def test_numbers_that_dynamo_passes_as_tensors_are_constants(runs):
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.scale = Net(), 0.5

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x) * self.scale

    module = Scaled().eval()
    fast = torch.compile(module, backend="weft", dynamic=True, options=OPTIONS)
    for size, scale in ((8, 0.5), (9, 0.5), (8, 1.75)):
        module.scale = scale
        x = torch.randn(2, 3, size, size)
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert runs["own"] == 0


def test_gradients_are_those_of_pytorch(runs):
    module, x = Net().train(), torch.randn(2, 3, 8, 8)
    other = copy.deepcopy(module)
    fast = _compiled(module)
    with torch.enable_grad():
        with pytest.warns(UserWarning, match="parameters require gradients"):
            loss = fast(x).square().sum()
        loss.backward()
        other(x).square().sum().backward()
    assert runs["own"] == 1
    for own, expected in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(own.grad, expected.grad)
    torch.testing.assert_close(module.norm.running_mean, other.norm.running_mean)


def test_training_without_gradients_moves_the_statistics():
    module, x = Net().train(), torch.randn(2, 3, 8, 8)
    other = copy.deepcopy(module)
    fast = _compiled(module)
    for _ in range(2):
        torch.testing.assert_close(fast(x), other(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.norm.running_mean, other.norm.running_mean)
    assert module.norm.num_batches_tracked == 2


def test_weights_are_prepared_when_they_change_and_not_before(runs):
    module, x = Net().eval(), torch.randn(2, 3, 8, 8)
    fast = _compiled(module)
    fast(x)
    fast(x)
    # Compiling prepares them.
    assert runs["refreshed"] == 0
    module.head.weight.mul_(2)
    torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    module.load_state_dict({name: value + 1 for name, value in module.state_dict().items()})
    torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert runs["refreshed"] == 2


def test_modules_that_share_a_graph_keep_their_weights():
    graphs = []

    def spy(graph, example):
        graphs.append(CompiledGraph(graph, Settings(measure=False)))
        return graphs[-1]

    def run(module, x):
        return module(x) * 2

    fast = torch.compile(run, backend=spy)
    one, two, x = nn.Linear(3, 3), nn.Linear(3, 3), torch.randn(2, 3)
    for module in (one, two, one, two):
        torch.testing.assert_close(fast(module, x), run(module, x))


def test_arguments_are_written_into():
    def run(x, y):
        x.mul_(2)
        y[0] += x[0]
        return (x + y).tanh()

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    others = x.clone(), y.clone()
    torch.testing.assert_close(_compiled(run)(x, y), run(*others))
    torch.testing.assert_close((x, y), others)


def test_results_that_share_memory_share_it_after_a_graph_break():
    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.relu(self.layer(x))
            row, flat, kept = y[0], y.flatten(), x.view(-1)
            torch._dynamo.graph_break()
            row.add_(1)
            kept.mul_(3)
            return y, flat, kept

    module = Viewing().eval()
    x = torch.randn(2, 4)
    other = x.clone()
    torch.testing.assert_close(_compiled(module)(x), module(other), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x, other)


def test_what_cannot_be_compiled_runs_by_pytorch_and_says_so():
    def run(x):
        return torch.fft.fft(x).log().abs()

    x = torch.randn(8)
    torch.testing.assert_close(_compiled(run)(x), run(x))
    with pytest.warns(UserWarning, match="strict=True"):
        torch.testing.assert_close(_compiled(run, strict=True)(x), run(x))


def test_under_autocast_the_graph_runs_by_pytorch(runs):
    module, x = Net().eval(), torch.randn(2, 3, 8, 8)
    fast = _compiled(module)
    with torch.autocast("cpu"), pytest.warns(UserWarning, match="autocast is on"):
        assert fast(x).dtype == torch.bfloat16
    assert runs["own"] == 1


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_recurrent_layers_are_compiled_where_dynamo_allows_them(layer, runs, monkeypatch):
    compiled: list[set[str]] = []
    make = CompiledPart.__init__

    def made(self, imported, options):
        compiled.append({node.op for node in imported.graph.nodes})
        make(self, imported, options)

    monkeypatch.setattr(CompiledPart, "__init__", made)
    module, x = Tagger(layer).eval(), torch.randn(2, 7, 5)
    left = torch.compile(module, backend="weft", options=OPTIONS)
    torch.testing.assert_close(left(x), module(x))
    assert not any(layer.__name__ in ops for ops in compiled)
    torch._dynamo.reset()
    fast = torch.compile(module, backend="weft", options=OPTIONS)
    with torch._dynamo.config.patch(allow_rnn=True):
        torch.testing.assert_close(fast(x), module(x))
    assert not torch._dynamo.config.allow_rnn
    (ops,) = [ops for ops in compiled if layer.__name__ in ops]
    assert "MatMul" in ops
    count = len(compiled)
    torch.testing.assert_close(fast(x + 1), module(x + 1))
    assert len(compiled) == count
    assert runs["own"] == 0


def test_modules_that_pack_sequences_run_their_own_forward_or_break_there():
    class Packed(Tagger):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
            every, _ = nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)
            return self.head(every)

    module, args = Packed(nn.LSTM).eval(), (torch.randn(3, 7, 5), torch.tensor([3, 7, 5]))
    fast = weft.optimize(module, measure=False)
    with pytest.warns(UserWarning, match="Packed runs its own forward: a signature cannot be"):
        torch.testing.assert_close(fast(*args), module(*args))
    if PYTORCH < (2, 13):  # its Dynamo fails, whatever the backend
        return
    fast = torch.compile(module, backend="weft", options=OPTIONS)
    with torch._dynamo.config.patch(allow_rnn=True):
        torch.testing.assert_close(fast(*args), module(*args))
