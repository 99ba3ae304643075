"""Ways to damage a model: its bytes, or its meaning."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper

HUGE = (-1, -(2**31), -(2**63), 0, 1, 7, 2**16, 2**31 - 1, 2**40, 2**62, 2**63 - 1)


def mutated(data: bytes, generator: random.Random) -> bytes:
    """A damaged copy."""
    if generator.random() < 0.35:
        return generator.choice((_truncated, _flipped, _overwritten, _spliced))(data, generator)
    model = onnx.ModelProto.FromString(data)
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        generator.choice(MUTATIONS)(model, generator)
    return model.SerializeToString()


# --- bytes --------------------------------------------------------------------------------------


def _truncated(data: bytes, generator: random.Random) -> bytes:
    return data[: generator.randrange(len(data))]


def _flipped(data: bytes, generator: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(generator.choice((1, 2, 8))):
        changed[generator.randrange(len(changed))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def _overwritten(data: bytes, generator: random.Random) -> bytes:
    start = generator.randrange(len(data))
    noise = generator.randbytes(generator.randrange(1, 32))
    return data[:start] + noise + data[start + len(noise) :]


def _spliced(data: bytes, generator: random.Random) -> bytes:
    first, second = sorted(generator.randrange(len(data)) for _ in range(2))
    return data[:second] + data[first:]


# --- meaning ------------------------------------------------------------------------------------


def _node(model: onnx.ModelProto, generator: random.Random) -> NodeProto | None:
    nodes = [*model.graph.node, *(node for each in model.functions for node in each.node)]
    for node in list(nodes):
        for attribute in node.attribute:
            nodes += attribute.g.node
    return generator.choice(nodes) if nodes else None


def _tensor(model: onnx.ModelProto, generator: random.Random) -> TensorProto | None:
    tensors = [*model.graph.initializer]
    tensors += [each.values for each in model.graph.sparse_initializer]
    tensors += [each.indices for each in model.graph.sparse_initializer]
    tensors += [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    return generator.choice(tensors) if tensors else None


def _input_dims(model: onnx.ModelProto, generator: random.Random) -> None:
    values = [*model.graph.input]
    if not values:
        return
    shape = generator.choice(values).type.tensor_type.shape
    if not shape.dim or generator.random() < 0.2:
        shape.dim.add(dim_value=generator.choice(HUGE))
    elif generator.random() < 0.2:
        shape.dim[generator.randrange(len(shape.dim))].dim_param = generator.choice(("", "k", "N"))
    else:
        shape.dim[generator.randrange(len(shape.dim))].dim_value = generator.choice(HUGE)


def _tensor_dims(model: onnx.ModelProto, generator: random.Random) -> None:
    tensor = _tensor(model, generator)
    if tensor is None:
        return
    if tensor.dims and generator.random() < 0.7:
        tensor.dims[generator.randrange(len(tensor.dims))] = generator.choice(HUGE)
    else:
        tensor.dims.append(generator.choice(HUGE))


def _tensor_values(model: onnx.ModelProto, generator: random.Random) -> None:
    tensor = _tensor(model, generator)
    if tensor is not None and tensor.raw_data:
        raw = bytearray(tensor.raw_data)
        for _ in range(generator.randrange(1, 4)):
            place = generator.randrange(len(raw))
            raw[place] = generator.choice((0, 1, 127, 128, 255))
        tensor.raw_data = bytes(raw)
    elif tensor is not None and tensor.int64_data:
        place = generator.randrange(len(tensor.int64_data))
        tensor.int64_data[place] = generator.choice(HUGE)


def _tensor_type(model: onnx.ModelProto, generator: random.Random) -> None:
    tensor = _tensor(model, generator)
    if tensor is not None:
        tensor.data_type = generator.choice((*range(26), 999, 2**31 - 1))


def _input_type(model: onnx.ModelProto, generator: random.Random) -> None:
    if model.graph.input:
        chosen = generator.choice(model.graph.input)
        chosen.type.tensor_type.elem_type = generator.choice((*range(26), 999, 2**31 - 1))


def _external(model: onnx.ModelProto, generator: random.Random) -> None:
    tensor = _tensor(model, generator)
    if tensor is None:
        return
    tensor.data_location = TensorProto.EXTERNAL
    places = (
        "/etc/passwd", "../model.onnx", "a/../../b", "model.onnx", ".", "", "nul\0nul",
        "C:\\windows\\win.ini", "/dev/zero", "x" * 5000, "\u202e",
    )  # fmt: skip
    for key, value in (
        ("location", generator.choice(places)),
        ("offset", str(generator.choice((*HUGE, "x", "1e3", "")))),
        ("length", str(generator.choice((*HUGE, "0x10")))),
    ):
        if generator.random() < 0.8:
            tensor.external_data.add(key=key, value=value)


def _missing_initializer(model: onnx.ModelProto, generator: random.Random) -> None:
    if model.graph.initializer:
        del model.graph.initializer[generator.randrange(len(model.graph.initializer))]


def _missing_node(model: onnx.ModelProto, generator: random.Random) -> None:
    if model.graph.node:
        del model.graph.node[generator.randrange(len(model.graph.node))]


def _rewired(model: onnx.ModelProto, generator: random.Random) -> None:
    """An input of a node is any value at all: a cycle, a wrong type, its own output."""
    node = _node(model, generator)
    values = [name for each in model.graph.node for name in each.output]
    values += [each.name for each in (*model.graph.input, *model.graph.initializer)]
    values += ["", "nowhere"]
    if node is not None and node.input:
        node.input[generator.randrange(len(node.input))] = generator.choice(values)


def _inputs_changed(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if node is None:
        return
    if node.input and generator.random() < 0.5:
        del node.input[generator.randrange(len(node.input)) :]
    else:
        node.input.extend([generator.choice(("", *node.input))] * generator.randrange(1, 9))


def _outputs_changed(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if node is None:
        return
    if node.output and generator.random() < 0.5:
        node.output[generator.randrange(len(node.output))] = generator.choice(
            ("", "x", "y", "odd name \n\t\"';--%n", *node.input)
        )
    else:
        node.output.extend(f"more{place}" for place in range(generator.randrange(1, 5)))


def _attribute_type(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if node is None or not node.attribute:
        return
    place = generator.randrange(len(node.attribute))
    name = node.attribute[place].name
    value = generator.choice(
        (1, 1.5, b"\xff\xfe", "text", [1, 2], [0.5], [b"a"], helper.make_tensor("t", 1, [1], [1.0]))
    )
    node.attribute[place].CopyFrom(helper.make_attribute(name, value))


def _attribute_value(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if node is None or not node.attribute:
        return
    attribute = generator.choice(node.attribute)
    if attribute.type == AttributeProto.INT:
        attribute.i = generator.choice(HUGE)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = generator.choice((float("nan"), float("inf"), -1e38, 0.0))
    elif attribute.type == AttributeProto.STRING:
        attribute.s = generator.choice((b"", b"NOTSET", b"SAME_UPPER", b"\xff", b"linear"))
    elif attribute.ints:
        if generator.random() < 0.5:
            attribute.ints[generator.randrange(len(attribute.ints))] = generator.choice(HUGE)
        else:
            del attribute.ints[generator.randrange(len(attribute.ints)) :]


def _attribute_missing(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if node is not None and node.attribute:
        del node.attribute[generator.randrange(len(node.attribute))]


def _op(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if node is not None:
        others = [each.op_type for each in model.graph.node]
        node.op_type = generator.choice(
            (*others, "Add", "Loop", "Scan", "If", "NoSuchOp", "", "inner", "outer", "Expand",
             "ConstantOfShape", "Range", "Tile", "Pad", "Resize", "Reshape", "Concat")
        )  # fmt: skip
        if generator.random() < 0.2:
            node.domain = generator.choice(("local", "ai.onnx.ml", "ai.onnx", "nowhere"))


def _opset(model: onnx.ModelProto, generator: random.Random) -> None:
    if model.opset_import:
        chosen = generator.choice(model.opset_import)
        chosen.version = generator.choice((*HUGE, 1, 6, 9, 11, 13, 17, 21, 24))


def _recursion(model: onnx.ModelProto, generator: random.Random) -> None:
    """Functions that call themselves or one another."""
    for function in model.functions:
        for node in function.node:
            if generator.random() < 0.5:
                node.op_type, node.domain = "outer", "local"


def _nesting(model: onnx.ModelProto, generator: random.Random) -> None:
    """Subgraphs within subgraphs."""
    depth = generator.choice((3, 12, 26))
    graph = helper.make_graph([], "leaf", [], [helper.make_tensor_value_info("x", 1, None)])
    for place in range(depth):
        node = helper.make_node("If", ["x"], [f"i{place}"], then_branch=graph, else_branch=graph)
        if generator.random() < 0.5:
            node = helper.make_node("SequenceMap", ["x"], [f"i{place}"], body=graph)
        if len(node.SerializeToString()) > 1 << 20:
            break
        output = helper.make_tensor_value_info(f"i{place}", 1, None)
        graph = helper.make_graph([node], f"level{place}", [], [output])
    model.graph.node.extend(graph.node)


def _duplicated(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if node is not None:
        model.graph.node.append(node)


def _shuffled(model: onnx.ModelProto, generator: random.Random) -> None:
    nodes = list(model.graph.node)
    generator.shuffle(nodes)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


MUTATIONS: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    _input_dims,
    _tensor_dims,
    _tensor_values,
    _tensor_values,
    _tensor_type,
    _input_type,
    _external,
    _missing_initializer,
    _missing_node,
    _rewired,
    _inputs_changed,
    _outputs_changed,
    _attribute_type,
    _attribute_value,
    _attribute_value,
    _attribute_missing,
    _op,
    _opset,
    _recursion,
    _nesting,
    _duplicated,
    _shuffled,
)
