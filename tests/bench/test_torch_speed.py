"""Times of PyTorch models: what is timed next, and what is kept of it."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import threading
from pathlib import Path

import pytest

if importlib.util.find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)

from bench import torch_speed
from bench.torch_catalog import CATALOG

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of results of its own."""
    file = tmp_path / "results.jsonl"
    monkeypatch.setenv("WEFT_TORCH_SPEED", str(file))
    return file


def test_families_come_in_turn_and_tiny_models_last():
    order = torch_speed.in_turn()
    assert sorted(order) == sorted(CATALOG)
    firsts = [order.index(name) for name in ("resnet101", "vgg11", "swin_b", "r3d_18", "tcn")]
    seconds = [order.index(name) for name in ("resnet152", "vgg11_bn", "swin_s")]
    assert max(firsts[:3]) < min(seconds)
    tiny = [name for name, model in CATALOG.items() if model.group == "transformers"]
    assert order[-len(tiny) :] == tiny


def test_what_has_a_result_or_waits_is_not_missing(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lines = [
        {"model": "lstm", "threads": 2, "ratios": {}},
        {"model": "gru", "threads": 2, "error": "exit status -9"},
        {"model": "bilstm", "threads": 1, "ratios": {}},
    ]
    results.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    folder = tmp_path / "waiting"
    (folder / "tcn-2,1").mkdir(parents=True)
    started: list[tuple[str, tuple[int, ...]]] = []

    def start(entry: torch_speed.Entry, _folder: Path, _seconds: float) -> None:
        started.append((entry.name, tuple(entry.threads)))

    monkeypatch.setattr(torch_speed, "start", start)
    names = ["lstm", "gru", "bilstm", "tcn", "lenet5"]
    asked = ["torch_speed", *names, "--missing", "--threads", "2", "1", "--most", "4"]
    monkeypatch.setattr("sys.argv", [*asked, "--start", str(folder)])
    torch_speed.main()
    both = 2, 1
    assert started == [("lstm", (1,)), ("gru", both), ("bilstm", (2,)), ("lenet5", both)]


def test_what_a_process_did_not_time_is_an_error(results: Path, tmp_path: Path):
    place = torch_speed.Entry("vgg11", (2, 1), ()).place(tmp_path)
    place.mkdir()
    for gate in ("go", "done"):
        os.mkfifo(place / gate)

    def ends_after_one() -> None:
        (place / "go").read_text()
        (place / "done").write_text(json.dumps({"model": "vgg11", "threads": 2, "error": "x"}))

    process = threading.Thread(target=ends_after_one)
    process.start()
    torch_speed.finish(place)
    process.join()
    kept = {each["threads"]: each["error"] for each in torch_speed.kept()}
    assert kept == {2: "x", 1: "ended untimed"}
    assert not place.exists()


def test_a_process_that_ended_is_a_result(results: Path, tmp_path: Path):
    place = torch_speed.Entry("vgg11", (2,), ()).place(tmp_path)
    place.mkdir()
    for gate in ("go", "done"):
        os.mkfifo(place / gate)
    torch_speed.finish(place)
    (kept,) = torch_speed.kept()
    assert (kept["model"], kept["threads"], kept["error"]) == ("vgg11", 2, "ended untimed")
    assert not place.exists()


@pytest.mark.parametrize(("median", "steady"), [(19.0, True), (21.0, False)])
def test_times_of_other_programs_are_no_result(
    results: Path, tmp_path: Path, median: float, steady: bool
):
    record = {
        "model": "vgg11",
        "threads": 2,
        "milliseconds": {"weft": 4.0, "eager": median},
        "least": {"weft": 4.0, "eager": 10.0},
        "ratios": {"eager": 2.0},
    }
    torch_speed._keep(record)
    (kept,) = torch_speed.kept()
    assert kept.get("error") == (None if steady else "disturbed by other programs")


def test_what_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch):
    def prepared(contestant: str, module: object, example: object) -> object:
        return {"weft": lambda: torch.tensor([0.0, 1.01]), "eager": module}[contestant]

    monkeypatch.setattr(torch_speed, "_prepared", prepared)

    def module() -> object:
        return torch.tensor([0.0, 1.0])

    ready, notes = torch_speed._ready(["weft", "eager"], module, ((), {}))
    assert list(ready) == ["eager"]
    assert notes["weft"].startswith("1.0e-02 off")


def test_ratios_are_medians_of_single_turns(monkeypatch: pytest.MonkeyPatch):
    ticks = itertools.count()
    monkeypatch.setattr(torch_speed, "BURST", 0.0)
    monkeypatch.setattr(torch_speed, "SECONDS", 0.0)
    runs = {"weft": lambda: None, "eager": lambda: None}
    times = torch_speed._timed(runs, lambda: float(next(ticks)))
    assert times == {name: [1.0] * torch_speed.LEAST_ROUNDS for name in runs}
    disturbed = {"weft": [1.0, 10.0, 1.0], "eager": [2.0, 20.0, 3.0]}
    assert torch_speed._ratios(disturbed) == {"eager": 2.0}
