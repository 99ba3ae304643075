"""The page of Keras layers: from the importer's tables and from the cases of its tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import weft.frontends.keras.rows  # noqa: F401
from weft.frontends.keras.legacy import KNOWN
from weft.frontends.keras.legacy_functions import FUNCTIONS
from weft.frontends.keras.record import LAYERS, OPERATIONS
from weft.frontends.keras.unsupported import REASONS

_TESTED = run_path(str(Path(__file__).parents[1] / "tests" / "frontends" / "keras" / "cases.py"))
CASES, FAMILIES = _TESTED["CASES"], _TESTED["FAMILIES"]


def keras_page() -> Iterator[str]:
    """One row for each layer, those that are not imported with the reason."""
    counts = Counter(case.layer for case in CASES)
    yield "# Layers of Keras"
    yield (
        f"{len(counts)} layers are imported and tested: each in {len(CASES) / len(counts):.0f} "
        "configurations on average, with random weights, value by value against Keras 3, read from "
        "`.keras` and `.h5`. [keras.md](keras.md) says how models are read."
    )
    for family in FAMILIES:
        yield f"## {family}"
        rows = ["| layer | tested configurations |", "|---|---|"]
        for name in dict.fromkeys(case.layer for case in FAMILIES[family]):
            rows.append(f"| {_named(name)} | {counts[name]} |")
        yield "\n".join(rows)
    others = sorted(set(LAYERS) - {each for name in counts for each in _names(name)})
    yield "## Imported without a case of their own"
    yield (
        "What Keras 3 does not have, or what other tests contain: "
        + ", ".join(f"`{name}`" for name in others)
        + ". Layers of random augmentation do nothing in inference."
    )
    yield "## Operations"
    yield (
        f"{len(OPERATIONS)} functions of `keras.ops` between layers, each tested against Keras 3: "
        + ", ".join(f"`{name}`" for name in sorted(OPERATIONS))
        + "."
    )
    names = {name.removeprefix("compat.v1.") for name in (*KNOWN, *FUNCTIONS)}
    yield (
        "Functions of TensorFlow in models of Keras 2 (`TFOpLambda`, and slices), some of them as "
        "`tf.compat.v1`, too: " + ", ".join(f"`tf.{name}`" for name in sorted(names)) + "."
    )
    yield "## Not imported"
    rows = ["| layer | reason |", "|---|---|"]
    yield "\n".join([*rows, *(f"| `{name}` | {why} |" for name, why in sorted(REASONS.items()))])


def _names(name: str) -> list[str]:
    """A layer's name and the others that it has."""
    return [each for each, row in LAYERS.items() if row is LAYERS[name]]


def _named(name: str) -> str:
    others = [each for each in _names(name) if each != name]
    shared = len(others) > 4  # one row for many layers
    return f"`{name}`" + (
        "" if shared or not others else f" (also {', '.join(f'`{each}`' for each in others)})"
    )
