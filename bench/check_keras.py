"""Architectures of ``keras.applications`` with random weights, against Keras.

    python -m bench.check_keras                       all under 30 million parameters, and VGG
    python -m bench.check_keras --names MobileNetV2   these only
    python -m bench.check_keras --folder build/keras  keep one line of JSON each, and go on there

Weights are random with realistic statistics: the initializers' kernels, scales around 1, and means
and variances of batch normalization that a batch of random images gives.  Each is saved as
``.keras`` and read without Keras; then

- every layer is compared with Keras's, over its range, in code that gives all of them;
- the 2nd and the 1000th call must equal the first (fewer calls for large networks);
- the C in C89 must compile with ``-std=c89 -pedantic-errors -Werror``;
- the time from the file to compiled C, with gcc, is measured, nothing cached.

Images have the size of the architecture's default or less (``SIZES``).  Exit code 1 if one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.frontends.keras import Session
from weft.frontends.keras.session import import_keras

ERROR = 1e-4
LARGEST = 30_000_000
ALWAYS = ("VGG16", "VGG19")
SIDE = 96
SIZES = {"NASNetMobile": 224, "VGG16": 224, "VGG19": 224, "InceptionV3": 139}
BUDGET = 20.0
"""Seconds for calls that must equal the first."""


def sizes_of(name: str) -> int:
    """The side of the images."""
    return SIZES.get(name, SIDE)


def model_of(name: str) -> Any:
    """The architecture with random weights."""
    keras = import_keras()
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    side = sizes_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(keras.applications, name)(weights=None, input_shape=(side, side, 3))
        _vary(keras, model)
    return model


def _vary(keras: Any, model: Any) -> None:
    """Realistic statistics: scales and shifts vary, and normalized values are normalized."""
    random = np.random.default_rng(1)
    layers = list(model._flatten_layers(include_self=False))
    for layer in layers:
        for weight in layer.weights:
            shape = weight.shape
            if weight.name == "gamma":
                weight.assign(random.uniform(0.5, 1.5, shape))
            elif weight.name in ("beta", "bias"):
                weight.assign(random.normal(0, 0.1, shape))
    for layer in layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    images = random.uniform(0, 255, (2, *model.input_shape[1:])).astype(np.float32)
    model(images, training=True)
    last = model.layers[-1]
    if isinstance(last, keras.layers.Dense):
        # Logits of trained classifiers are a few units apart, not hundreds.
        features = keras.Model(model.input, last.input)(images, training=False)
        wide = float(keras.ops.std(keras.ops.matmul(features, last.kernel)))
        last.kernel.assign(last.kernel * (3.0 / max(wide, 1e-6)))


def parameters_of(name: str) -> int:
    """How many parameters an architecture has."""
    return int(model_of(name).count_params())


def check(name: str, folder: Path) -> dict[str, object]:
    """What is measured of an architecture."""
    model = model_of(name)
    path = folder / f"{name}.keras"
    model.save(path)
    os.environ["WEFT_CACHE"] = str(folder / "cache")
    image = np.random.default_rng(2).uniform(0, 255, (1, *model.input_shape[1:]))
    image = image.astype(np.float32)
    begin = time.perf_counter()
    run = weft.load(path).compile()
    seconds = time.perf_counter() - begin
    net = weft.load(path)
    kinds = [node.op for node in net.graph.nodes]
    differences = _differences(net, model, image)
    worst = max(differences, key=lambda name: differences[name])
    first, calls = np.array(run(image)), _calls(run, image)
    failed = [
        *["differs"] * (not differences[worst] <= ERROR),
        *["changes"] * (not all(np.array_equal(first, each) for each in calls)),
        *["is not C89"] * (not _is_c89(net, folder / "c89")),
    ]
    return {
        "name": name,
        "side": sizes_of(name),
        "parameters": int(model.count_params()),
        "nodes": len(kinds),
        "transposes": kinds.count("Transpose"),
        "values": len(differences),
        "worst": differences[worst],
        "where": worst,
        "seconds": seconds,
        "calls": len(calls) + 1 if len(calls) < 999 else 1000,
        "failed": failed,
    }


def _differences(net: Any, model: Any, image: np.ndarray) -> dict[str, float]:
    """The difference of every layer, all of them outputs, over the range of what Keras gives."""
    expected = Session(model)({net.graph.inputs[0]: image})
    names = [*net.graph.outputs, *(each for each in expected if each in net.graph.producers)]
    names = list(dict.fromkeys(names))
    made = net.with_outputs(names).compile()(image)
    return {
        name: _away(np.asarray(got), expected[name]) for name, got in zip(names, made, strict=True)
    }


def _away(got: np.ndarray, expected: np.ndarray) -> float:
    scale = max(float(np.ptp(expected)), 1e-6)
    return float(np.abs(got - expected).max()) / scale


def _calls(run: Any, image: np.ndarray) -> list[np.ndarray]:
    """Outputs of further calls: up to the 1000th, as far as the time goes."""
    end = time.perf_counter() + BUDGET
    found = [np.array(run(image))]
    count = 2
    while count < 1000 and time.perf_counter() < end:
        run(image)
        count += 1
    found.append(np.array(run(image)))
    return found + [found[-1]] * (count - 2)


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


def main() -> None:
    """Checks architectures, a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    keras = import_keras()
    every = [name for name in dir(keras.applications) if name[0].isupper()]
    names = given.names or every
    known = _known(given.folder)
    failed = False
    for name in names:
        line = known.get(name)
        if line is None:
            small = given.names or name in ALWAYS or parameters_of(name) < LARGEST
            if not small:
                continue
            with tempfile.TemporaryDirectory() as folder:
                line = check(name, Path(folder))
            if given.folder:
                given.folder.mkdir(parents=True, exist_ok=True)
                (given.folder / f"{name}.json").write_text(json.dumps(line))
        failed |= bool(line["failed"])
        print(json.dumps(line), flush=True)
    sys.exit(failed)


def _known(folder: Path | None) -> dict[str, dict[str, Any]]:
    if folder is None or not folder.is_dir():
        return {}
    lines = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {line["name"]: line for line in lines if not line["failed"]}


if __name__ == "__main__":
    main()
