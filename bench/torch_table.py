"""The table of what PyTorch's models come to in Weft.

Of the results of `bench.torch_models`, and of the times of `bench.torch_speed`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.torch_catalog import CATALOG
from bench.torch_models import CLOSE, well
from bench.torch_ways import DOUBLE, TRAINED, WAYS

Results = Mapping[tuple[str, str], dict[str, Any]]
Times = Mapping[tuple[str, int], dict[str, Any]]
_CONTESTANTS = {
    "weft": "Weft",
    "eager": "eager",
    "channels-last": "channels-last",
    "inductor frozen": "Inductor",
    "inductor tuned": "tuned",
}
_TITLES = {"optimize": "`weft.optimize`", "compile": '`torch.compile(backend="weft")`'}
_GAINS = {"eager": ("eager", "channels-last"), "inductor": ("inductor frozen", "inductor tuned")}
"""The two whose times are compared with Weft's: the faster of these."""
_COUNTED = re.compile(r"(?:(\d+) )?(\w+)")
_TIMES, _TRAINED, _THREADS = (
    "## Times",
    "## After a short training",
    re.compile(r"### (\d+) threads?"),
)


def table(results: Results, times: Times | None = None) -> str:
    """A page of Markdown: a summary, and a table for each group.

    Args:
        results: of `bench.torch_models`, by name and way.
        times: of `bench.torch_speed`, by name and number of threads.
    """
    groups: dict[str, list[str]] = {}
    for name, model in CATALOG.items():
        groups.setdefault(model.group, []).append(name)
    lines = [*_head(), *_summary(groups, results), *_rows(groups, results), *_trained(results)]
    return "\n".join([*lines, *speeds(times or {})])


def results_of(page: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The results that such a page gives, with as many digits as it has."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    trained = False
    for line in page.splitlines():
        name, processor, *cells = [cell.strip() for cell in line[1:-1].split("|")] + [""]
        trained |= line == _TRAINED
        if line == _TIMES:
            break
        if name not in CATALOG:
            continue
        if trained:
            off = dict(zip((*WAYS, *_OFF), map(float, cells[: len(WAYS + _OFF)]), strict=True))
            found[name, TRAINED] = {"status": "ok", "processor": processor, **off}
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
        if len(cells) > 7 and cells[6]:
            off = dict(zip(_OFF, map(float, cells[6:8]), strict=True))
            found[name, DOUBLE] = {"status": "ok", "processor": processor, **off}
    return found


def times_of(page: str) -> dict[tuple[str, int], dict[str, Any]]:
    """The times that such a page gives, by name and number of threads."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    threads = 0
    for line in page.splitlines():
        section = _THREADS.match(line)
        threads = int(section[1]) if section else threads
        name, processor, *cells = [cell.strip() for cell in line[1:-1].split("|")] + [""]
        if name not in CATALOG or not threads:
            continue
        numbers = [float(cell) if cell else None for cell in cells[: len(_CONTESTANTS) + 2]]
        spent = dict(zip(_CONTESTANTS, numbers, strict=False))
        gains = dict(zip(_GAINS, numbers[len(_CONTESTANTS) :], strict=True))
        record = {"processor": processor, "milliseconds": _given(spent), "gains": _given(gains)}
        runs = cells[len(_CONTESTANTS) + 2]
        found[name, threads] = record | ({"runs": runs} if runs else {})
    return found


def _given(values: Mapping[str, float | None]) -> dict[str, float]:
    return {key: each for key, each in values.items() if each is not None}


def speeds(times: Times) -> list[str]:
    """The section on times, with a table for each number of threads."""
    lines: list[str] = [*_HEAD_OF_TIMES] if times else []
    for threads in sorted({threads for _, threads in times}):
        rows = {name: each for (name, count), each in times.items() if count == threads}
        lines += [f"### {threads} thread{'s' if threads > 1 else ''}", "", *_times_of_rows(rows)]
    return lines


_HEAD_OF_TIMES = (
    _TIMES,
    "",
    "Milliseconds of a call in float32, batch 1 (`python -m bench.torch_speed`): medians of calls,",
    "or of bursts of calls, in turns. *Channels-last* is eager, too; *Inductor* is frozen",
    "(`freezing`), *tuned* with `max_autotune` besides. *Eager / Weft* and *Inductor / Weft* are",
    "ratios with the faster of both, mostly medians of those of single turns. Times of one thread",
    "are those on a core. Times whose median turn took twice the best, as other programs make",
    "them, are left out. All times are of compiled code; where that is not clearly faster, *runs*",
    "says what `weft.optimize` keeps by its own comparison.",
    "",
)


def _times_of_rows(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A table, the smallest gains first, with the means of each processor."""
    timed = {name: each for name, each in rows.items() if "error" not in each}
    heads = " | ".join(_CONTESTANTS.values())
    lines = [
        f"| model | processor | {heads} | eager / Weft | Inductor / Weft | runs |",
        "|---|---|" + "---:|" * (len(_CONTESTANTS) + 2) + "---|",
    ]
    gains = {name: _gains(each) for name, each in timed.items()}
    for name in sorted(gains, key=lambda name: (round(min(gains[name].values()), 2), name)):
        spent = timed[name]["milliseconds"]
        cells = [_rounded(spent[key]) if key in spent else "" for key in _CONTESTANTS]
        cells += [f"{gains[name][key]:.2f}" if key in gains[name] else "" for key in _GAINS]
        cells.append(timed[name].get("runs", ""))
        lines.append(f"| {name} | {timed[name]['processor']} | {' | '.join(cells)} |")
    blanks = " | " * (len(_CONTESTANTS) - 1)
    for processor in sorted({each["processor"] for each in timed.values()}):
        own = [gains[name] for name, each in timed.items() if each["processor"] == processor]
        means = " | ".join(_mean([each[key] for each in own if key in each]) for key in _GAINS)
        lines.append(f"| geometric mean of {len(own)} | {processor} | {blanks} | {means} | |")
    lines.append("")
    failed = [f"{name} ({each['error']})" for name, each in rows.items() if "error" in each]
    return [*lines, f"Not timed: {', '.join(failed)}.", ""] if failed else lines


def _gains(record: Mapping[str, Any]) -> dict[str, float]:
    """The least ratios of eager and of Inductor to Weft, where there are any.

    Of times as the row gives them where no ratios were measured.
    """
    if "gains" in record:
        return record["gains"]
    given = {key: float(_rounded(each)) for key, each in record["milliseconds"].items()}
    ratios = record.get("ratios") or {key: each / given["weft"] for key, each in given.items()}
    found = {key: [ratios[each] for each in both if each in ratios] for key, both in _GAINS.items()}
    return {key: min(each) for key, each in found.items() if each}


def _rounded(milliseconds: float) -> str:
    return f"{milliseconds:.{2 if milliseconds < 10 else 1 if milliseconds < 100 else 0}f}"


def _head() -> list[str]:
    return [
        "# PyTorch models through Weft",
        "",
        "Written by `python -m bench.torch_models` and `--table`. Each model has seeded random",
        "weights, with batch norms that have seen data and, in ResNets, small scales in the last",
        "norm of each branch, as at the beginning of training. It runs in a process of its own in",
        "float32, batch 1, on one thread.",
        "",
        "- *by PyTorch*: ATen ops of a call that PyTorch computes, beside views and copies.",
        "- *error*: the largest difference of an output from PyTorch's, relative to its range.",
        "- *off double*: that of Weft's (`weft.optimize`) and of PyTorch's from the outputs of the",
        "  module in double precision, where these were computed.",
        "- *near*: outputs differ by 1e-4 of the range at the most from PyTorch's; *or once",
        "  trained*: where they differed by more, they do not after some steps of training.",
        "- *speed*: PyTorch's time (eager, the faster of both memory layouts) over Weft's; each",
        "  the least of alternating runs. Shared machines, where two models may run at a time:",
        "  single figures vary. Compiled code is timed even where PyTorch is faster",
        "  (`measure=False`). Models of `transformers` are tiny, and most of PyTorch's time is",
        "  what its ops cost besides computing.",
        "",
    ]


def _summary(groups: Mapping[str, Sequence[str]], results: Results) -> list[str]:
    processors = sorted({each["processor"] for (_, way), each in results.items() if way in WAYS})
    speeds = "".join(f" speed, {each} |" for each in processors)
    lines = [
        "| models | way | number | run whole, near PyTorch | or once trained | with ops by PyTorch "
        "| errors |" + speeds,
        "|---|---|---:|---:|---:|---:|---:|" + "---:|" * len(processors),
    ]
    everything = {"all": [name for names in groups.values() for name in names]}
    for group, names in {**groups, **everything}.items():
        for way in WAYS:
            ran_at_all = [name for name in names if (name, way) in results]
            found = [results[name, way] for name in ran_at_all]
            if not found:
                continue
            strict = [well(each) for each in found]
            right = [
                well(results[name, way], _once_trained(results, name, way)) for name in ran_at_all
            ]
            ran = [each for each in found if each["status"] == "ok"]
            other = sum(bool(each["fallbacks"]) for each in ran)
            # Figures of different machines have no mean.
            means = (_mean([e["ratio"] for e in ran if e["processor"] == p]) for p in processors)
            lines.append(
                f"| {group} | {_TITLES[way]} | {len(found)} | {sum(strict)} | {sum(right)} | "
                f"{other} | {len(found) - len(ran)} | {' | '.join(means)} |"
            )
    return [*lines, ""]


def _once_trained(results: Results, name: str, way: str) -> float | None:
    """The difference after a training, where there was one."""
    return results.get((name, TRAINED), {}).get(way)


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
        heads += ["off double: Weft", "eager"]
        lines += [f"## {group}", "", f"| model | processor | {' | '.join(heads)} |"]
        lines.append("|---" * 10 + "|")
        for name in names:
            cells = [_cells(results.get((name, way))) for way in WAYS]
            cells.append(_off_double(results.get((name, DOUBLE))))
            processor = next(
                results[name, way]["processor"] for way in WAYS if (name, way) in results
            )
            lines.append(f"| {name} | {processor} | {' | '.join(cells)} |")
        lines += ["", f"Not run yet: {', '.join(missing)}.", ""] if missing else [""]
    return lines


def _trained(results: Results) -> list[str]:
    """The section on models that were trained before they ran again, if there are any."""
    rows = {name: each for (name, way), each in results.items() if way == TRAINED}
    keys = (*WAYS, *_OFF)
    heads = [f"{title}: error" for title in _TITLES.values()] + ["off double: Weft", "eager"]
    lines = [
        _TRAINED,
        "",
        "Random weights can make deep networks chaotic: differences, those of rounding among them,",
        "grow from layer to layer. These models were trained for some steps on scikit-learn's",
        "digits first (`--ways trained`), from scales between 0.6 and 1.4 in all norms.",
        "",
        f"| model | processor | {' | '.join(heads)} |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for name in sorted(rows):
        off = [f"{rows[name][key]:.2e}" for key in keys if key in rows[name]]
        cells = off or [rows[name].get("error", "")]
        lines.append(f"| {name} | {rows[name]['processor']} | {' | '.join(cells)} |")
    return [*lines, ""] if rows else []


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


_OFF = ("weft", "eager")


def _off_double(record: Mapping[str, Any] | None) -> str:
    found = record if record and record["status"] == "ok" else {}
    return " | ".join(f"{found[key]:.2e}" if key in found else "" for key in _OFF)
