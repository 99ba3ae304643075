"""The race of whole networks: workers take turns, wrong outputs and failures are said."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import bench.worker
from bench.figures import Result
from bench.growth import Size, model
from bench.networks import Network
from bench.peers import Demand, contest, expected_output, measured_before, report, write
from bench.remote import Late, Remote
from bench.rounds import Options, Watch, beaten, taken_in_turn
from bench.worker import Worker
from weft.errors import UserError
from weft.runtime.limits import Level, Limits

OPTIONS = Options(("weft", "onnxruntime"), 2, 0.01, "wall", None, 120.0)
LIMITS = Limits("p", 64, 1, 100.0, (Level("L1", 1000, 10.0), Level("DRAM", 0, 1.0)))


@pytest.fixture
def zoo(tmp_path, monkeypatch) -> tuple[Path, np.ndarray]:
    """A folder with one small network, and what it gives."""
    path = tmp_path / "little.ts.onnx"
    path.write_bytes(model(Size(1, 8, 16, 2)).SerializeToString())
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    np.savez(tmp_path / "little.npz", x=x, y=y)
    monkeypatch.setenv("WEFT_ZOO", str(tmp_path))
    return tmp_path, y


def test_a_contest(zoo):
    _, y = zoo
    weft, ort = contest("little", 1, OPTIONS, y)
    assert (weft.contestant, ort.contestant) == ("weft", "onnxruntime")
    for each in (weft, ort):
        assert each.why == ""
        assert len(each.times) == 2
        assert each.median > 0
        assert each.error < 1e-5
        assert each.ready > 0
    assert weft.code_bytes > 0
    assert weft.again < weft.ready
    assert math.isnan(ort.again)
    assert ort.runtime_bytes > 1e6


def test_a_wrong_output_takes_no_part(zoo):
    _, y = zoo
    options = Options(("onnxruntime",), 1, 0.01, "wall", None, 120.0)
    (found,) = contest("little", 1, options, y + np.ptp(y))
    assert found.times == ()
    assert found.error > 0.1
    assert found.why == f"its output is off by {found.error:.1e} of the range"


def test_a_failure_is_an_answer(zoo):
    folder, _ = zoo
    remote = Remote("weft", "little", 1, folder)
    try:
        answer = remote.ask(60, do="measure", seconds=0.01, clock="wall")
    finally:
        remote.close()
    assert answer == {"why": "it was not prepared"}


def test_a_worker_that_takes_too_long_is_stopped(zoo):
    folder, _ = zoo
    remote = Remote("weft", "little", 1, folder)
    try:
        with pytest.raises(Late, match="it took more than 0 s"):
            remote.ask(0.01, do="prepare", output=str(folder / "y.npy"))
    finally:
        remote.close()


def test_errors_of_weft_are_said(zoo, monkeypatch):
    folder, _ = zoo
    network = Network("little", folder / "little.ts.onnx", (np.zeros((1, 3, 8, 8), np.float32),))
    monkeypatch.setattr("bench.worker.network", lambda _: network)

    def refuse(_: object) -> object:
        raise UserError("there is no such thing")

    worker = Worker("weft", "little", 1, folder)
    monkeypatch.setitem(bench.worker.MAKERS, "weft", refuse)
    orders = folder / "orders"
    orders.write_text('{"do": "prepare", "output": "y.npy"}\n')
    with orders.open() as source, (folder / "answers").open("w") as sink:
        worker.serve(source, sink)
    assert "there is no such thing" in (folder / "answers").read_text()


def test_who_is_hopeless_sits_out():
    class Fake:
        def __init__(self, contestant: str) -> None:
            self.contestant = contestant

    fast, slow, slowest = Fake("fast"), Fake("slow"), Fake("slowest")
    times = {"fast": [1.0, 1.0], "slow": [7.0], "slowest": [9.0]}
    assert beaten([fast, slow, slowest], times) == [slowest]


def test_the_report_says_all(tmp_path):
    results = [
        Result("resnet18", "weft", 1, (10.0,), 1e-6, 5.0, 0.5, 10**6, 10**6, 10**5, 10**6),
        Result("resnet18", "openvino", 1, (20.0,), 1e-6, 1.0),
        Result("resnet18", "iree", 1, why="iree is not installed"),
    ]
    lines = report(["a machine"], results, {"resnet18": Demand(10**8, 10**6)}, {1: LIMITS})
    text = "\n".join(lines)
    assert "| resnet18 | 10.0 | 20.0 | openvino | 2.00 |" in text
    # 1e8 operations in 10 ms are 10 of 100 GFLOP/s; 1e6 bytes 0.1 of 1 GB/s.
    assert "| resnet18 | weft | 1 | 10% | 10% of DRAM |" in text
    assert "| resnet18 | weft | 1 | 1.0e-06 | 5.00 | 0.500 | 1.00 | 1.00 |" in text
    assert "- iree, resnet18, threads: 1: iree is not installed" in text


def test_batches_count_in_the_groups_of_their_networks():
    results = [
        Result("vgg16@8", "weft", 1, (10.0,), 1e-6, 5.0),
        Result("vgg16@8", "openvino", 1, (20.0,), 1e-6, 1.0),
    ]
    text = "\n".join(report([], results, {"vgg16@8": Demand(10**8, 10**6)}, {1: LIMITS}))
    assert "| plain (1) | 1 | 2.00 | 2.00 | vgg16@8, openvino |" in text


def test_a_run_that_was_broken_off_is_read_again(tmp_path):
    assert measured_before(tmp_path) == ([], {})
    weft = Result("ic", "weft", 1, (1.0, 2.0), 1e-6, 5.0, 0.5, 1, 2, 3, 4, 5, 6, 7.0, "a", "b", 8.0)
    openvino = Result("ic", "openvino", 1, (20.0,), 1e-6, 1.0)
    demands = {"ic": Demand(10**8, 10**6)}
    write(tmp_path, ["a machine"], [weft, openvino], demands, {1: LIMITS})
    results, found = measured_before(tmp_path)
    assert (repr(results), found) == (repr([weft, openvino]), demands)  # NaN is not itself


def test_the_expected_output_is_kept_until_the_network_changes(zoo, monkeypatch):
    folder, y = zoo
    monkeypatch.setattr("bench.networks.ZOO", folder)
    asked: list[str] = []

    class Referring:
        def __init__(self, contestant: str, name: str, threads: int, folder: Path) -> None:
            asked.append(name)

        def ask(self, patience: float, /, **order: object) -> dict[str, object]:
            np.save(str(order["output"]), y)
            return {}

        def close(self) -> None:
            pass

    monkeypatch.setattr("bench.peers.Remote", Referring)
    cache = folder / "cache"
    for _ in range(2):
        assert np.array_equal(expected_output("little", 60, cache), y)
    assert asked == ["little"]
    (kept,) = cache.iterdir()
    os.utime(kept, (0, 0))
    expected_output("little", 60, cache)
    expected_output("little", 60)
    assert asked == ["little"] * 3


class Steady:
    """A meter that gives a list of rates, one for each time it is asked."""

    def __init__(self, *rates: float) -> None:
        self.rates = list(rates)

    def gflops(self, rounds: int) -> tuple[float, ...]:
        return (self.rates.pop(0),) * rounds

    def gbytes(self, footprint: int, rounds: int) -> tuple[float, ...]:
        return (float(footprint),) * rounds


class Counting:
    """A contestant that takes a millisecond more every time."""

    contestant = "weft"

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, patience: float, /, **order: object) -> dict[str, object]:
        self.asked += 1
        return {"times": [self.asked * 1e6]}

    def settle(self) -> None:
        pass


def turns(*rates: float, memory: int = 0) -> tuple[list[float], Watch]:
    watch = Watch(Steady(*rates), LIMITS, memory)
    times = taken_in_turn([Counting()], [Result("n", "weft", 1)], OPTIONS, watch)
    return times["weft"], watch


def test_rounds_on_a_machine_that_is_short_are_repeated():
    found, watch = turns(100, 100, 100, 50, 100, 95, memory=7)
    assert found == [1.0, 3.0]
    assert watch.repeated == 1
    assert watch.gbytes == [7.0, 7.0]


def test_a_machine_that_stays_short_is_measured_as_it_is():
    found, watch = turns(*[50.0] * 24)
    assert found == [5.0, 6.0]
    assert watch.repeated == 4
    assert watch.gbytes == [0.0, 0.0]
