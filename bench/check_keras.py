"""Architectures of ``keras.applications`` with random weights, against Keras.

    python -m bench.check_keras                       all under 30 million parameters, and VGG
    python -m bench.check_keras --names MobileNetV2   these only
    python -m bench.check_keras --folder build/keras  keep one line of JSON each, and go on there
    python -m bench.check_keras --weights settled     with the statistics of trained networks
    python -m bench.check_keras --weights trained --names InceptionV3
                                                      trained for some steps before
    python -m bench.check_keras --folder build/keras --table docs/keras-architectures.md

The last runs nothing and writes the table of what the folder has.

Weights are random: those that Keras draws, or with the statistics of trained networks, or after a
short training on scikit-learn's digits (`bench.keras_weights`).
Each network is saved as ``.keras`` and read without Keras; then

- every layer is compared with Keras's, over its range, in code that gives all of them, and both
  with Keras in double precision, which says what of the difference is rounding;
- every step is compared with the reference given the values that the step read: its own error;
- all calls must give the bits of the first, whatever scratch memory held;
- the C in C89 must compile with ``-std=c89 -pedantic-errors -Werror``.

Images have the size of the architecture's default or less (``SIZES``).  Exit code 1 if one fails.
`KERAS_BACKEND` chooses what Keras runs on (`tensorflow`, `jax`, `torch`).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import weft
from bench.keras_weights import BATCH, KINDS, STEPS, digits_of, images_of, model_of, sizes_of
from weft.frontends.keras import Session
from weft.frontends.keras.session import import_keras

ERROR = 1e-4
CONSTANT = 2.0**-9
"""A range below this part of the magnitude is rounded by more than `ERROR` of it."""
LARGEST = 30_000_000
ALWAYS = ("VGG16", "VGG19")


def parameters_of(name: str) -> int:
    """How many parameters an architecture has."""
    return int(model_of(name).count_params())


def check(name: str, folder: Path, weights: str) -> dict[str, object]:
    """What is measured of an architecture, with weights of one of the ``KINDS``."""
    model = model_of(name, weights)
    path = folder / f"{name}.keras"
    model.save(path)
    os.environ["WEFT_CACHE"] = str(folder / "cache")
    # What no normalization has seen would grow through networks of random weights.
    digits = weights == "trained"
    seen = digits_of(name, BATCH, STEPS)[0] if digits else images_of(name, BATCH)
    image = seen[:1]
    net = weft.load(path)
    kinds = [node.op for node in net.graph.nodes]
    expected = Session(model)({net.graph.inputs[0]: image})
    run = _run(net, image, expected)
    made = {key: run.found[key] for key in expected if key in run.found}
    own = max(run.own(), key=lambda each: each.relative)
    differences = {key: _away(value, expected[key]) for key, value in made.items()}
    worst = max(differences, key=lambda name: differences[name])
    exact = _in_double(name, model, image)
    failed = [
        *["differs"] * (not differences[worst] <= ERROR),
        *["is wrong"] * (not own.relative <= ERROR),
        *["changes"] * (not _is_steady(net.compile(), image)),
        *["is not C89"] * (not _is_c89(net, folder / "c89")),
    ]
    return {
        "name": name,
        "weights": weights,
        "side": sizes_of(name),
        "parameters": int(model.count_params()),
        "backend": import_keras().backend.backend(),
        "nodes": len(kinds),
        "transposes": kinds.count("Transpose"),
        "values": len(differences),
        "worst": differences[worst],
        "where": worst,
        "own": own.relative,
        "introduced": own.value,
        "weft": max(_away(value, exact[key]) for key, value in made.items()),
        "keras": max(_away(expected[key], exact[key]) for key in made),
        "failed": failed,
    }


def _run(net: Any, image: np.ndarray, known: Mapping[str, np.ndarray]) -> Any:
    """A run that gives every layer, all of them outputs."""
    names = [*net.graph.outputs, *(each for each in known if each in net.graph.producers)]
    net = net.with_outputs(list(dict.fromkeys(names)))
    return net.run_steps(image, oracle=lambda inputs, values: known)


def _in_double(name: str, model: Any, image: np.ndarray) -> dict[str, np.ndarray]:
    """What Keras gives for every layer in double precision."""
    keras, single = import_keras(), model.get_weights()
    keras.utils.clear_session()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        double = getattr(keras.applications, name)(weights=None, input_shape=image.shape[1:])
        double.set_weights([each.astype(np.float64) for each in single])
        made = Session(double)({double.inputs[0].name: image.astype(np.float64)})
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
    return made


def _away(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the range, or over `CONSTANT` of the largest magnitude."""
    scale = max(float(np.ptp(expected)), CONSTANT * float(np.abs(expected).max()), 1e-30)
    return float(np.abs(got - expected).max()) / scale


def _is_steady(run: Any, image: np.ndarray) -> bool:
    """Whether all calls give the bits of the first, whatever its scratch memory held.

    A call reads nothing that changes but its scratch memory.  Where two calls leave it alike, all
    that follow begin as the second did.  Where they do not, a thousand are made.
    """
    library = run.library
    inputs = [np.ascontiguousarray(image)]
    outputs = [np.empty(port.shape, port.dtype.numpy) for port in library.outputs]
    _, arguments = library.entry(inputs, outputs)
    place = arguments[len(inputs) + len(outputs)]
    size = library.built.arena_bytes
    scratch = np.frombuffer((ctypes.c_uint8 * size).from_address(place), np.uint8)
    first = [np.array(each) for each in library(*inputs)]
    scratch[:] = 0xFF  # not a number
    states = list[np.ndarray]()
    for number in range(2, 1001):
        made = library(*inputs)
        if not all(np.array_equal(one, other) for one, other in zip(first, made, strict=True)):
            return False
        if number <= 3:
            states.append(np.array(scratch))
        if number >= 3 and np.array_equal(states[0], states[1]):
            break
    return True


def _is_c89(net: Any, folder: Path) -> bool:
    net.export(folder, flavour="c89", weights="blob")
    flags = ["-std=c89", "-pedantic-errors", "-Werror", "-O0", "-c"]
    sources = sorted(each for each in folder.rglob("*.c") if "test" not in each.name)
    return bool(sources) and all(
        subprocess.run(
            ["gcc", *flags, f"-I{each.parent}", "-o", os.devnull, str(each)], check=False
        ).returncode
        == 0
        for each in sources
    )


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """A page of Markdown, a row for each architecture."""
    every = sorted(lines, key=lambda line: str(line["name"]))
    page = [
        "# Architectures of Keras",
        "",
        "Written by `python -m bench.check_keras --folder FOLDER --table FILE`. Random weights,",
        "read from `.keras` without Keras; every layer against Keras 3 on the backend named.",
        "",
        f"- *difference*: the largest of any layer, over its range; at most {ERROR:.0e} passes. Of",
        "  layers that are nearly constant, over a 512th of the largest magnitude: a unit in the",
        "  last place is up to 6e-5 of that.",
        "- *own*: the largest error of any step given its own inputs, over its range, from the",
        "  reference: what steps introduce themselves; the rest is inherited.",
        "- *Weft, Keras from double*: the largest difference of each from Keras in double",
        "  precision: what rounding costs, which networks of random weights amplify.",
        "- *C89*: all C compiles with `-std=c89 -pedantic-errors -Werror`.",
        "- *calls*: all later calls give the bits of the first, whatever scratch memory held.",
    ]
    for weights in KINDS:
        rows = [line for line in every if line["weights"] == weights]
        if rows:
            good = sum(not line["failed"] for line in rows)
            title, about = _TITLES[weights]
            passed = f"{good} of {len(rows)} pass. {about}"
            page += ["", f"## {title}", "", passed, "", *_rows(rows)]
    return "\n".join(page) + "\n"


_TITLES = {
    "initial": ("Weights that Keras draws", "They are those of `weights=None`."),
    "settled": (
        "With the statistics of trained networks",
        "Scales, shifts and statistics are as wide as those of trained networks, which makes deep "
        "ones of random kernels chaotic (`--weights settled`).",
    ),
    "trained": (
        "After a short training",
        f"The same, trained for {STEPS} steps on scikit-learn's digits, and given one "
        "(`--weights trained`).",
    ),
}


def _rows(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """A table, a row for each line."""
    page = [
        "| architecture | image | parameters | backend | difference | at | own | Weft from double "
        "| Keras from double | C89 | calls |",
        "|---|---|---:|---|---:|---|---:|---:|---:|---|---|",
    ]
    for line in lines:
        failed = line["failed"]
        cells = [
            line["name"],
            f"{line['side']} x {line['side']}",
            f"{line['parameters'] / 1e6:.1f} M",
            line["backend"],
            f"{line['worst']:.1e}" + (" **fails**" if "differs" in failed else ""),
            f"`{line['where']}`",
            f"{line['own']:.1e}" + (" **fails**" if "is wrong" in failed else ""),
            *(f"{line[key]:.1e}" for key in ("weft", "keras")),
            "no" if "is not C89" in failed else "yes",
            "differ" if "changes" in failed else "equal",
        ]
        page.append(f"| {' | '.join(cells)} |")
    return page


def main() -> None:
    """Checks architectures, a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--weights", choices=KINDS, default="initial")
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    known = _known(given.folder)
    if given.table:
        given.table.write_text(table(known.values()))
        return
    # For Keras on JAX, which has no double precision otherwise.
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    keras = import_keras()
    every = [name for name in dir(keras.applications) if name[0].isupper()]
    names = given.names or every
    failed = False
    for name in names:
        key = f"{name}-{given.weights}"
        line = known.get(key)
        if line is None or line["failed"]:
            small = given.names or name in ALWAYS or parameters_of(name) < LARGEST
            if not small:
                continue
            with tempfile.TemporaryDirectory() as folder:
                line = check(name, Path(folder), given.weights)
            if given.folder:
                given.folder.mkdir(parents=True, exist_ok=True)
                (given.folder / f"{key}.json").write_text(json.dumps(line))
        failed |= bool(line["failed"])
        print(json.dumps(line), flush=True)
    sys.exit(failed)


def _known(folder: Path | None) -> dict[str, dict[str, Any]]:
    if folder is None or not folder.is_dir():
        return {}
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


if __name__ == "__main__":
    main()
