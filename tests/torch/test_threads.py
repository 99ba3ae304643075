"""Threads: PyTorch's number, several callers at once, and processes that were forked."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import weft
from tests.torch.small import OWN, Small, agrees
from weft.runtime.threads import Pool, Team, cores
from weft.torch.native.openmp import openmp_team


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Deep(nn.Module):
    """Large enough for forks to pay."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()) for _ in range(4))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def _deep(**options: Any) -> tuple[Any, Any, torch.Tensor]:
    module, x = Deep().eval(), torch.randn(1, 32, 28, 28)
    return module, weft.optimize(module, x, measure=False, **options), x


def _used(fast: Any) -> list[int]:
    return sorted(each.entry.table.threads for each in fast._weft._bindings.values())


def _built(fast: Any) -> set[int]:
    parts = (each.runner.part for each in fast._weft._bindings.values())
    return {part.compiled.library.built.threads for part in parts}


def test_the_number_of_threads_is_pytorchs(monkeypatch: pytest.MonkeyPatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(Pool, "threads", lambda *_: pytest.fail("one thread needs no pool"))
    module, fast, x = _deep()
    agrees(module, fast, x, compiled=None)
    assert _built(fast) == {1}
    monkeypatch.undo()
    torch.set_num_threads(2)
    agrees(module, fast, x, compiled=None)
    assert _used(fast) == [1, 2]
    assert _built(fast) == {1, 2}
    call = fast._weft.call
    for threads in (1, 2):
        torch.set_num_threads(threads)
        agrees(module, fast, x, compiled=None)
    assert fast._weft.call is call  # nothing was compiled again


def test_a_number_that_was_asked_for_stays():
    module, fast, x = _deep(threads=1)
    torch.set_num_threads(2)
    agrees(module, fast, x, compiled=None)
    assert _built(fast) == {1}
    assert len(fast._weft._bindings) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_eight_threads_may_call_one_module(threads: int):
    torch.set_num_threads(threads)
    module, fast, _ = _deep()
    inputs = [torch.randn(1, 32, 28, 28) for _ in range(8)]
    with torch.no_grad():
        expected = [module(x) for x in inputs]
    wrong: list[int] = []
    start = threading.Barrier(8)

    def call(number: int) -> None:
        start.wait()
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(fast(inputs[number]), expected[number], 1e-4, 1e-5):
                    wrong.append(number)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not wrong


# --- other threads export ---------------------------------------------------------------------


own_forward = pytest.mark.filterwarnings("ignore:.* runs its own forward")


class Slow(nn.Module):
    """Its export lasts until other threads had time to call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.exporting = threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            self.exporting.set()
            time.sleep(0.3)
        return self.layer(x).relu()


@pytest.fixture
def exporting() -> Iterator[tuple[Any, Any]]:
    """A module, and its twin that another thread has begun to compile for another shape."""
    module: Any = Slow().eval()
    fast = weft.optimize(module, torch.randn(1, 4), measure=False)
    module.exporting.clear()
    compiling = threading.Thread(target=torch.no_grad()(fast), args=(torch.randn(2, 4),))
    compiling.start()
    module.exporting.wait()
    yield module, fast
    compiling.join()


def _plain(module: Any, x: torch.Tensor) -> torch.Tensor:
    """What a module of one layer gives, without a call of the module."""
    return (x @ module.layer.weight.T + module.layer.bias).relu()


@own_forward
@pytest.mark.parametrize("shape", [(1, 4), (3, 4)])
@pytest.mark.parametrize("grad", [False, True])
def test_a_module_is_called_while_another_thread_exports_it(
    exporting: tuple[Any, Any], shape: tuple[int, int], grad: bool
):
    module, fast = exporting
    x = torch.randn(shape)
    with torch.set_grad_enabled(grad):
        made = fast(x)
    assert type(made) is torch.Tensor
    assert made.requires_grad == grad
    torch.testing.assert_close(made, _plain(module, x))


@torch.no_grad()
def test_a_module_is_optimized_while_another_thread_exports_another(exporting: tuple[Any, Any]):
    module: Any = Slow().eval()
    x = torch.randn(1, 4)
    fast = weft.optimize(module, x)
    torch.testing.assert_close(fast(x), _plain(module, x))
    assert not torch.compiler.is_exporting()


@own_forward
@torch.no_grad()
def test_a_module_inside_of_one_that_runs_is_compiled_while_another_thread_exports_it():
    class Outer(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.ready = inner, threading.Event()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.ready.set()
            inner.exporting.wait(0.3)  # The other thread has its lock, and waits for this one.
            return self.inner(x)

    inner: Any = Slow().eval()
    fast = weft.optimize(inner, measure=False)
    outer: Any = weft.optimize(Outer(fast).train(), measure=False)
    fast.eval()
    x, made = torch.randn(1, 4), {}

    def call() -> None:
        outer.ready.wait()
        made["inner"] = torch.no_grad()(fast)(x)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    made["outer"] = outer(x)
    caller.join(60)
    for each in ("inner", "outer"):
        torch.testing.assert_close(made[each], _plain(inner, x))


@torch.no_grad()
def test_weights_that_change_meanwhile_are_the_old_or_the_new():
    module, fast, x = _deep(threads=1)
    seen: list[torch.Tensor] = []
    done = threading.Event()

    def call() -> None:
        with torch.no_grad():
            while not done.is_set():
                seen.append(fast(x))

    caller = threading.Thread(target=call)
    allowed = [module(x)]
    caller.start()
    for _ in range(5):
        # The last layer's alone, with one write: a call sees it or does not.
        module.layers[3][0].bias.add_(1)
        allowed.append(module(x))
        fast(x)
    done.set()
    caller.join()
    assert seen
    assert all(any(torch.allclose(got, each, 1e-3, 1e-3) for each in allowed) for got in seen)
    agrees(module, fast, x, compiled=None)


def _team() -> Team:
    found = openmp_team()
    if found is None or cores() < 2:
        pytest.skip("needs two cores and a PyTorch that runs on OpenMP")
    return found


def _sines() -> torch.Tensor:
    """By an operator of PyTorch that runs on its threads."""
    return torch.arange(1.0, 1 << 18).sin()


def _on_team(call: Callable[[], Any]) -> Any:
    """What a call on PyTorch's threads gives.

    The second call of a thread runs on them in any case, except for a while where that did not
    pay, as on a busy system.
    """
    team, end, found = _team(), time.monotonic() + 60, list[Any]()

    def twice() -> None:
        with torch.no_grad():
            call()
            found.append(call())

    before = team.calls()
    while team.calls() == before:
        assert time.monotonic() < end, "no call ran on the team"
        caller = threading.Thread(target=twice)
        caller.start()
        caller.join()
    return found[-1]


@torch.no_grad()
def test_calls_run_on_pytorchs_threads():
    torch.set_num_threads(2)
    module, fast, x = _deep()
    expected = fast(x)
    for _ in range(5):
        assert torch.equal(_on_team(lambda: fast(x)), expected)
        _sines()
        assert torch.equal(fast(x), expected)
    agrees(module, fast, x, compiled=None)


@pytest.mark.thorough
@torch.no_grad()
def test_parts_between_pytorchs_operators_run_on_its_threads():
    class Mixed(Deep):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(torch.special.bessel_j0(self.layers(x)))

    torch.set_num_threads(2)
    module, x = Mixed().eval(), torch.randn(1, 32, 28, 28)
    fast = weft.optimize(module, x, measure=False)
    assert torch.equal(_on_team(lambda: fast(x)), fast(x))
    agrees(module, fast, x, compiled=None)


@torch.no_grad()
def test_another_number_than_pytorchs_runs_on_threads_of_its_own():
    _, fast, x = _deep(threads=2)
    team, expected = _team(), fast(x)
    torch.set_num_threads(1)
    before = team.calls()
    for _ in range(5):
        assert torch.equal(fast(x), expected)
    assert team.calls() == before
    torch.set_num_threads(2)
    assert torch.equal(_on_team(lambda: fast(x)), expected)


# --- forks ------------------------------------------------------------------------------------

_beside_threads = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
"""Newer Pythons warn of forks beside threads, which these tests are about."""


def _in_child(check: Callable[[], bool]) -> bool:
    """Whether a check holds in a process forked from this one, within a minute."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        held = False
        try:
            held = check()
        finally:
            os._exit(0 if held else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@_beside_threads
@torch.no_grad()
def test_a_forked_process_goes_on():
    torch.set_num_threads(2)
    _, fast, x = _deep()
    expected, sines = fast(x), _sines()
    team = openmp_team()
    if team is not None:
        _on_team(lambda: fast(x))

    def check() -> bool:
        same = torch.equal(fast(x), expected) and torch.equal(fast(x), expected)
        # Of PyTorch's operators, too.
        return same and (
            team is None or (torch.equal(_sines(), sines) and torch.equal(fast(x), expected))
        )

    assert _in_child(check)
    assert torch.equal(fast(x), expected)


@_beside_threads
@torch.no_grad()
def test_forks_while_other_threads_call():
    torch.set_num_threads(2)
    _, fast, x = _deep()
    expected = fast(x)
    done = threading.Event()

    def call() -> None:
        with torch.no_grad():
            while not done.is_set():
                fast(x)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for each in callers:
        each.start()
    right = [_in_child(lambda: torch.equal(fast(x), expected)) for _ in range(20)]
    done.set()
    for each in callers:
        each.join()
    assert all(right)
    assert torch.equal(fast(x), expected)


@_beside_threads
@torch.no_grad()
def test_a_fork_while_another_thread_exports(exporting: tuple[Any, Any]):
    module, fast = exporting
    known, new = torch.randn(1, 4), torch.randn(3, 4)

    def check() -> bool:
        right = all(torch.allclose(fast(x), _plain(module, x)) for x in (known, new))
        return (
            right and torch.allclose(module(new), fast(new)) and not torch.compiler.is_exporting()
        )

    assert _in_child(check)


@_beside_threads
@torch.no_grad()
def test_a_fork_while_another_thread_compiles():
    _, fast, x = _deep(threads=1)
    other = torch.randn(2, 32, 8, 8)
    fast(other)
    expected, changed = fast(x), fast(x + 1)
    compiling, forked = threading.Event(), threading.Event()

    def compile_slowly() -> None:
        with fast._weft._lock:
            compiling.set()
            forked.wait()

    compiler = threading.Thread(target=compile_slowly)
    compiler.start()
    compiling.wait()

    def check() -> bool:
        # Needs the lock of a thread that this process does not have.
        fast.refresh()
        new = torch.randn(3, 32, 8, 8)
        return (
            torch.equal(fast(x), expected)
            and torch.equal(fast(x + 1), changed)
            and fast(new).shape == new.shape
        )

    right = _in_child(check)
    forked.set()
    compiler.join()
    assert right


class Features(torch.utils.data.Dataset[tuple[torch.Tensor, int, int, int]]):
    """What a network gives for images, and what ran it."""

    def __init__(self, fast: Any, images: torch.Tensor) -> None:
        self.fast = fast
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int, int, int]:
        OWN.clear()
        with torch.no_grad():
            features = self.fast(self.images[place : place + 1])[0]
        return features, len(OWN), torch.get_num_threads(), os.getpid()


@_beside_threads
@pytest.mark.parametrize("known", [True, False])
def test_workers_of_a_data_loader_run_compiled_code(known: bool):
    torch.set_num_threads(2)
    module = Small().eval()
    images = torch.randn(6, 3, 6, 6)
    with torch.no_grad():
        expected = module(images)
        fast: Any = weft.optimize(module, images[:1], measure=False)
        if known:
            # Workers have one thread of PyTorch's; else each compiles for one itself.
            torch.set_num_threads(1)
            fast(images[:1])
            torch.set_num_threads(2)
    loader = torch.utils.data.DataLoader(
        Features(fast, images), num_workers=2, multiprocessing_context="fork", timeout=100
    )
    made, own, threads, processes = zip(*loader, strict=True)
    torch.testing.assert_close(torch.cat(made), expected, rtol=1e-4, atol=1e-5)
    assert [int(each) for each in threads] == [1] * 6
    assert len({int(each) for each in processes} - {os.getpid()}) == 2
    # The two first of each worker that compiled ran the module for its graph.
    assert [int(each) for each in own] == [0] * 6 if known else not any(map(int, own[2:]))


@_beside_threads
@torch.no_grad()
def test_processes_that_share_weights_see_what_others_write():
    module, fast, x = _deep(threads=1)
    fast.share_memory()
    before = fast(x)

    def write() -> bool:
        for each in module.parameters():
            each.mul_(2)
        return not torch.allclose(fast(x), before)

    assert _in_child(write)
    assert not torch.allclose(fast(x), before)
    agrees(module, fast, x, compiled=None)
