"""The table of what PyTorch's models come to in Weft, of the results of `bench.torch_models`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.torch_catalog import CATALOG
from bench.torch_models import WAYS, well

Results = Mapping[tuple[str, str], dict[str, Any]]
_TITLES = {"optimize": "`weft.optimize`", "compile": '`torch.compile(backend="weft")`'}


def table(results: Results) -> str:
    """A page of Markdown: a summary, and a table for each group."""
    groups: dict[str, list[str]] = {}
    for name, model in CATALOG.items():
        groups.setdefault(model.group, []).append(name)
    return "\n".join([*_head(results), *_summary(groups, results), *_rows(groups, results)])


def _head(results: Results) -> list[str]:
    processors = sorted({each["processor"] for each in results.values() if each.get("processor")})
    return [
        "# PyTorch models through Weft",
        "",
        "Written by `python -m bench.torch_models` and `--table`. Each model has seeded random",
        "weights, with batch norms that have seen data, and runs in a process of its own in",
        "float32, batch 1, on one thread"
        + (f" of {' and '.join(processors)}." if processors else "."),
        "",
        "- *by PyTorch*: ATen ops of a call that PyTorch computes, beside views and copies.",
        "- *error*: the largest difference of an output from PyTorch's, relative to its range.",
        "- *speed*: PyTorch's time (eager, the faster of both memory layouts) over Weft's; each",
        "  the least of alternating runs. The machine was shared, so single figures vary. Compiled",
        "  code is timed even where PyTorch is faster (`measure=False`). Models of `transformers`",
        "  are tiny, and most of PyTorch's time is what its ops cost besides computing.",
        "",
    ]


def _summary(groups: Mapping[str, Sequence[str]], results: Results) -> list[str]:
    lines = [
        "| models | way | number | run whole and right | with ops by PyTorch | errors | speed |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    everything = {"all": [name for names in groups.values() for name in names]}
    for group, names in {**groups, **everything}.items():
        for way in WAYS:
            found = [results[name, way] for name in names if (name, way) in results]
            if not found:
                continue
            ran = [each for each in found if each["status"] == "ok"]
            other = sum(bool(each["fallbacks"]) for each in ran)
            ratios = [each["ratio"] for each in ran]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
            lines.append(
                f"| {group} | {_TITLES[way]} | {len(found)} | {sum(map(well, found))} | {other} | "
                f"{len(found) - len(ran)} | {mean:.2f} |"
            )
    return [*lines, ""]


def _rows(groups: Mapping[str, Sequence[str]], results: Results) -> list[str]:
    lines: list[str] = []
    for group, every in groups.items():
        names = [name for name in every if any((name, way) in results for way in WAYS)]
        missing = [name for name in every if name not in names]
        heads = [f"{title}: by PyTorch | error | speed" for title in _TITLES.values()]
        lines += [f"## {group}", "", f"| model | {' | '.join(heads)} |", "|---" * 7 + "|"]
        for name in names:
            cells = [_cells(results.get((name, way))) for way in WAYS]
            lines.append(f"| {name} | {' | '.join(cells)} |")
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
    return f"{other[:120] or '0'} | {record['difference']:.0e} | {record['ratio']:.2f}"
