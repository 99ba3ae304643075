"""One runner a signature, within a bound."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

import weft
import weft.torch.dynamo
from weft.errors import UserError
from weft.runtime.cache import Cache
from weft.runtime.record import made_for
from weft.torch.eager import SECONDS, Times, _race
from weft.torch.specialise import Runners, Settings, specialise


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor, factor: float = 1.0) -> dict[str, torch.Tensor]:
        return {"y": torch.relu(self.layer(x) * factor)}


def call(runners: Runners, *args: Any, **kwargs: Any) -> Any:
    """As an optimized module is called."""
    runner = runners.find(args, kwargs)
    if runner is None:
        return runners.module(*args, **kwargs)
    leaves = pytree.tree_leaves((args, kwargs))
    return pytree.tree_unflatten(runner.flat(leaves), runner.captured.out_spec)


def test_each_signature_is_compiled_once_and_no_more_than_the_bound():
    module = Scaled().eval().requires_grad_(False)
    runners = Runners(module, Settings(signatures=2, measure=False))
    calls = [((torch.randn(3, 6),), {}), ((torch.randn(3, 6),), {"factor": 2.0})]
    for args, kwargs in calls * 2:
        got, expected = call(runners, *args, **kwargs), module(*args, **kwargs)
        torch.testing.assert_close(got, expected)
    assert len(runners.known) == 2
    beyond = torch.randn(4, 6)
    with pytest.warns(UserWarning, match="its cache of 2 signatures is full"):
        torch.testing.assert_close(call(runners, beyond), module(beyond))
    assert runners.find((beyond,), {}) is None
    assert len(runners.known) == 2


def test_in_the_background_the_own_forward_runs_until_a_signature_is_compiled():
    module = Scaled().eval().requires_grad_(False)
    runners = Runners(module, Settings(background=True, measure=False))
    x = torch.randn(5, 6)
    torch.testing.assert_close(call(runners, x), module(x))
    runners.wait()
    assert runners.find((x,), {}) is not None
    torch.testing.assert_close(call(runners, x), module(x))


def test_another_precision_stores_weights_and_values_in_it():
    """Weights are given at run time: what prepares them converts them."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    fast = weft.optimize(module, precision="bf16", measure=False, threads=1)
    x = torch.randn(7, 32)
    with torch.no_grad():
        for factor in (1, 3):
            module[0].weight.mul_(factor)
            expected, found = module(x), fast(x)
            assert found.dtype is torch.float32
            error = ((found - expected).square().mean().sqrt() / expected.std()).item()
            assert 1e-4 < error < 1e-2


@pytest.mark.parametrize("threads", [0, -1])
def test_a_number_of_threads_that_cannot_be_is_refused(threads: int):
    with pytest.raises(UserError, match="the number of threads must be"):
        weft.optimize(nn.Linear(2, 2), threads=threads)


def test_an_unknown_precision_is_refused():
    with pytest.raises(UserError) as error:
        weft.optimize(nn.Linear(2, 2), precision="tf32")
    assert str(error.value).startswith(
        "precision must be one of float32, bfloat16, float16; got 'tf32'"
    )


@pytest.mark.thorough
def test_larger_tiles_apply_where_rounding_is_allowed():
    torch.manual_seed(0)
    convolution = nn.Conv2d(32, 32, 3, padding=1)
    module = nn.Sequential(convolution, nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)).eval()
    x = torch.randn(1, 32, 28, 28)
    with torch.no_grad():
        expected = module(x)
    for limit, larger in ((0.005, {False}), (0.012, {True})):
        options: dict[str, Any] = {"threads": 1, "precision": "bf16", "max_rounding": limit}
        fast = weft.optimize(module, x, measure=False, **options)
        told = [weft.explain(fast, x), weft.explain(module, x, **options)]
        for each in told:
            offers = [one for group in each.groups for layer in group for one in layer.answers]
            known = [one for offer in offers for one in offer.alternatives]
            assert {one.applies for one in known if one.name.startswith("winograd-f4-")} == larger
        with torch.no_grad():
            error = ((fast(x) - expected).square().mean().sqrt() / expected.std()).item()
        assert 1e-4 < error < 3 * limit


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {},
            "max_rounding is for layers that are stored in bfloat16; got precision float32. "
            'Give precision="bfloat16", too.',
        ),
        (
            {"precision": "fp16"},
            "max_rounding is for layers that are stored in bfloat16; got precision float16. "
            'Give precision="bfloat16", too.',
        ),
        (
            {"precision": "bf16", "exact": True},
            "max_rounding and exact exclude each other: exact kernels add no rounding; "
            "got 0.012 and exact",
        ),
    ],
)
def test_a_limit_of_rounding_that_decides_nothing(given: dict[str, Any], told: str, tmp_path: Path):
    module, x = nn.Linear(2, 2), torch.randn(1, 2)
    for call in (
        lambda: weft.optimize(module, x, max_rounding=0.012, **given),
        lambda: weft.explain(module, x, max_rounding=0.012, **given),
        lambda: weft.deploy(module, x, tmp_path / "lib", max_rounding=0.012, **given),
        lambda: weft.torch.dynamo.backend(
            fx.symbolic_trace(module), [], options={"max_rounding": 0.012, **given}
        ),
    ):
        with pytest.raises(UserError) as error:
            call()
        assert str(error.value) == told


# --- never slower ---------------------------------------------------------------------------


class Image(nn.Module):
    """A small network with convolutions; counts its own forwards."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.forwards = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.forwards += 1
        return torch.relu(self.conv(x))


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        (Times(1.0, 2.0), None),
        (Times(1.0, 1.0, 1.0, 1.0), None),
        (Times(2.0, 1.0), "contiguous"),
        (Times(2.0, 3.0, 1.0, 0.5), "channels-last"),
        (Times(2.0, 1.0, 1.5, 0.5), "contiguous"),
    ],
)
def test_the_fastest_that_can_run_is_kept(times, kept):
    assert times.kept == kept


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
def test_the_own_forward_runs_where_it_is_faster(monkeypatch, layout):
    module = Image().eval()
    x = torch.randn(2, 3, 8, 8)
    slow = Times(9.0, 1.0, 0.5 if layout == "channels-last" else 2.0)
    monkeypatch.setattr("weft.torch.specialise.times", lambda *_, **__: slow)
    runner = specialise(module, (x,))
    assert (runner.own, runner.part, runner.parts) == (layout, None, [])
    before = module.forwards
    (got,) = runner.flat([x])
    assert module.forwards == before + 1
    assert got.is_contiguous()
    torch.testing.assert_close(got, module(x))


def test_both_layouts_of_convolutions_are_measured(monkeypatch):
    monkeypatch.setattr("weft.torch.eager.SECONDS", float("inf"))
    module, x = Image().eval(), torch.randn(1, 3, 8, 8)
    runner = specialise(module, (x,), settings=Settings(measure=False))
    runner.measure([x], converted=True)
    times = runner.times
    assert times is not None
    assert times.inputs_channels_last is not None
    assert times.channels_last is not None
    times = specialise(module, (x,)).times
    assert times is not None
    assert times.inputs_channels_last is not None
    # It costs a copy of the module, and cannot be kept.
    assert times.channels_last is None
    times = specialise(nn.Linear(3, 4).eval(), (torch.randn(2, 3),)).times
    assert times is not None
    assert times.inputs_channels_last is None


def test_what_runs_change_is_not_measured():
    class Counting(nn.Module):
        calls: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x * self.calls

    module = Counting()
    runner = specialise(module, (torch.ones(3),))
    assert runner.times is None
    assert module.calls == 0
    torch.testing.assert_close(runner.flat([torch.ones(3)]), [torch.ones(3)])
    torch.testing.assert_close(runner.flat([torch.ones(3)]), [torch.full((3,), 2.0)])
    module.calls = torch.full((), 5.0)
    torch.testing.assert_close(runner.flat([torch.ones(3)]), [torch.full((3,), 6.0)])


def test_times_are_remembered_by_architecture_shape_and_threads(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    found: list[Times] = []

    def race(*_: object) -> tuple[dict[str, float], bool]:
        found.append(Times(float(len(found) + 1), 9.0))
        return {"weft": found[-1].weft, "contiguous": 9.0}, True

    monkeypatch.setattr("weft.torch.eager._race", race)
    x = torch.randn(1, 3, 8, 8)
    assert specialise(Image().eval(), (x,)).times == Times(1.0, 9.0)
    assert specialise(Image().eval(), (x + 1,)).times == Times(1.0, 9.0)
    last: Any = Image().eval()
    last.to(memory_format=torch.channels_last)
    assert specialise(last, (x,)).times == Times(2.0, 9.0)
    assert specialise(Image().eval(), (torch.randn(1, 3, 9, 8),)).times == Times(3.0, 9.0)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert specialise(Image().eval(), (x,)).times == Times(4.0, 9.0)
    finally:
        torch.set_num_threads(threads)
    (entry, *_) = [each for each in Cache().entries() if each.path.suffix == ".time"]
    assert [each.model for each in made_for(Cache())[entry.path.name]] == ["Image"]
    assert len(found) == 4


def test_a_lost_comparison_is_made_again_by_the_next_process(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    weft = iter((20.0, 1.0))
    monkeypatch.setattr(
        "weft.torch.eager._race", lambda *_: ({"weft": next(weft), "contiguous": 9.0}, True)
    )
    x = torch.randn(1, 3, 8, 8)
    assert specialise(Image().eval(), (x,)).times == Times(20.0, 9.0)
    assert specialise(Image().eval(), (x,)).times == Times(1.0, 9.0)


def test_what_wins_narrowly_is_compared_thrice(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    weft, contiguous = [8.0, 7.5, 8.5], [9.0, 8.8, 8.9]
    made: list[float] = []

    def race(_: object, seconds: float) -> tuple[dict[str, float], bool]:
        made.append(seconds)
        return {"weft": weft[len(made) - 1], "contiguous": contiguous[len(made) - 1]}, False

    monkeypatch.setattr("weft.torch.eager._race", race)
    x = torch.randn(1, 3, 8, 8)
    wanted = [Times(8.0, 9.0), Times(7.5, 8.8), Times(7.5, 8.8), Times(7.5, 8.8)]
    assert [specialise(Image().eval(), (x,)).times for _ in wanted] == wanted
    assert made == [SECONDS, SECONDS / 2, SECONDS / 2]


def test_what_takes_too_long_to_be_compared_again_is_not(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    made: list[dict[str, float]] = []
    x = torch.randn(1, 3, 8, 8)
    for compiled, own, comparisons in ((0.24e6, 0.27e6, 1), (0.22e6, 0.27e6, 3)):
        made.clear()

        def race(*_: object, a: float = compiled, b: float = own) -> tuple[dict[str, float], bool]:
            made.append({"weft": a, "contiguous": b})
            return made[-1], False

        monkeypatch.setattr("weft.torch.eager._race", race)
        for _ in range(4):
            assert specialise(Image().eval(), (x,)).times == Times(compiled, own)
        assert len(made) == comparisons
        x = torch.randn(1, 3, 9, 8)


class Clock:
    """Time that passes only while contestants run, each batch as long as it is told.

    Args:
        seconds: by name, of the first runs; the last of them is that of all further ones.
    """

    def __init__(self, **seconds: list[float]) -> None:
        self.now = 0.0
        self.runs = dict.fromkeys(seconds, 0)
        self.contestants = {name: partial(self._run, name, each) for name, each in seconds.items()}

    def _run(self, name: str, seconds: list[float]) -> None:
        self.now += seconds[min(self.runs[name], len(seconds) - 1)]
        self.runs[name] += 1

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "least", "clear", "runs"),
    [
        # Clear after the three rounds that there are at the least.
        ({"weft": [0.05], "contiguous": [0.07]}, (0.05, 0.07), True, (4, 4)),
        # So clear that a fourth of the time is enough.
        ({"weft": [0.1], "contiguous": [0.3]}, (0.1, 0.3), True, (2, 2)),
        ({"weft": [0.3], "contiguous": [0.1]}, (0.3, 0.1), True, (2, 2)),
        # Close: the more rounds, the smaller a difference is clear.
        ({"weft": [0.03], "contiguous": [0.033]}, (0.03, 0.033), True, (12, 12)),
        ({"weft": [0.03], "contiguous": [0.0303]}, (0.03, 0.0303), False, (34, 33)),
        # One disturbed run decides nothing, whoever has it.
        ({"weft": [0.03, 0.3, 0.03], "contiguous": [0.06]}, (0.03, 0.06), True, (3, 3)),
        ({"weft": [0.03], "contiguous": [0.02, 0.3, 0.02]}, (0.03, 0.02), True, (4, 4)),
        # Two runs of both are made however long they take, and no more.
        ({"weft": [9.0, 5.0], "contiguous": [9.0, 6.0]}, (5.0, 6.0), False, (2, 2)),
        (
            {"weft": [0.7], "contiguous": [0.9], "inputs_channels_last": [0.8]},
            (0.7, 0.9),
            False,
            (2, 2, 1),
        ),
    ],
)
def test_a_comparison_ends_when_the_difference_is_clear_or_its_time_is_over(
    monkeypatch, seconds, least, clear, runs
):
    clock = Clock(**seconds)
    monkeypatch.setattr("weft.torch.eager.time", clock)
    found, decided = _race(clock.contestants, SECONDS)
    names = list(seconds)[: len(least)]
    assert found == {
        name: pytest.approx(1e6 * each) for name, each in zip(names, least, strict=True)
    }
    assert (decided, tuple(clock.runs.values())) == (clear, runs)


def test_what_is_clearly_slower_drops_out_while_others_race_on(monkeypatch):
    clock = Clock(weft=[0.03], contiguous=[0.06], inputs_channels_last=[0.0315])
    monkeypatch.setattr("weft.torch.eager.time", clock)
    found, decided = _race(clock.contestants, SECONDS)
    assert list(found) == ["weft", "contiguous", "inputs_channels_last"]
    assert decided
    assert clock.runs == {"weft": 21, "contiguous": 4, "inputs_channels_last": 21}


def test_short_runs_are_measured_in_batches(monkeypatch):
    clock = Clock(weft=[0.1, 0.0001], contiguous=[0.0004])
    monkeypatch.setattr("weft.torch.eager.time", clock)
    found, decided = _race(clock.contestants, SECONDS)
    assert found == {"weft": pytest.approx(100), "contiguous": pytest.approx(400)}
    assert decided
    # Two single runs, then two batches of a millisecond.
    assert clock.runs == {"weft": 2 + 2 * 10, "contiguous": 2 + 2 * 3}
