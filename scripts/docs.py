"""Write the pages that come from tables: ``docs/ops.md``, ``rules.md``, ``recipes.md``,
``targets.md``; from generated C: ``kernels.md``; the stub of ``weft.ops``; and the picture of
the grammar of the query language, ``query.svg``.

python scripts/docs.py           writes them
python scripts/docs.py --check   fails if one is not what would be written
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from typing import assert_never

from keras_page import keras_page
from kernels_page import kernels_page
from ops_stub import stub
from query_picture import query_picture

from weft.codegen.flavours import flavour_named
from weft.dtypes import DType
from weft.ops.record import Computation, Control, Define, Expand, Extern, Op, Param
from weft.ops.table import OPS
from weft.recipes import RECIPES
from weft.rewrite.recipe import Recipe, described
from weft.rewrite.recipes import PIPELINE, RULES
from weft.rewrite.rule import Exactness, Rule
from weft.targets.boards import boards, processor
from weft.targets.find import TARGETS, target
from weft.targets.target import HOLDS, Costs, Issue, Memory, Target, Vectors

ROOT = Path(__file__).parent.parent
NOTE = "<!-- Written by scripts/docs.py from the tables in src/weft; do not edit. -->"


def _computation(compute: Computation) -> str:
    match compute:
        case Define():
            return "an index expression"
        case Expand():
            return "other ops"
        case Extern():
            return "a C body"
        case Control():
            return "its body graph, run repeatedly"
        case _:
            assert_never(compute)


def _parameter(param: Param) -> str:
    text = param.name + ("..." if param.variadic else "")
    return f"[{text}]" if param.optional else text


def _attributes(op: Op) -> str:
    return ", ".join(f"`{each.name}`" for each in fields(op.attributes)) or "none"


def ops_page() -> Iterator[str]:
    """One entry for each op."""
    yield "# Ops"
    yield NOTE
    yield (
        f"{len(OPS.builtin)} ops. Names and semantics follow the newest ONNX operator set; inputs "
        "that determine shapes in ONNX are attributes here. Inputs in brackets are optional. "
        "Element types are "
        + ", ".join(f"`{each.value}`" for each in DType)
        + ", as far as ONNX allows them for the op."
    )
    yield (
        "Reductions to extremes ignore NaN: `ReduceMax`, `ReduceMin`, `MaxPool`, "
        "`GlobalMaxPool`, `MaxRoiPool`, `ArgMax` and `ArgMin`. PyTorch propagates NaN; onnxruntime "
        "ignores it, too, except first in a row or last in a window. Propagating NaN would add "
        "a comparison and a blend to each element: with AVX-512 and data in the L1 cache, "
        "1.4 times the time of a 3 by 3 `MaxPool` and 2 times that of `ReduceMax`. All other ops "
        "propagate NaN, including `Max`, `Min`, `Relu` and `Clip`; comparisons "
        "(`ThresholdedRelu`, `Shrink`) treat it as false."
    )
    for name in sorted(OPS.builtin):
        op = OPS[name]
        inputs = ", ".join(map(_parameter, op.inputs)) or "none"
        outputs = ", ".join(map(_parameter, op.outputs))
        yield f"## {name}\n\n{op.doc}"
        yield (
            f"- inputs: {inputs}\n- outputs: {outputs}\n- attributes: {_attributes(op)}\n"
            f"- computed by {_computation(op.compute)}"
        )


_SAFETY = {
    Exactness.BIT_EXACT: "the same numbers",
    Exactness.REASSOCIATING: "equal over the real numbers, rounding differs",
    Exactness.APPROXIMATE: "not equal over the real numbers; opt-in",
}


def _rule(rule: Rule) -> str:
    pattern = "\n".join(f"    {line}" for line in rule.before.strip().splitlines())
    return (
        f"## {rule.name}\n\n{rule.doc}\n\nBefore:\n\n{pattern}\n\n"
        f"Exactness: {rule.exactness.value} ({_SAFETY[rule.exactness]})."
    )


def rules_page() -> Iterator[str]:
    """One entry for each rule, and the pipeline."""
    yield "# Rewrite rules"
    yield NOTE
    stages = ", ".join(f"*{stage.name}*" for stage in PIPELINE)
    yield (
        f"{len(RULES)} rules. Every model passes the stages {stages}; the rules of a "
        "stage are applied until none applies. [query.md](query.md) describes the pattern "
        "language. `net.rewrite` applies selected rules by name, and custom ones."
    )
    for rule in sorted(RULES, key=lambda rule: rule.name):
        yield _rule(rule)


def _recipe(recipe: Recipe) -> str:
    text = f"## {recipe.name}\n\n{recipe.doc}\n\n"
    for each in described(recipe):
        default = "required" if each.default is None else f"default `{each.default or 'none'}`"
        text += f"- `{each.name}` ({each.kind}; {default}): {each.doc}\n"
    if described(recipe):
        text += "\n"
    return f"{text}Exactness: {recipe.exactness.value} ({_SAFETY[recipe.exactness]})."


def recipes_page() -> Iterator[str]:
    """One entry for each recipe."""
    yield "# Recipes"
    yield NOTE
    yield (
        f"{len(RECIPES)} recipes: named transformations of whole graphs, applied by "
        "`weft apply model.onnx fuse-batch-norm -o fused.onnx` or "
        '`net.apply("fuse-batch-norm")`, which also accepts custom `Recipe` objects. '
        "Several recipes are applied in order; the parameters of each "
        "follow its name: `weft apply model.onnx NAME key=value NAME key=value`. If a "
        "precondition fails, the error states the reason and nothing changes.\n\n"
        "*Bit-exact* sums have the same terms in the same order as the ops' definitions. Networks "
        "compiled with `compile(plain=True)` use that order and give equal bits; optimized kernels "
        "choose an order for each shape, and NumPy for each layout, so the last bits may differ."
    )
    for recipe in RECIPES:
        yield _recipe(recipe)


def _boards() -> Iterator[str]:
    """A table of the memories of boards."""
    yield "| board | processor | MHz | memory | bytes | bytes per cycle | holds |"
    yield "|---|---|---:|---|---:|---:|---|"
    for name in boards():
        row = target(name)
        head = f"`{name}` | `{processor(row)}` | {row.clock or ''}"
        for each in (memory for memory in row.memories if memory.kind != "cache"):
            speed = f"{each.bytes_per_cycle:g}" if each.bytes_per_cycle else ""
            holds = ", ".join(what for what in HOLDS if each.may_hold(what))
            yield f"| {head} | {each.name} | {each.bytes:,} | {speed} | {holds} |"
            head = " | | "


def targets_page() -> Iterator[str]:
    """One row for each target."""
    yield "# Targets"
    yield NOTE
    yield (
        "`host` is the machine that Weft runs on: the best of `x86-sse2`, `x86-avx2`, "
        "`x86-avx512`, `aarch64-neon` and `generic`, with the features, the kind of core and "
        "the cache sizes reported by Linux. An Intel or AMD processor of unknown "
        "model (newer than Weft, or in a virtual machine) counts as the newest "
        "known core whose instructions it has. If its core has a record with vectors of that "
        "width, such as `zen4`, its rates are those of that record: `vectors`, `issue`, "
        "`costs` and the bytes per cycle of `memories`. Its other figures are those of the "
        "row, so the choice of kernels does not depend on measurements. `weft targets NAME` "
        "shows a record."
    )
    rows = ["| target | vector bytes | registers | C | flags | |", "|---|---|---|---|---|---|"]
    for name in TARGETS:
        row = target(name)
        vectors = flavour_named(row.flavour).vectors
        width, registers = (row.vector_bytes, row.registers) if vectors else ("", "")
        flags = " ".join(f"`{flag}`" for flag in row.flags)
        rows.append(f"| `{name}` | {width} | {registers} | `{row.flavour}` | {flags} | {row.doc} |")
    yield "\n".join(rows)
    yield "## Boards"
    yield (
        "`weft export --board NAME` takes the processor and the limits of a record with memory "
        "sizes. The files in `src/weft/targets/data/` name the data sheets. Speeds are bytes per "
        "cycle of the core, where they are known; a network may lie in a memory by the last column."
    )
    yield "\n".join(_boards())
    yield "## Keys of a record"
    yield (
        "A target is a TOML file in `src/weft/targets/data/` or in a plugin "
        '([plugins.md](plugins.md)). `like = "NAME"` inherits from another target: '
        "tables key by key, `memories` by name, in the file's order. Keys without a default are "
        "required, directly or by inheritance. Unknown keys, wrong types and invalid values are "
        "errors that name the file and the key. The older keys `vector_bytes`, `registers`, "
        "`fused` and `held` (now in `vectors`) and `caches` are still accepted."
    )
    yield (
        "Memories with `region = true` hold intermediate values (`stm32f767`): the plan places "
        "each buffer in one of them, with the most traffic per byte in the nearest, and the C "
        "takes a pointer for each. `--region NAME=BYTES` names others or leaves room for the "
        "stack and other data ([plans.md](plans.md))."
    )
    for record, prefix in (
        (Target, ""),
        (Vectors, "vectors."),
        (Issue, "issue."),
        (Memory, "memories."),
        (Costs, "costs."),
    ):
        keys = ["| key | default | |", "|---|---|---|"]
        for name, meaning in _attributes_of(record):
            if prefix or name not in ("name", "core"):
                keys.append(f"| `{prefix}{name}` | {_default(record, name)} | {meaning} |")
        yield "\n".join(keys)


def _attributes_of(record: type) -> Iterator[tuple[str, str]]:
    """Names and meanings, from the docstring."""
    text = cleandoc(record.__doc__ or "").partition("Attributes:\n")[2]
    for name, meaning in re.findall(r"^    (\w+): ((?:.|\n      )+)", text, re.MULTILINE):
        yield name, " ".join(meaning.replace("``", "`").split())


def _default(record: type[Target | Vectors | Issue | Memory | Costs], name: str) -> str:
    (value,) = (each.default for each in fields(record) if each.name == name)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str | float | int):
        return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value else ""
    return "by operation" if name == "operations" else ""


PAGES: tuple[tuple[str, Callable[[], Iterator[str]]], ...] = (
    ("docs/ops.md", ops_page),
    ("docs/rules.md", rules_page),
    ("docs/recipes.md", recipes_page),
    ("docs/targets.md", targets_page),
    ("docs/kernels.md", kernels_page),
    ("docs/keras-coverage.md", keras_page),
    ("docs/query.svg", query_picture),
    ("src/weft/ops/__init__.pyi", stub),
)


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if out of date")
    check = parser.parse_args().check
    stale: list[str] = []
    for name, page in PAGES:
        path, text = ROOT / name, "\n\n".join(page()) + "\n"
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.stderr.write(
            f"{', '.join(stale)} out of date: run `.venv/bin/python scripts/docs.py`\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
