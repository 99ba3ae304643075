"""File formats: what reads each, and the graph of a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from weft.deferred import later
from weft.errors import UserError
from weft.frontends import keras, litert, onnx, saved_model
from weft.frontends.foreign import refused
from weft.garbage import rare_collection
from weft.ir.graph import Graph
from weft.ir.native import load as load_native
from weft.ir.verify import violations
from weft.ops.evaluate import call_of
from weft.ops.resolve import resolved
from weft.ops.rounding import FLOAT, ROUNDINGS
from weft.ops.table import OPS
from weft.plugins import Kind, Table, Unusable, called
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.recipes import apply
else:
    # Recipes take 0.1 s to import.
    apply = later("weft.recipes").apply

NATIVE = ".weft"
_OWN = frozenset({".onnx", ".keras", ".h5", ".hdf5", ".tflite", NATIVE})


Values: TypeAlias = Mapping[str, np.ndarray]
"""Arrays by the names of values."""


@dataclass(frozen=True)
class Framework:
    """The framework that a format comes from, as an oracle for `weft verify`.

    Attributes:
        name: for users: ``onnxruntime``.
        installed: whether it can be imported.
        opened: makes a function that runs a file, from its path and the names of the values that
            are wanted beside the outputs, and the name of a function, empty if none was chosen;
            from inputs by name the function gives the outputs, and those of the values that the
            framework has.
        layers: whether everything that it has is compared as an output of the network, since
            fused code keeps few of the values.
        rounds: whether its kernels for quantized values compute in integers: those of Weft may
            differ by a step, so that operators are compared one by one.
    """

    name: str
    installed: Callable[[], bool]
    opened: Callable[[Path, Collection[str], str], Callable[[Values], Values]]
    layers: bool = False
    rounds: bool = False


@dataclass(frozen=True)
class Frontend:
    """A file format.

    Attributes:
        suffixes: of the files' names, with the point.
        read: makes the graph of a file; ``UserError`` says what is wrong with it.
        doc: one sentence: which files.
        alone: whether a file holds all that its graph is made from, or a function of the path
            that says so.  Then a network that was built from it before runs without reading it
            again.
        open: whether ``read`` also takes shapes of inputs and values of inputs, by name.
        framework: what else runs such files.
        signatures: whether files may offer several functions; ``read`` then takes the name of one.
        dynamic: whether files may have layers that quantize their inputs as they run; ``read`` then
            takes ``float_activations``, which says that they do not.
        rounding: of quantized layers, if not asked for otherwise: ``litert`` or ``onnx``.
        batch: the name under which ``read`` takes the size of a batch that the file leaves open.
        states: by input of the graph that is a state, the output that is its next value; from the
            path and the name of a function.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., Graph]
    doc: str
    alone: bool | Callable[[Path], bool] = False
    open: bool = False
    framework: Framework | None = None
    signatures: bool = False
    dynamic: bool = False
    rounding: str = ""
    batch: str = ""
    states: Callable[[Path, str], Mapping[str, str]] | None = None


def _read_onnx(
    path: Path, inputs: Mapping[str, tuple[int, ...]], constants: Mapping[str, np.ndarray]
) -> Graph:
    try:
        try:
            return onnx.load(path, inputs, constants)
        except onnx.NoModelError as error:
            raise refused(path, error) from error
    except UserError as error:
        why = FRONTENDS.why_missing() if path.suffix.lower() != ".onnx" else ""
        if not why:
            raise
        fix = f"{error.fix} {why}".strip()
        raise UserError(error.rule, got=error.got, fix=fix, where=error.where) from error


def _read_keras(
    path: Path, inputs: Mapping[str, tuple[int, ...]], constants: Mapping[str, np.ndarray]
) -> Graph:
    try:
        return keras.load(path, inputs, constants)
    except keras.NoModelError as error:
        raise refused(path, error) from error


def _read_litert(
    path: Path,
    inputs: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, np.ndarray],
    signature: str = "",
    float_activations: bool = False,
) -> Graph:
    try:
        return litert.load(path, inputs, constants, signature, float_activations=float_activations)
    except litert.NoModelError as error:
        raise refused(path, error) from error


def _read_native(path: Path) -> Graph:
    try:
        return load_native(path, _attribute_class)
    except UserError as error:
        raise refused(path, error) from error


def _accept(name: str, part: object) -> Frontend:
    if not isinstance(part, Frontend):
        what = type(part).__name__
        raise Unusable(f"it must be a Frontend of weft.frontends.source, but is {what}")
    for suffix in part.suffixes:
        if not suffix.startswith(".") or (suffix.lower() in _OWN and name not in _BUILTIN):
            raise Unusable(f"a suffix must be .name, and not of Weft's own, but is {suffix!r}")
    return part


_ONNX = Frontend(
    (".onnx",),
    _read_onnx,
    "ONNX models.",
    alone=lambda path: not onnx.has_external_data(path),
    open=True,
    rounding="onnx",
    framework=Framework(
        "onnxruntime",
        lambda: onnx.has_onnxruntime(),
        lambda path, values, _: onnx.Session(path, values),
        rounds=True,
    ),
)
_KERAS = Frontend(
    (".keras", ".h5", ".hdf5"),
    _read_keras,
    "Keras models: `.keras`, and `.h5` with the layers in it.",
    alone=True,
    open=True,
    framework=Framework(
        "Keras",
        lambda: keras.has_keras(),
        lambda path, values, _: keras.Session(path, values),
        layers=True,
    ),
    batch="batch",
    states=lambda path, _: keras.states(path),
)
_LITERT = Frontend(
    (".tflite",),
    _read_litert,
    "LiteRT (TensorFlow Lite) models.",
    alone=True,
    open=True,
    framework=Framework(
        "LiteRT",
        lambda: litert.has_interpreter(),
        lambda path, values, signature: litert.Session(path, values, signature),
        rounds=True,
    ),
    signatures=True,
    dynamic=True,
    rounding="litert",
    states=lambda path, signature: litert.states(path, signature),
)
_SAVED_MODEL = Frontend(
    (),
    saved_model.load,
    "Folders of TensorFlow SavedModels, where TensorFlow is installed.",
    open=True,
)
_BUILTIN = {
    "onnx": _ONNX,
    "keras": _KERAS,
    "litert": _LITERT,
    "saved_model": _SAVED_MODEL,
    "weft": Frontend((NATIVE,), _read_native, "Graphs that `Net.save` wrote.", alone=True),
}
FRONTENDS: Table[Frontend] = Table(Kind.FRONTENDS, _BUILTIN, _accept)
"""Every format, those of plugins too."""


def frontend_of(path: Path) -> Frontend:
    """What reads a file, by the suffix of its name; ONNX's if nothing else does."""
    if saved_model.is_saved_model(path) and saved_model.has_tensorflow():
        return _SAVED_MODEL
    suffix = path.suffix.lower()
    for each in _BUILTIN.values():
        if suffix in each.suffixes:
            return each
    takers = [each for each in FRONTENDS.loaded if suffix in map(str.lower, each.part.suffixes)]
    if len(takers) > 1:
        raise UserError(
            f"one plugin must read {suffix} files",
            got=" and ".join(str(each.plugin) for each in takers),
            fix="Uninstall all but one.",
        )
    return takers[0].part if takers else _ONNX


def states_of(path: Path, signature: str = "") -> tuple[tuple[str, str], ...]:
    """Inputs of a file's graph that are states, and the outputs that are their next values."""
    found = frontend_of(path).states
    return tuple(found(path, signature).items()) if found is not None else ()


@rare_collection()
def read(
    path: Path,
    inputs: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, np.ndarray],
    signature: str = "",
    *,
    float_activations: bool = False,
    rounding: str = "",
) -> Graph:
    """The graph of a file, its quantized layers in integers.

    Args:
        path: the file.
        inputs: shapes of graph inputs, for formats that leave some open.
        constants: values of graph inputs, for the same formats.
        signature: the function to read, for formats that have several in a file.
        float_activations: whether layers whose weights alone are integers compute in float, for
            formats in which they quantize their inputs.
        rounding: of quantized layers: ``litert``, ``onnx``, or ``float`` for layers in float; that
            of the format if not given.

    Raises:
        UserError: there is no graph in the file.
    """
    if rounding not in ("", *ROUNDINGS):
        raise UserError(f"rounding must be {', '.join(ROUNDINGS)}", got=repr(rounding))
    graph = _read(path, inputs, constants, signature, float_activations)
    chosen = rounding or frontend_of(path).rounding
    if chosen in ("", FLOAT) or not any(node.op == "QuantizeLinear" for node in graph.nodes):
        return graph
    return apply(graph, "integers", {"rounding": chosen})


def _read(
    path: Path,
    inputs: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, np.ndarray],
    signature: str,
    float_activations: bool,
) -> Graph:
    """The graph as it is in the file."""
    found = frontend_of(path)
    if path.is_dir() and found is not _SAVED_MODEL:
        raise refused(path, UserError("expected the path of a network"))
    if found.dynamic:
        return resolved(
            found.read(path, inputs, constants, signature, float_activations=float_activations)
        )
    if float_activations:
        raise UserError(
            f"{path.suffix} files have no layers that quantize their inputs as they run",
            got=path.name,
            fix="Leave out float_activations.",
        )
    if found.signatures:
        return resolved(found.read(path, inputs, constants, signature))
    if signature:
        raise UserError(f"{path.suffix} files have no signatures", got=signature)
    if found.open:
        return resolved(found.read(path, inputs, constants))
    if inputs or constants:
        raise UserError(
            "shapes and constants can only be given for formats that leave them open", got=path.name
        )
    if found in _BUILTIN.values():
        return resolved(found.read(path))
    return resolved(_foreign(found, path))


def _foreign(found: Frontend, path: Path) -> Graph:
    """What a plugin reads, checked."""
    if not path.is_file():
        raise UserError("the file of a network must exist", got=str(path))
    plugin = next(each.plugin for each in FRONTENDS.loaded if each.part is found)
    graph: object = called(plugin, found.read, path)
    wrong = _wrong(graph)
    if wrong:
        raise UserError(
            f"the plugin for {path.suffix} files must return a valid graph",
            got="; ".join(wrong),
            fix="Report this to its author.",
        )
    assert isinstance(graph, Graph)
    return graph


def alone(path: Path) -> bool:
    """Whether no other file decides what the graph of a file is."""
    found = frontend_of(path).alone
    return found if isinstance(found, bool) else found(path)


def _wrong(graph: object) -> tuple[str, ...]:
    """What is wrong with what a plugin read."""
    if not isinstance(graph, Graph):
        return (f"a {type(graph).__name__}",)
    unknown = sorted({node.op for node in graph.nodes if node.op not in OPS})
    if unknown:
        return tuple(f"{op}, which is not an op of Weft" for op in unknown)
    return violations(graph, lambda node, around: OPS[node.op].infer(call_of(node, around.types)))


def _attribute_class(op: str) -> type:
    record = OPS.get(op)
    if record is None:
        raise UserError("the file contains unknown ops", got=op, fix=OPS.why_missing(op))
    return record.attributes
