"""The table of what PyTorch's models come to in Weft.

Of the results of `bench.torch_models`, and of the times of `bench.torch_speed` on one thread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.torch_catalog import CATALOG
from bench.torch_models import CLOSE, WAYS, well

Results = Mapping[tuple[str, str], dict[str, Any]]
Times = Mapping[str, dict[str, Any]]
_CONTESTANTS = {
    "weft": "Weft",
    "eager": "eager",
    "channels-last": "channels-last",
    "inductor frozen": "Inductor",
    "inductor tuned": "tuned",
}
_TITLES = {"optimize": "`weft.optimize`", "compile": '`torch.compile(backend="weft")`'}
_COUNTED = re.compile(r"(?:(\d+) )?(\w+)")


def table(results: Results, times: Times | None = None) -> str:
    """A page of Markdown: a summary, and a table for each group.

    Args:
        results: of `bench.torch_models`, by name and way.
        times: of `bench.torch_speed` on one thread, by name.
    """
    groups: dict[str, list[str]] = {}
    for name, model in CATALOG.items():
        groups.setdefault(model.group, []).append(name)
    lines = [*_head(), *_summary(groups, results), *_rows(groups, results)]
    return "\n".join([*lines, *_speeds(times or {})])


def results_of(page: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The results that such a page gives, with as many digits as it has."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in page.splitlines():
        name, processor, *cells = [cell.strip() for cell in line[1:-1].split("|")] + [""]
        if line.startswith(f"## {_BESIDE}"):
            break
        if name not in CATALOG:
            continue
        for place, way in enumerate(WAYS):
            other, difference, ratio = cells[3 * place : 3 * place + 3]
            record: dict[str, Any] = {"status": "ok", "processor": processor}
            if ratio:
                counted = _COUNTED.findall("" if other == "0" else other)
                record["fallbacks"] = {op: int(count or 1) for count, op in counted}
                record |= {"difference": float(difference), "ratio": float(ratio)}
            elif other != "not run":
                record |= {"status": "error", "error": other.replace("&lt;", "<")}
            else:
                continue
            found[name, way] = record
    return found


_BESIDE = "Beside Inductor"


def times_of(page: str) -> dict[str, dict[str, Any]]:
    """The times that such a page gives."""
    found: dict[str, dict[str, Any]] = {}
    for line in page.partition(f"## {_BESIDE}")[2].splitlines():
        name, processor, *cells = [cell.strip() for cell in line[1:-1].split("|")] + [""]
        if name in CATALOG:
            named = zip(_CONTESTANTS, cells, strict=False)
            milliseconds = {key: float(cell) for key, cell in named if cell}
            found[name] = {"processor": processor, "milliseconds": milliseconds}
    return found


def _speeds(times: Times) -> list[str]:
    """The section on times beside Inductor, the smallest gains first; nothing without times."""
    if not times:
        return []
    heads = " | ".join(_CONTESTANTS.values())
    lines = [
        f"## {_BESIDE}",
        "",
        "Milliseconds of a call on one thread, medians of alternating calls on an otherwise idle",
        "machine (`python -m bench.torch_speed NAMES --threads 1`). *Channels-last* is eager, too;",
        "*Inductor* is frozen (`freezing`), *tuned* with `max_autotune` besides. The last columns",
        "are PyTorch's time over Weft's: of the faster eager, and of the faster Inductor.",
        "",
        f"| model | processor | {heads} | eager / Weft | Inductor / Weft |",
        "|---|---|" + "---:|" * (len(_CONTESTANTS) + 2),
    ]
    gains = {name: _gains(each["milliseconds"]) for name, each in times.items()}
    for name in sorted(gains, key=lambda name: (min(gains[name]), name)):
        spent = times[name]["milliseconds"]
        cells = [_rounded(spent[key]) if key in spent else "" for key in _CONTESTANTS]
        cells += [f"{gain:.2f}" if gain < math.inf else "" for gain in gains[name]]
        lines.append(f"| {name} | {times[name]['processor']} | {' | '.join(cells)} |")
    blanks = " | " * (len(_CONTESTANTS) - 1)
    for processor in sorted({each["processor"] for each in times.values()}):
        own = [gains[name] for name, each in times.items() if each["processor"] == processor]
        columns = (
            [gain for gain in column if gain < math.inf] for column in zip(*own, strict=True)
        )
        means = " | ".join(map(_mean, columns))
        lines.append(f"| geometric mean of {len(own)} | {processor} | {blanks} | {means} |")
    return [*lines, ""]


def _gains(spent: Mapping[str, float]) -> tuple[float, float]:
    """The least times of eager and of Inductor over Weft's, of times as the rows give them.

    Infinite where there are none.
    """
    given = {key: float(_rounded(each)) for key, each in spent.items()}
    eager = [given[key] for key in ("eager", "channels-last") if key in given]
    inductor = [given[key] for key in ("inductor frozen", "inductor tuned") if key in given]
    return (
        min(eager, default=math.inf) / given["weft"],
        min(inductor, default=math.inf) / given["weft"],
    )


def _rounded(milliseconds: float) -> str:
    return f"{milliseconds:.{2 if milliseconds < 10 else 1 if milliseconds < 100 else 0}f}"


def _head() -> list[str]:
    return [
        "# PyTorch models through Weft",
        "",
        "Written by `python -m bench.torch_models` and `--table`. Each model has seeded random",
        "weights, with batch norms that have seen data, and runs in a process of its own in",
        "float32, batch 1, on one thread.",
        "",
        "- *by PyTorch*: ATen ops of a call that PyTorch computes, beside views and copies.",
        "- *error*: the largest difference of an output from PyTorch's, relative to its range.",
        "- *speed*: PyTorch's time (eager, the faster of both memory layouts) over Weft's; each",
        "  the least of alternating runs. Shared machines: single figures vary. Compiled",
        "  code is timed even where PyTorch is faster (`measure=False`). Models of `transformers`",
        "  are tiny, and most of PyTorch's time is what its ops cost besides computing.",
        "",
    ]


def _summary(groups: Mapping[str, Sequence[str]], results: Results) -> list[str]:
    processors = sorted({each["processor"] for each in results.values()})
    speeds = "".join(f" speed, {each} |" for each in processors)
    lines = [
        "| models | way | number | run whole and right | with ops by PyTorch | errors |" + speeds,
        "|---|---|---:|---:|---:|---:|" + "---:|" * len(processors),
    ]
    everything = {"all": [name for names in groups.values() for name in names]}
    for group, names in {**groups, **everything}.items():
        for way in WAYS:
            found = [results[name, way] for name in names if (name, way) in results]
            if not found:
                continue
            ran = [each for each in found if each["status"] == "ok"]
            other = sum(bool(each["fallbacks"]) for each in ran)
            # Figures of different machines have no mean.
            means = (_mean([e["ratio"] for e in ran if e["processor"] == p]) for p in processors)
            lines.append(
                f"| {group} | {_TITLES[way]} | {len(found)} | {sum(map(well, found))} | {other} | "
                f"{len(found) - len(ran)} | {' | '.join(means)} |"
            )
    return [*lines, ""]


def _mean(ratios: Sequence[float]) -> str:
    """The geometric mean, where there are any, of ratios as the rows give them."""
    ratios = [round(ratio, 2) for ratio in ratios]
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else ""


def _rows(groups: Mapping[str, Sequence[str]], results: Results) -> list[str]:
    lines: list[str] = []
    for group, every in groups.items():
        names = [name for name in every if any((name, way) in results for way in WAYS)]
        missing = [name for name in every if name not in names]
        heads = [f"{title}: by PyTorch | error | speed" for title in _TITLES.values()]
        lines += [f"## {group}", "", f"| model | processor | {' | '.join(heads)} |"]
        lines.append("|---" * 8 + "|")
        for name in names:
            cells = [_cells(results.get((name, way))) for way in WAYS]
            processor = next(
                results[name, way]["processor"] for way in WAYS if (name, way) in results
            )
            lines.append(f"| {name} | {processor} | {' | '.join(cells)} |")
        lines += ["", f"Not run yet: {', '.join(missing)}.", ""] if missing else [""]
    return lines


def _cells(record: dict[str, Any] | None) -> str:
    if record is None:
        return "not run | | "
    if record["status"] != "ok":
        return f"{record['error'].replace('|', '/').replace('<', '&lt;')[:120]} | | "
    other = ", ".join(
        name if count == 1 else f"{count} {name}" for name, count in record["fallbacks"].items()
    )
    digits = 0 if record["difference"] <= CLOSE else 2
    return f"{other[:120] or '0'} | {record['difference']:.{digits}e} | {record['ratio']:.2f}"
