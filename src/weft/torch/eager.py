# pyright: basic
"""PyTorch's own forward of a module, in both layouts, and its time beside compiled code's.

Runs alternate, and what is clearly slower drops out (``_race``), so that a clear winner is found
in a few runs.  Where compiled code wins, times are remembered in the cache, for the architecture,
the compiled code, PyTorch with its number of threads, and the processor: checkpoints of one
architecture are measured once on a machine, and thrice where the difference is small.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import ceil
from typing import Any, Literal, TypeAlias

import torch
from torch.utils import _pytree as pytree

from weft.records import dataclass
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.identity import digest_self
from weft.runtime.record import TIMED, MadeFor, read_record, write_record
from weft.torch.capture import Captured

Layout: TypeAlias = Literal["contiguous", "channels-last"]

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
SECONDS = 2.0
"""After so long a first comparison begins no further run, but for two of each contestant.

One that is repeated has half as long, and there is none where two runs of each take longer.
"""
COMPARISONS = 3
"""So often what wins narrowly is compared: by further processes, too."""
# Before anybody drops out: other programs may disturb one round, seldom all.
_LEAST_ROUNDS = 3
_MOST_ROUNDS = 40
_BATCH_SECONDS = 1e-3
_DECIDING = ("weft", "contiguous")
# A module with more bytes of weights than this is not copied to be measured in channels-last.
_MOST_BYTES = 1 << 29


@dataclass(frozen=True)
class Times:
    """Microseconds of one call, the fastest of several batches that ran alternately.

    Attributes:
        weft: by compiled code.
        contiguous: by PyTorch.
        inputs_channels_last: by PyTorch, the inputs converted to channels-last in every call;
            ``None`` where that is no layout of the module, or fails.
        channels_last: by PyTorch, inputs and weights in channels-last before; ``None`` likewise,
            and where the module is too large to be copied.
    """

    weft: float
    contiguous: float
    inputs_channels_last: float | None = None
    channels_last: float | None = None

    @property
    def kept(self) -> Layout | None:
        """The layout of PyTorch's forward where it beats compiled code; else ``None``."""
        other = self.inputs_channels_last
        if other is not None and other < min(self.weft, self.contiguous):
            return "channels-last"
        return "contiguous" if self.contiguous < self.weft else None

    @property
    def eager(self) -> float:
        """The best of PyTorch's."""
        others = (self.inputs_channels_last, self.channels_last)
        return min([self.contiguous, *(each for each in others if each is not None)])

    @property
    def gain(self) -> float:
        """How many times as fast as the best of PyTorch's compiled code is."""
        return self.eager / self.weft


def own_forward(
    module: torch.nn.Module, captured: Captured, layout: Layout
) -> Callable[[Sequence[Any]], list[Any]]:
    """The module's forward on flattened arguments, without its hooks, with flattened results.

    Args:
        module: the module.
        captured: its graph for these arguments.
        layout: that convolutions compute in.  Results have the strides that the module's own
            have where it is ``contiguous``.
    """

    def contiguous(leaves: Sequence[Any]) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(leaves, captured.in_spec)
        return pytree.tree_leaves(module.forward(*args, **kwargs))

    def channels_last(leaves: Sequence[Any]) -> list[Any]:
        results = contiguous([_channels_last(each) for each in leaves])
        return [each.contiguous() if isinstance(each, torch.Tensor) else each for each in results]

    return contiguous if layout == "contiguous" else channels_last


def times(
    module: torch.nn.Module,
    captured: Captured,
    compiled: Callable[[], object],
    leaves: Sequence[Any],
    code: Sequence[str],
    *,
    converted: bool = False,
) -> Times | None:
    """Measures PyTorch and compiled code on the same arguments, for ``SECONDS`` at most.

    Where compiled code won clearly before, or ``COMPARISONS`` times, in this process or another
    one, it is not measured again; nor where it won and two runs of both take too long.

    Args:
        module: the module.
        captured: its graph.
        compiled: runs it on these arguments.
        leaves: the arguments, flattened.
        code: the compiled parts: names that stand for their content, and their threads.
        converted: measures a copy of the module in channels-last, too, which is never kept.

    Returns:
        The times; ``None`` where runs change the module or its arguments.
    """
    if any(result.target is not None for result in captured.results):
        return None
    name = _name(module, captured, leaves, [*code, str(converted)])
    known = read_record(Cache(), name)
    if known is not None and (known["comparisons"] >= COMPARISONS or _takes_long(known["times"])):
        return Times(**known["times"])
    contiguous = own_forward(module, captured, "contiguous")
    runs = {"weft": compiled, "contiguous": partial(contiguous, leaves)}
    if _has_layouts(captured, leaves):
        other = own_forward(module, captured, "channels-last")
        runs["inputs_channels_last"] = partial(other, leaves)
        twin = _converted(module, captured) if converted else None
        if twin is not None:
            given = [_channels_last(each) for each in leaves]
            other = own_forward(twin, captured, "contiguous")
            runs["channels_last"] = partial(other, given)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        least, clear = _race(runs, SECONDS if known is None else SECONDS / 2)
    comparisons = COMPARISONS if clear else 1
    if known is not None:
        comparisons = max(comparisons, known["comparisons"] + 1)
        earlier = {each: value for each, value in known["times"].items() if value is not None}
        least |= {each: min(value, least.get(each, value)) for each, value in earlier.items()}
    found = Times(**least)
    # Compiled code that loses may have been disturbed by other programs: the next process looks
    # again.
    if found.kept is None:
        made_for = asdict(MadeFor(captured.name, "comparison with PyTorch"))
        record = {"made_for": made_for, "times": asdict(found), "comparisons": comparisons}
        write_record(Cache(), name, {"name": captured.name, **record})
    return found


def _takes_long(known: Mapping[str, float]) -> bool:
    """Whether two runs of both, the least that is compared, take longer than a repetition may."""
    return 2 * sum(known[each] for each in _DECIDING) > SECONDS / 2 * 1e6


def _name(
    module: torch.nn.Module, captured: Captured, leaves: Sequence[Any], code: Sequence[str]
) -> str:
    """The record of the times: all but the elements of weights and arguments decides them."""
    kind = type(module)
    about = [kind.__module__, kind.__qualname__, str(captured.graph), *code, *map(lies, leaves)]
    about += [slot.name + lies(slot.value) for slot in captured.weights]
    about += [torch.__config__.show(), torch.__config__.parallel_info()]
    return digest(["eager", *about, digest_self(), processor()]) + TIMED


def lies(leaf: Any) -> str:
    """How a tensor lies in memory; what another argument is."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    strides = leaf.stride() if leaf.layout == torch.strided else ""
    return f"{leaf.dtype} {leaf.layout} {tuple(leaf.shape)} {strides}"


def _race(
    runs: Mapping[str, Callable[[], object]], seconds: float
) -> tuple[dict[str, float], bool]:
    """Runs by turns, until one is clearly the fastest or so many seconds are over.

    After ``n`` rounds those drop out whose fastest batch took ``1 + 1/n`` times as long as the
    fastest of all: other programs make some batches longer, none shorter.

    Returns:
        Microseconds of one run in each one's fastest batch, without what fails or there is no
        time for; and whether one alone is left.
    """
    start = time.perf_counter()
    racing: list[str] = []
    for name, run in runs.items():
        try:
            # The first run takes longer than others.
            if name in _DECIDING or time.perf_counter() - start < seconds:
                run()
                racing.append(name)
        except RuntimeError:
            # Views of what lies in channels-last may be impossible.
            if "channels_last" not in name:
                raise
    least: dict[str, float] = {}
    for number in range(1, _MOST_ROUNDS + 1):
        for name in racing:
            if time.perf_counter() - start < seconds or (name in _DECIDING and number == 1):
                batch = ceil(_BATCH_SECONDS / least[name]) if name in least else 1
                taken = _seconds(runs[name], batch)
                least[name] = min(taken, least.get(name, taken))
        spent, fastest = time.perf_counter() - start, min(least.values())
        if number >= _LEAST_ROUNDS or spent >= seconds / 4:
            bound = fastest * (1 + 1 / number)
            racing = [name for name in racing if least.get(name, bound) <= bound]
        if len(racing) == 1 or spent >= seconds:
            break
    return {name: taken * 1e6 for name, taken in least.items()}, len(racing) == 1


def _seconds(run: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


# --- channels-last --------------------------------------------------------------------------


def _has_layouts(captured: Captured, leaves: Sequence[Any]) -> bool:
    """Whether a module takes images and has convolutions."""
    images = any(isinstance(each, torch.Tensor) and each.dim() in _FORMATS for each in leaves)
    return images and any(slot.value.dim() in _FORMATS for slot in captured.weights)


def _channels_last(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor) and leaf.dim() in _FORMATS:
        return leaf.contiguous(memory_format=_FORMATS[leaf.dim()])
    return leaf


def _converted(module: torch.nn.Module, captured: Captured) -> torch.nn.Module | None:
    """A copy of a module with its weights in channels-last."""
    if sum(slot.value.nbytes for slot in captured.weights) > _MOST_BYTES:
        return None
    try:
        made = copy.deepcopy(module)
        for parameter in made.parameters():
            parameter.data = _channels_last(parameter.data)
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        return None
    return made
