"""Exports well-known networks to ONNX with PyTorch's two exporters, outside the repository.

    python -m bench.zoo                      the default networks, smallest first
    python -m bench.zoo resnet18 lstm        these only
    python -m bench.zoo --list               every name
    python -m bench.zoo all                  every name (hours, tens of gigabytes)
    python -m bench.zoo architectures        46 families of `transformers` at tiny sizes (`hf_...`)
                                             and 60 networks of `timm` (`timm_...`)

It needs `torch` and `torchvision` (`pip install --no-deps torchvision` suffices), onnxscript,
onnxruntime and pillow.  The folder is `$WEFT_ZOO`, by default `~/.cache/weft/zoo`:

    NAME.ts.onnx            TorchScript exporter, which folds batch norms into convolutions
    NAME.ts-bn.onnx         the same with batch norms left in (a few networks)
    NAME.ts-batch.onnx      the same as `ts` with a symbolic batch axis (a few networks)
    NAME.dynamo.onnx        the dynamo exporter
    NAME.dynamo-batch.onnx  with a symbolic batch axis (a few networks)
    NAME.npz                `x` (batch 1) and `y`, onnxruntime's output
    NAME.batch.npz          the same with batch 3, for the `-batch` variants
    NAME.json               what worked, sizes, and the difference from PyTorch

The weights are random but seeded and have realistic statistics: batch norms have seen data, and
whatever starts as a constant (biases, norm scales, class tokens) does not stay one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from bench.architectures import ARCHITECTURES, VOCABULARY, Architecture
from bench.families import MEMBERS, Member
from bench.folders import zoo_folder
from bench.oracle import by_onnxruntime
from bench.sounds import ConvTasNet, WaveNet

SEED = 20261121
BATCH = 3
TORCHSCRIPT_OPSET = 17


def import_torchvision():
    """Imports torchvision's networks, with or without its compiled operators."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    found = find_spec("torchvision")
    for folder in found.submodule_search_locations or () if found else ():
        for compiled in Path(folder).glob("_C.*"):
            # A build for another PyTorch does not load; torchvision goes on without, too.
            with contextlib.suppress(OSError):
                torch.ops.load_library(str(compiled))
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The operators come first.
        import torchvision.models as networks  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    return networks, library


vision, _operators = import_torchvision()


# --- networks that torchvision lacks ----------------------------------------------------------


class LeNet5(nn.Sequential):
    """LeCun et al. 1998, with a plain last layer."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.Tanh(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, 10),
        )


class RecurrentClassifier(nn.Module):
    """Two recurrent layers and a linear layer on the last step."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], bidirectional: bool = False) -> None:
        super().__init__()
        self.recurrent = kind(64, 128, num_layers=2, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(256 if bidirectional else 128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.recurrent(x)
        return self.head(steps[:, -1])


class Recurrent(nn.Module):
    """Two recurrent layers of 256 units: what they make of every step."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], bidirectional: bool = False) -> None:
        super().__init__()
        self.recurrent = kind(256, 256, num_layers=2, batch_first=True, bidirectional=bidirectional)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.recurrent(x)[0]


class Dense(nn.Sequential):
    """Linear layers of one width with ReLUs in between: weights are all that there is to move."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        for layer in range(layers):
            if layer:
                self.append(nn.ReLU())
            self.append(nn.Linear(width, width))


def redrawn(encoder: nn.TransformerEncoder) -> nn.TransformerEncoder:
    """The encoder with weights of its own in each layer, which PyTorch makes as copies of one."""
    for parameter in encoder.layers.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return encoder


class Encoder(nn.Module):
    """`nn.TransformerEncoder` on ready embeddings, mean over the steps, a linear layer."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, activation="gelu", batch_first=True
        )
        self.encoder = redrawn(nn.TransformerEncoder(layer, layers, enable_nested_tensor=False))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x).mean(dim=1))


class Bert(nn.Module):
    """An encoder of BERT-base's size: token and position embeddings, 12 layers, the pooler."""

    def __init__(self, steps: int = 128, width: int = 768) -> None:
        super().__init__()
        self.tokens = nn.Embedding(30522, width)
        self.positions = nn.Parameter(torch.randn(1, steps, width) * 0.02)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        layer = nn.TransformerEncoderLayer(
            width, 12, 4 * width, activation="gelu", batch_first=True
        )
        self.encoder = redrawn(nn.TransformerEncoder(layer, 12, enable_nested_tensor=False))
        self.pooler = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(self.norm(self.tokens(x) + self.positions))
        return torch.tanh(self.pooler(hidden[:, 0]))


# --- inputs -----------------------------------------------------------------------------------


def images(size: int | tuple[int, int], channels: int = 3) -> Callable[[int], torch.Tensor]:
    """Smooth noise at several scales plus a little white noise, of about unit variance."""
    sides = (size, size) if isinstance(size, int) else size

    def make(batch: int) -> torch.Tensor:
        total = 0.3 * torch.randn(batch, channels, *sides)
        for coarse in (4, 16):
            noise = torch.randn(batch, channels, coarse, coarse)
            total += 0.8 * nn.functional.interpolate(noise, sides, mode="bilinear")
        return total

    return make


def sequences(steps: int, width: int) -> Callable[[int], torch.Tensor]:
    return lambda batch: torch.randn(batch, steps, width)


def vectors(width: int) -> Callable[[int], torch.Tensor]:
    return lambda batch: torch.randn(batch, width)


def samples(length: int) -> Callable[[int], torch.Tensor]:
    return lambda batch: torch.randn(batch, 1, length)


def frames(number: int, size: int) -> Callable[[int], torch.Tensor]:
    """Still images, which `number` frames show with noise of their own."""

    def make(batch: int) -> torch.Tensor:
        still = images(size)(batch).unsqueeze(2)
        return still + 0.3 * torch.randn(batch, 3, number, size, size)

    return make


def token_ids(steps: int, vocabulary: int = 30522) -> Callable[[int], torch.Tensor]:
    return lambda batch: torch.randint(0, vocabulary, (batch, steps))


# --- the table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A network: how it is built, what it eats, and which extra variants are exported."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int], torch.Tensor]
    with_batch_norms: bool = False
    with_symbolic_batch: bool = False
    with_dynamo: bool = True


OWN: dict[str, Entry] = {
    "lenet5": Entry(LeNet5, images(28, 1), with_symbolic_batch=True),
    "lstm": Entry(
        lambda: RecurrentClassifier(nn.LSTM), sequences(32, 64), with_symbolic_batch=True
    ),
    "gru": Entry(lambda: RecurrentClassifier(nn.GRU), sequences(32, 64)),
    "bilstm": Entry(lambda: RecurrentClassifier(nn.LSTM, True), sequences(32, 64)),
    "lstm_256": Entry(lambda: Recurrent(nn.LSTM), sequences(100, 256)),
    "gru_256": Entry(lambda: Recurrent(nn.GRU), sequences(100, 256)),
    "bilstm_256": Entry(lambda: Recurrent(nn.LSTM, True), sequences(100, 256)),
    "transformer": Entry(lambda: Encoder(256, 4, 4), sequences(128, 256), with_symbolic_batch=True),
    "bert": Entry(Bert, token_ids(128)),
    "mlp_8192": Entry(lambda: Dense(8192, 3), vectors(8192), with_dynamo=False),
    "wavenet": Entry(WaveNet, samples(4000), with_dynamo=False),
    "conv_tasnet": Entry(ConvTasNet, samples(4000), with_dynamo=False),
    "r3d_18": Entry(lambda: vision.get_model("r3d_18"), frames(16, 112), with_dynamo=False),
}

DEFAULT = (
    "lenet5",
    "squeezenet1_1",
    "mobilenet_v2",
    "resnet18",
    "lstm",
    "gru",
    "transformer",
    "bilstm",
    "shufflenet_v2_x1_0",
    "mnasnet1_0",
    "resnet50",
    "efficientnet_b0",
    "densenet121",
    "convnext_tiny",
    "swin_t",
    "vit_b_16",
    "vgg16",
)
WITH_BATCH_NORMS = {"resnet18", "resnet50", "mobilenet_v2", "densenet121", "efficientnet_b0"}
WITH_SYMBOLIC_BATCH = {"resnet18", "mobilenet_v2", "vit_b_16"}
# torchvision warns about, or spends minutes on, initial weights and extra heads.
VISION_OPTIONS: dict[str, dict[str, object]] = {
    "googlenet": {"init_weights": False, "aux_logits": False},
    "inception_v3": {"init_weights": False},
}
VISION_SIZES = {"inception_v3": 299}


def names() -> list[str]:
    """Every network's name, the default ones first."""
    others = [*OWN, *MEMBERS, *vision.list_models(module=vision), *ARCHITECTURES]
    return [*DEFAULT, *sorted(set(others) - set(DEFAULT))]


def eaten(what: Architecture) -> Callable[[int], torch.Tensor]:
    """What an architecture of another library takes."""
    if what.eats == "tokens":
        return token_ids(what.sizes[0], VOCABULARY)
    if what.eats == "image":
        return images(*what.sizes)
    sizes = tuple(what.sizes)
    return lambda batch: torch.randn((batch, *sizes))


def taken(what: Member) -> Callable[[int], torch.Tensor]:
    """What a network of the forty takes."""
    if not what.image:
        return token_ids(*what.words)
    channels, *sides = what.image
    return images((sides[0], sides[1]), channels)


def entry(name: str) -> Entry:
    if name in OWN:
        return OWN[name]
    if name in MEMBERS:
        return Entry(MEMBERS[name].build, taken(MEMBERS[name]), with_dynamo=False)
    if name in ARCHITECTURES:
        what = ARCHITECTURES[name]
        return Entry(what.build, eaten(what), with_dynamo=name.startswith("hf_"))
    return Entry(
        lambda: vision.get_model(name, weights=None, **VISION_OPTIONS.get(name, {})),
        images(VISION_SIZES.get(name, 224)),
        name in WITH_BATCH_NORMS,
        name in WITH_SYMBOLIC_BATCH,
    )


# --- realistic weights ------------------------------------------------------------------------


def vary_constants(module: nn.Module) -> None:
    """Gives noise to every parameter that starts as a constant."""
    for parameter in module.parameters():
        if parameter.numel() < 2 or parameter.min() != parameter.max():
            continue
        if parameter.flatten()[0] == 0:
            nn.init.normal_(parameter, std=0.1)
        elif parameter.flatten()[0] < 0.01:  # layer scale, 1e-6 before training
            nn.init.uniform_(parameter, 0.1, 0.3)
        else:
            nn.init.uniform_(parameter, 0.6, 1.4)


def settle_batch_norms(module: nn.Module, run: Callable[[], object], batches: int = 3) -> None:
    """Runs random batches in training mode so that running statistics are the data's."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # a plain average over the batches
    module.train()
    for _ in range(batches):
        run()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


@torch.no_grad()
def build(name: str) -> tuple[nn.Module, Entry]:
    """The network with its weights, in evaluation mode; the same on every call."""
    torch.manual_seed(SEED)
    what = entry(name)
    module = what.build()
    vary_constants(module)
    settle_batch_norms(module, lambda: module(what.inputs(8)))
    return module.eval().requires_grad_(False), what


# --- export -----------------------------------------------------------------------------------


def export_torchscript(
    module: nn.Module, x: torch.Tensor, path: Path, *, batch: bool = False, norms: bool = False
) -> None:
    mode = torch.onnx.TrainingMode
    torch.onnx.export(
        module,
        (x,),
        str(path),
        dynamo=False,
        opset_version=TORCHSCRIPT_OPSET,
        input_names=["x"],
        output_names=["y"],
        training=mode.PRESERVE if norms else mode.EVAL,
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}} if batch else None,
    )


def export_dynamo(module: nn.Module, x: torch.Tensor, path: Path, *, batch: bool = False) -> None:
    torch.onnx.export(
        module,
        (x,),
        str(path),
        dynamo=True,
        external_data=False,
        verbose=False,
        input_names=["x"],
        output_names=["y"],
        dynamic_shapes=({0: torch.export.Dim("batch")},) if batch else None,
    )


Job = tuple[str, Callable[[nn.Module, torch.Tensor, Path], None]]


def jobs(what: Entry) -> Iterator[Job]:
    yield "ts", export_torchscript
    if what.with_batch_norms:
        yield "ts-bn", lambda m, x, p: export_torchscript(m, x, p, norms=True)
    if what.with_dynamo:
        yield "dynamo", export_dynamo
    if what.with_symbolic_batch:
        yield "ts-batch", lambda m, x, p: export_torchscript(m, x, p, batch=True)
        yield "dynamo-batch", lambda m, x, p: export_dynamo(m, x, p, batch=True)


def relative_difference(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@torch.no_grad()
def export_one(
    job: Job, name: str, module: nn.Module, samples: dict[int, torch.Tensor], out: Path
) -> dict[str, object]:
    """Exports one variant and compares onnxruntime with PyTorch; failures are results too."""
    variant, export = job
    batch = BATCH if variant.endswith("-batch") else 1
    x = samples[batch]
    part = out / f".{os.getpid()}.{name}.{variant}.onnx"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export(module, x, part)
        got = by_onnxruntime(part, x.numpy())
    except Exception as error:  # noqa: BLE001 (whatever an exporter raises is the finding)
        part.unlink(missing_ok=True)
        return {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
    expected = module(x).numpy()
    part.chmod(0o644)
    part.rename(out / f"{name}.{variant}.onnx")
    golden = out / (f"{name}.batch.npz" if batch > 1 else f"{name}.npz")
    if variant.startswith("ts") or not golden.exists():
        np.savez(golden, x=x.numpy(), y=got)
    return {
        "difference": relative_difference(got, expected),
        "bytes": (out / f"{name}.{variant}.onnx").stat().st_size,
    }


def export_network(name: str, out: Path) -> dict[str, dict[str, object]]:
    """Exports every variant of a network and writes its goldens and its JSON."""
    start = time.monotonic()
    module, what = build(name)
    samples = {1: what.inputs(1), BATCH: what.inputs(BATCH)}
    for batch in (1, BATCH):
        (out / (f"{name}.batch.npz" if batch > 1 else f"{name}.npz")).unlink(missing_ok=True)
    results = {job[0]: export_one(job, name, module, samples, out) for job in jobs(what)}
    record = {"variants": results, "seconds": round(time.monotonic() - start, 1)}
    (out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return results


# --- command line -----------------------------------------------------------------------------


def cell(result: dict[str, object]) -> str:
    return str(result.get("error") or f"ok, {result['difference']:.0e} from PyTorch")


def table(out: Path) -> str:
    """A Markdown table of all that the folder holds."""
    rows = ["| network | variant | result |", "|---|---|---|"]
    for name in names():
        path = out / f"{name}.json"
        if not path.exists():
            continue
        for variant, result in json.loads(path.read_text())["variants"].items():
            rows.append(f"| {name} | {variant} | {cell(result)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="networks (default: the usual ones), `architectures`, or `all`"
    )
    parser.add_argument("--out", type=Path, default=zoo_folder())
    parser.add_argument("--force", action="store_true", help="export again what is there")
    parser.add_argument("--list", action="store_true", help="print every name and stop")
    arguments = parser.parse_args()
    if arguments.list:
        print(*names(), sep="\n")
        return
    groups = {"all": names(), "architectures": list(ARCHITECTURES)}
    asked = arguments.names or list(DEFAULT)
    wanted = [name for each in asked for name in groups.get(each, [each])]
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        parser.error(f"no such network: {', '.join(unknown)} (see --list)")
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # the fast path has no ONNX equivalent
    for name in wanted:
        if arguments.force or not (arguments.out / f"{name}.json").exists():
            for variant, result in export_network(name, arguments.out).items():
                print(f"{name:20} {variant:12} {cell(result)}", flush=True)
    print(table(arguments.out))


if __name__ == "__main__":
    main()
