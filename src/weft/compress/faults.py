"""Faults: bits of stored numbers that flip or stick, and noise; all of them seeded.

A fault is a bit of an element of a tensor.  Which ones there are is a list that a person can
read (``weight_faults``, ``activation_faults``); the recipes apply what the list says.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from weft.compress.weight_axes import chosen_names
from weft.dtypes import DType
from weft.errors import UserError, above_zero
from weft.ir.edit import set_constants
from weft.ir.graph import Graph
from weft.ir.types import Symbol, TensorType
from weft.records import dataclass
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness

Kind: TypeAlias = Literal["flip", "stuck0", "stuck1"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A bit that is wrong.

    Attributes:
        tensor: name of the constant or value.
        element: its number in row-major order (of one sample, where the batch is open).
        bit: 0 is the lowest; of a float the highest is the sign.
    """

    tensor: str
    element: int
    bit: int

    def __str__(self) -> str:
        return f"{self.tensor}[{self.element}].{self.bit}"


@dataclass(frozen=True)
class FaultParameters:
    """Of ``fault-weights`` and ``fault-activations``."""

    kind: Literal["flip", "stuck0", "stuck1"] = parameter(
        "what happens to a bit: it flips, or it sticks at 0 or at 1", "flip"
    )
    rate: float = parameter("the probability with which each bit is wrong", 0.0)
    count: int = parameter("so many bits are wrong, chosen evenly (in place of `rate`)", 0)
    at: tuple[str, ...] = parameter("these bits are wrong: `TENSOR[ELEMENT].BIT`", ())
    bits: tuple[int, ...] = parameter("only these bits of an element (0 is the lowest); or all", ())
    seed: int = parameter("of the random choice", 0)
    tensors: tuple[str, ...] = parameter("nodes or tensors that are hit; all if none are named", ())


@dataclass(frozen=True)
class NoiseParameters:
    """Of ``noise-weights`` and ``noise-activations``."""

    sigma: float = parameter("the standard deviation, see the recipe", 0.01)
    seed: int = parameter("of the noise", 0)
    tensors: tuple[str, ...] = parameter("nodes or tensors that are hit; all if none are named", ())


# --- what can be hit ------------------------------------------------------------------------

_STORED: Mapping[str, tuple[int, ...]] = {
    "DequantizeLinear": (0,),
    "ConvInteger": (1,),
    "ConvInteger16": (1,),
    "MatMulInteger": (0, 1),
    "QLinearConv": (3, 8),
    "QLinearMatMul": (0, 3),
}
"""Where ops read integers that stand for numbers rather than for places or sizes."""

UNSIGNED: Mapping[int, DType] = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
"""The type of the bits of an element of so many bytes."""


def stored(graph: Graph) -> tuple[str, ...]:
    """The constants that hold numbers: floats, and integers that are quantized numbers."""
    quantized = {
        node.inputs[place]
        for node in graph.nodes
        for place in _STORED.get(node.op, ())
        if place < len(node.inputs)
    }
    return tuple(
        name
        for name in graph.constants
        if graph.types[name].dtype.is_float
        or (name in quantized and graph.types[name].dtype.is_integer)
    )


def computed(graph: Graph) -> tuple[str, ...]:
    """The inputs and computed values that hold numbers: floats and 8-bit integers."""
    values = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs if v)]
    kinds = (DType.I8, DType.U8)
    return tuple(v for v in values if (t := graph.types[v].dtype).is_float or t in kinds)


def chosen_constants(graph: Graph, asked: Sequence[str], recipe: str) -> tuple[str, ...]:
    """The constants that names of constants and of the nodes that read them stand for."""
    known = stored(graph)
    readers = {name: {node.name for node in graph.users[name]} for name in known}
    return _chosen(known, readers, asked, recipe)


def chosen_values(graph: Graph, asked: Sequence[str], recipe: str) -> tuple[str, ...]:
    """The values that names of values and of the nodes that make them stand for."""
    known = computed(graph)
    makers = {
        name: {graph.producers[name].name} if name in graph.producers else set[str]()
        for name in known
    }
    return _chosen(known, makers, asked, recipe)


def _chosen(
    known: Sequence[str], nodes: Mapping[str, set[str]], asked: Sequence[str], recipe: str
) -> tuple[str, ...]:
    if not known:
        raise UserError(f"{recipe}: the graph has no tensor of numbers to damage")
    names = [*known, *(node for name in known for node in sorted(nodes[name]))]
    chosen = chosen_names(asked, names, recipe)
    return tuple(name for name in known if name in chosen or not chosen.isdisjoint(nodes[name]))


def shape_of(type: TensorType) -> tuple[int, ...]:
    """The shape in which a value is damaged: an open batch counts as one sample."""
    return tuple(1 if isinstance(dim, Symbol) else dim for dim in type.shape)


# --- which bits -----------------------------------------------------------------------------


def weight_faults(graph: Graph, parameters: FaultParameters) -> tuple[Fault, ...]:
    """The bits of constants that ``fault-weights`` damages."""
    recipe = "fault-weights"
    return _faults(graph, chosen_constants(graph, parameters.tensors, recipe), parameters, recipe)


def activation_faults(graph: Graph, parameters: FaultParameters) -> tuple[Fault, ...]:
    """The bits of computed values that ``fault-activations`` damages."""
    recipe = "fault-activations"
    return _faults(graph, chosen_values(graph, parameters.tensors, recipe), parameters, recipe)


def _faults(
    graph: Graph, tensors: Sequence[str], parameters: FaultParameters, recipe: str
) -> tuple[Fault, ...]:
    _check(parameters, recipe)
    types = {name: graph.types[name] for name in tensors}
    _check_bits(parameters.bits, types, recipe)
    if parameters.at:
        return tuple(_given(text, types, recipe) for text in parameters.at)
    if parameters.count:
        return _counted(types, parameters, recipe)
    found: list[Fault] = []
    for name, type in types.items():
        source = generator(parameters.seed, name)
        size = prod(shape_of(type))
        for bit in _bits_of(type, parameters.bits):
            hit = int(source.binomial(size, parameters.rate))
            places = np.sort(source.choice(size, hit, replace=False))
            found += [Fault(name, int(place), bit) for place in places]
    return tuple(found)


def _check(parameters: FaultParameters, recipe: str) -> None:
    given = [bool(parameters.rate), bool(parameters.count), bool(parameters.at)]
    if sum(given) != 1:
        text = f"rate={parameters.rate:g} count={parameters.count} at={','.join(parameters.at)}"
        raise UserError(f"{recipe}: exactly one of rate, count and at must be given", got=text)
    if not 0 <= parameters.rate <= 1:
        raise UserError(f"{recipe}: rate must be within [0, 1]", got=f"{parameters.rate:g}")
    if parameters.count < 0:
        raise UserError(f"{recipe}: count must not be negative", got=str(parameters.count))
    if parameters.at and parameters.bits:
        raise UserError(
            f"{recipe}: bits restricts random bits; at already names them",
            got=f"bits={','.join(map(str, parameters.bits))}",
        )


def _check_bits(bits: Sequence[int], types: Mapping[str, TensorType], recipe: str) -> None:
    """Refuse a bit that no element has: nothing would be damaged."""
    most = max((8 * type.dtype.bytes for type in types.values()), default=0) - 1
    for bit in bits:
        if not 0 <= bit <= most:
            known = sorted({type.dtype.value for type in types.values()})
            raise UserError(
                f"{recipe}: bits of {', '.join(known)} are 0 to {most}, 0 being the lowest",
                got=f"bits={','.join(map(str, bits))}",
            )


def generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers of one tensor: others being there or not changes nothing."""
    if seed < 0:
        raise UserError("faults: seed must not be negative", got=str(seed))
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _bits_of(type: TensorType, asked: Sequence[int]) -> tuple[int, ...]:
    """Those of the bits asked for that elements of a type have."""
    width = 8 * type.dtype.bytes
    own = tuple(bit for bit in dict.fromkeys(asked) if bit < width)
    return own if asked else tuple(range(width))


def _counted(
    types: Mapping[str, TensorType], parameters: FaultParameters, recipe: str
) -> tuple[Fault, ...]:
    bits = {name: _bits_of(type, parameters.bits) for name, type in types.items()}
    room = [len(bits[name]) * prod(shape_of(type)) for name, type in types.items()]
    if parameters.count > sum(room):
        raise UserError(f"{recipe}: count exceeds the number of bits", got=f"{parameters.count}")
    source = generator(parameters.seed, "")
    places = np.sort(source.choice(sum(room), parameters.count, replace=False))
    found: list[Fault] = []
    start = 0
    for name, own in zip(types, room, strict=True):
        for place in places[(places >= start) & (places < start + own)]:
            element, bit = divmod(int(place) - start, len(bits[name]))
            found.append(Fault(name, element, bits[name][bit]))
        start += own
    return tuple(found)


_AT = re.compile(r"(.+)\[(\d+)\]\.(\d+)")


def _given(text: str, types: Mapping[str, TensorType], recipe: str) -> Fault:
    match = _AT.fullmatch(text)
    if match is None:
        raise UserError(f"{recipe}: a bit is written TENSOR[ELEMENT].BIT", got=text)
    name, element, bit = match[1], int(match[2]), int(match[3])
    chosen_names([name], list(types), recipe)
    type = types.get(name)
    if type is None:
        raise UserError(f"{recipe}: a bit needs the name of one tensor", got=text)
    size, width = prod(shape_of(type)), 8 * type.dtype.bytes
    if element >= size or bit >= width:
        raise UserError(
            f"{recipe}: {name} is {type}, with {size} elements of {width} bits", got=text
        )
    return Fault(name, element, bit)


def masks(graph: Graph, faults: Iterable[Fault]) -> dict[str, np.ndarray]:
    """For every tensor that is hit, unsigned integers with ones where bits are wrong."""
    found: dict[str, np.ndarray] = {}
    for fault in faults:
        if fault.tensor not in found:
            type = graph.types[fault.tensor]
            found[fault.tensor] = np.zeros(shape_of(type), UNSIGNED[type.dtype.bytes].numpy)
        array = found[fault.tensor]
        array.reshape(-1)[fault.element] |= array.dtype.type(1 << fault.bit)
    return found


# --- weights --------------------------------------------------------------------------------


def fault_weights(graph: Graph, parameters: FaultParameters) -> Graph:
    """Damage bits of the constants."""
    arrays: dict[str, np.ndarray] = {}
    for name, mask in masks(graph, weight_faults(graph, parameters)).items():
        array = graph.constants[name]
        raw = np.array(array, order="C").view(mask.dtype)
        # NumPy makes scalars of arrays without axes.
        arrays[name] = np.asarray(_damaged(raw, mask, parameters.kind)).view(array.dtype)
    return set_constants(graph, arrays) if arrays else graph


def _damaged(raw: np.ndarray, mask: np.ndarray, kind: Kind) -> np.ndarray:
    match kind:
        case "flip":
            return raw ^ mask
        case "stuck0":
            return raw & ~mask
        case "stuck1":
            return raw | mask


def noise_weights(graph: Graph, parameters: NoiseParameters) -> Graph:
    """Add Gaussian noise to the constants, relative to the spread of each."""
    sigma = sigma_of(parameters, "noise-weights")
    arrays: dict[str, np.ndarray] = {}
    for name in chosen_constants(graph, parameters.tensors, "noise-weights"):
        array = graph.constants[name]
        exact = array.astype(np.float64)
        # A tensor of one number has no spread; its magnitude stands for it.
        spread = float(np.std(exact)) if array.size > 1 else float(np.abs(exact).max(initial=0))
        noisy = exact + generator(parameters.seed, name).normal(0, 1, array.shape) * sigma * spread
        arrays[name] = np.asarray(_stored_as(noisy, graph.types[name].dtype))
    return set_constants(graph, arrays)


def sigma_of(parameters: NoiseParameters, recipe: str) -> float:
    """The standard deviation, which must be above 0."""
    return above_zero(f"{recipe}: sigma", parameters.sigma)


def _stored_as(values: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return values.astype(dtype.numpy)
    low, high = dtype.limits
    return np.clip(np.rint(values), low, high).astype(dtype.numpy)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name="fault-weights",
        doc="Damages bits of the constants that hold numbers (floats, and integers that are "
        "quantized numbers): each bit with the probability `rate`, `count` of them, or those "
        "`at` given places. The same seed damages the same bits. Flipped bits of floats may "
        "make infinities and NaNs.",
        exactness=Exactness.APPROXIMATE,
        parameters=FaultParameters,
        apply=fault_weights,
    ),
    Recipe(
        name="noise-weights",
        doc="Adds Gaussian noise to the constants that hold numbers; its standard deviation is "
        "`sigma` times the standard deviation of each constant. Integers are rounded and held "
        "within their type.",
        exactness=Exactness.APPROXIMATE,
        parameters=NoiseParameters,
        apply=noise_weights,
    ),
)
