"""Whole models: how they are put together, named and refused."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import weft
from tests.frontends.keras.against import compared, difference, needs_keras, random_inputs
from tests.frontends.keras.test_layers import randomized, saved
from weft.cli import main
from weft.errors import UserError
from weft.frontends.keras import Session, load
from weft.frontends.keras.session import import_keras

pytestmark = needs_keras


@pytest.fixture
def keras():
    found = import_keras()
    found.utils.clear_session()
    return found


def both(model, folder):
    """The graph from both formats, each compared with Keras value by value."""
    randomized(model)
    graph = load(saved(model, folder, ".keras"))
    again = load(saved(model, folder, ".h5"))
    for each in (graph, again):
        worst = compared(model, each)
        assert max(worst.values()) < 1e-5, worst
    assert graph.inputs == again.inputs
    return graph


def small(keras, name, units=4):
    """A nested model."""
    x = keras.Input((6,), name=f"{name}_in")
    y = keras.layers.Dense(units, activation="relu", name="first")(x)
    return keras.Model(x, keras.layers.Dense(units, name="second")(y), name=name)


def test_several_inputs_and_outputs_by_name(keras, tmp_path):
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    total = keras.layers.Add(name="total")([a, b])
    less = keras.layers.Subtract(name="less")([b, a])
    model = keras.Model({"b": b, "a": a}, {"x": less, "y": total})
    graph = both(model, tmp_path)
    assert sorted(graph.inputs) == ["a", "b"]
    assert sorted(graph.outputs) == ["less", "total"]


def test_nested_and_shared_models(keras, tmp_path):
    inner = small(keras, "inner")
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    sequential = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3, name="last")], name="tail"
    )
    joined = keras.layers.Concatenate(name="joined")([inner(a), inner(b)])
    halves = keras.ops.split(joined, 2, axis=-1)
    graph = both(keras.Model([a, b], [sequential(halves[0]), halves[1]]), tmp_path)
    names = {node.name for node in graph.nodes}
    assert {"inner/first", "inner:1/first", "joined"} <= names
    # Both calls read one constant.
    kernels = [name for name in graph.constants if "first" in name and "kernel" in name]
    assert kernels == ["inner/first/kernel"]


def test_layers_that_are_called_again(keras, tmp_path):
    x = keras.Input((6,), name="x")
    shared = keras.layers.Dense(6, activation="tanh", name="shared")
    graph = both(keras.Model(x, shared(shared(shared(x)))), tmp_path)
    assert graph.outputs == ("shared:2",)
    assert len(graph.constants) == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_layers_shared_between_models(keras, reverse, tmp_path):
    """Files have their weights once, and numbers that say so, though not always everywhere."""
    shared = keras.layers.Dense(6, name="shared")
    z = keras.Input((6,))
    inner = keras.Model(z, shared(keras.layers.Dense(6, name="own")(z)), name="inner")
    w = keras.Input((6,))
    around = keras.Sequential([keras.Input((6,)), inner], name="around")
    x = keras.Input((6,), name="x")
    y = around(shared(x)) if reverse else shared(around(x))
    steps = keras.layers.TimeDistributed(inner, name="steps")
    y = keras.layers.Add(name="y")([y, keras.Model(w, inner(inner(w)), name="twice")(y)])
    graph = both(keras.Model(x, steps(keras.layers.Reshape((1, 6), name="step")(y))), tmp_path)
    assert len(graph.constants) == 4


def test_inputs_by_name(keras, tmp_path):
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    inner = keras.Model([b, a], keras.layers.Subtract(name="less")([a, b]), name="inner")
    tail = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6, name="last")], name="tail")
    x, y = keras.Input((6,), name="x"), keras.Input((6,), name="y")
    less = inner({"a": x, "b": y})
    small_ = small(keras, "small", units=6)(inputs=tail(inputs=less))
    half = keras.layers.Dense(3, dtype="mixed_float16", name="half")(inputs=small_)
    model = randomized(keras.Model([x, y], [less, small_, half]))
    for suffix in (".keras", ".h5"):
        graph = load(saved(model, tmp_path, suffix))
        assert graph.inputs == ("x", "y")
        worst = compared(model, graph)
        assert worst.pop("half") < 1e-3
        assert max(worst.values()) < 1e-5, worst


destroying = pytest.mark.filterwarnings("ignore:.*will therefore destroy the mask information")


def masked(keras, name):
    """Steps of which those that are 0 do not count."""
    x = keras.Input((5,), dtype="int32", name=name)
    return x, keras.layers.Embedding(4, 6, mask_zero=True, name=f"of_{name}")(x)


ZEROS = {
    "x": np.array([[1, 0, 3, 0, 0, ]], np.int32),
    "y": np.array([[1, 2, 0, 0, 2, ]], np.int32),
    "z": np.linspace(-1, 1, 30, dtype=np.float32).reshape(1, 5, 6),
}  # fmt: skip


def mean_of(keras, x):
    """The mean of the steps that count."""
    return keras.layers.GlobalAveragePooling1D()(x)


def agrees(model, folder, inputs):
    """Compares the outputs from both formats with Keras."""
    randomized(model)
    for suffix in (".keras", ".h5"):
        graph = load(saved(model, folder, suffix))
        worst = compared(model, graph, inputs)
        assert all(worst[name] < 1e-5 for name in graph.outputs), worst


@destroying
def test_layers_that_change_nothing_but_the_mask(keras, tmp_path):
    x, steps = masked(keras, "x")
    made = [
        keras.layers.Reshape((5, 6))(steps),
        keras.layers.Permute((1, 2))(steps),
        keras.layers.UpSampling1D(1)(steps),
        keras.layers.Dropout(0.5)(steps),
        keras.layers.Reshape((5, 6), dtype="mixed_float16")(steps),
    ]
    outputs = [mean_of(keras, each) for each in made]
    agrees(keras.Model(x, outputs), tmp_path, {"x": ZEROS["x"]})


@pytest.mark.parametrize("kind", ["Add", "Multiply", "Maximum", "Minimum", "Average"])
def test_masks_of_merged_layers(keras, kind, tmp_path):
    (x, left), (y, right) = masked(keras, "x"), masked(keras, "y")
    z = keras.Input((5, 6), name="z")
    layer = getattr(keras.layers, kind)
    made = [layer()([left, right]), layer()([left, z, right]), layer()([z, right])]
    outputs = [*made, *(mean_of(keras, each) for each in made)]
    agrees(keras.Model([x, y, z], outputs), tmp_path, ZEROS)


def test_masks_behind_attention(keras, tmp_path):
    (x, left), (y, right) = masked(keras, "x"), masked(keras, "y")
    given = {name: ZEROS[name] for name in "xy"}
    for made in (
        keras.layers.Attention()([left, right]),
        keras.layers.MultiHeadAttention(2, 3)(value=right, query=left),
    ):
        agrees(keras.Model([x, y], mean_of(keras, made)), tmp_path, given)


ATTENTIONS = {
    "plain": lambda layers, x: layers.MultiHeadAttention(2, 3)(x, x),
    "given": lambda layers, x: layers.MultiHeadAttention(2, 3)(
        x, x, attention_mask=(np.arange(5) != 2)[None, :, None] & np.ones((1, 5, 5), bool)
    ),
    "dropout": lambda layers, x: layers.MultiHeadAttention(2, 3, dropout=0.1)(x, x),
    "scores": lambda layers, x: layers.MultiHeadAttention(2, 3)(x, x, return_attention_scores=True),
    "grouped": lambda layers, x: layers.GroupQueryAttention(3, 4, 2)(x, x, use_causal_mask=True),
}


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_queries_that_see_no_key(keras, kind, tmp_path):
    """Keras 3 gives them the mean of all values, or zeros where it takes a softmax of its own."""
    x, steps = masked(keras, "x")
    model = keras.Model(x, ATTENTIONS[kind](keras.layers, steps))
    agrees(model, tmp_path, {"x": ZEROS["x"]})


def test_queries_that_see_no_key_in_the_function(keras, tmp_path):
    x = keras.Input((5, 2, 3), name="x")
    seen = keras.Input((1, 5, 5), dtype="bool", name="seen")
    made = keras.ops.dot_product_attention(x, x, x, mask=seen)
    given = np.tri(5, dtype=bool) & (np.arange(5) != 3)[:, None]
    steps = ZEROS["z"].reshape(1, 5, 2, 3)
    agrees(keras.Model([x, seen], made), tmp_path, {"x": steps, "seen": given[None, None]})


def test_masks_behind_preprocessing(keras, tmp_path):
    model = keras.Sequential(
        [
            keras.Input((5, 6), name="z"),
            keras.layers.ZeroPadding1D((0, 2)),
            keras.layers.Masking(),
            keras.layers.Rescaling(2.0),
            keras.layers.Normalization(mean=1.0, variance=2.0),
            keras.layers.GRU(3),
        ]
    )
    agrees(model, tmp_path, {"z": ZEROS["z"]})


def test_states_replace_the_mask_of_the_steps(keras, tmp_path):
    """Keras 3 looks for masks of calls with a single tensor."""
    x, steps = masked(keras, "x")
    _, state = keras.layers.GRU(6, return_state=True, name="first")(steps)
    made = [
        keras.layers.GRU(6, return_sequences=True)(steps, initial_state=state),
        keras.layers.Bidirectional(keras.layers.GRU(6, return_sequences=True))(
            steps, initial_state=[state, state]
        ),
    ]
    outputs = [*made, *(mean_of(keras, each) for each in made)]
    agrees(keras.Model(x, outputs), tmp_path, {"x": ZEROS["x"]})


def test_states_and_masks_by_position(keras, tmp_path):
    x, y = keras.Input((5, 6), name="z"), keras.Input((5,), dtype="bool", name="seen")
    _, hidden, cell = keras.layers.LSTM(4, return_state=True)(x)
    outputs = [
        keras.layers.LSTM(4)(x, [hidden, cell]),
        keras.layers.GRU(4)(x, hidden),
        keras.layers.GRU(4)(x, None, y),
        keras.layers.Bidirectional(keras.layers.GRU(4))(x, [hidden, cell]),
    ]
    seen = np.array([[True, False, True, True, False]])
    agrees(keras.Model([x, y], outputs), tmp_path, {"z": ZEROS["z"], "seen": seen})


def test_second_layers_and_activations_of_recurrent_layers(keras, tmp_path):
    x = keras.Input((5, 6), name="z")
    both_ways = keras.layers.Bidirectional(
        keras.layers.LSTM(3, name="there"),
        backward_layer=keras.layers.GRU(3, go_backwards=True, name="back"),
    )
    leaky = keras.layers.LSTM(3, activation=keras.layers.LeakyReLU(0.1))
    agrees(keras.Model(x, [both_ways(x), leaky(x)]), tmp_path, {"z": ZEROS["z"]})


def test_layers_named_as_those_around_them(keras, tmp_path):
    dense = keras.layers.Dense
    last = keras.Sequential([dense(6, name="d"), dense(6, name="k")], name="k")
    inner = keras.Sequential([keras.Input((6,)), dense(6, name="d"), last], name="d")
    x = keras.Input((6,), name="x")
    both(keras.Model(x, inner(x)), tmp_path)


def test_integers(keras, tmp_path):
    x, y = (keras.Input((4,), dtype="int32", name=name) for name in "xy")
    outputs = [
        keras.layers.Average(name="average")([x, y]),
        keras.ops.prod(keras.ops.cast(x, "float32") * 0.7, axis=1, dtype="int32"),
    ]
    both(keras.Model([x, y], outputs), tmp_path)
    least = keras.ops.max(x, axis=1, initial=0)
    with pytest.raises(UserError, match=r"max_?\d* \(Max\): initial=0 is not supported"):
        load(saved(keras.Model(x, least), tmp_path, ".keras"))


def test_vectors_next_to_nothing_become_units(keras, tmp_path):
    x = keras.Input((4,), name="x")
    outputs = [
        keras.layers.UnitNormalization()(x),
        keras.layers.Dot(axes=1, normalize=True)([x, x]),
        keras.ops.one_hot(keras.ops.cast(x * 1e8, "uint8"), 300),
    ]
    given = np.array([[1e-8, 2e-8, 0, 0]], np.float32)
    agrees(keras.Model(x, outputs), tmp_path, {"x": given})


def test_operations_between_layers(keras, tmp_path):
    ops = keras.ops
    x = keras.Input((4, 6), name="x")
    y = (x * 2.0 + 1) / (ops.abs(x) + 1.0) - x**2
    z = ops.concatenate([y[:, 1:3], ops.flip(x[:, ::2], axis=-1)], axis=1)
    w = ops.softmax(ops.matmul(z, ops.transpose(x, (0, 2, 1))), axis=-1)
    total = (
        ops.mean(w, axis=[1, 2], keepdims=True) + ops.max(x[:, -1:, None, 0], axis=-1)[..., None]
    )
    chosen = ops.where(ops.greater(x, 0.5), ops.square(x), ops.zeros_like(x))
    tall = ops.reshape(ops.stack([x, chosen], axis=1), (-1, 2, 24))
    outputs = [
        total,
        ops.expand_dims(tall, -1),
        ops.relu6(ops.sum(chosen, axis=1)),
        ops.argmax(x, -1),
    ]
    both(keras.Model(x, outputs), tmp_path)


def test_a_model_in_memory_is_as_its_file(keras, tmp_path):
    model = randomized(small(keras, "inner"))
    net, read = weft.load(model, {"batch": 3}), weft.load(saved(model, tmp_path, ".keras"))
    assert net.inputs["inner_in"].dims == (3, 6)
    assert read.inputs["inner_in"].dims == (1, 6)
    x = random_inputs(net.graph)["inner_in"]
    expected = Session(model)({"inner_in": x})["second"]
    assert difference(np.asarray(net.compile()(x)), expected) < 1e-5


def test_the_batch_of_the_command_line(keras, tmp_path):
    path = saved(randomized(small(keras, "inner")), tmp_path, ".keras")
    result = CliRunner().invoke(main, ["show", str(path), "--batch", "5", "--json"])
    assert result.exit_code == 0, result.output
    assert "%inner_in: f32[5,6]" in json.loads(result.stdout)["text"]


def test_sizes_that_must_be_given(keras, tmp_path):
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras.layers.Dense(3, name="y")(x))
    path = saved(model, tmp_path, ".keras")
    with pytest.raises(UserError) as caught:
        load(path)
    assert str(caught.value) == (
        "keras: only the batch of an input may be open; got x [?,?,4]. Give its shape: "
        '--input x=1xSIZEx4; in Python: weft.load(path, {"x": [1, SIZE, 4]})'
    )
    assert load(path, {"x": (2, 7, 4)}).types["y"].dims == (2, 7, 3)
    with pytest.raises(UserError, match=r"must fit the model's; got \[2, 7, 5\] for \[\?,\?,4\]"):
        load(path, {"x": (2, 7, 5)})
    with pytest.raises(UserError, match="the model has no input z"):
        load(path, {"x": (2, 7, 4), "z": (1,)})


def test_everything_unsupported_is_refused_together(keras, tmp_path):
    x = keras.Input((8, 8, 3), name="x")
    y = keras.layers.Lambda(lambda each: each * 2, output_shape=(8, 8, 3), name="double")(x)
    y = keras.layers.RandomCrop(4, 4, name="crop")(y)
    inner = keras.Sequential(
        [keras.Input((4, 4, 3)), keras.layers.Solarization(name="sun")], name="inner"
    )
    path = saved(keras.Model(x, keras.layers.Flatten()(inner(y))), tmp_path, ".keras")
    with pytest.raises(UserError) as caught:
        load(path)
    assert str(caught.value) == "\n  ".join(
        [
            "keras: 3 layers cannot be imported:",
            "double (Lambda): it holds Python code, which is not executed",
            "crop (RandomCrop): it crops or resizes by the input's size, also in inference",
            "inner/sun (Solarization): it augments training data",
        ]
    )


def test_custom_layers_are_refused_by_their_registered_name(keras, tmp_path):
    path = saved(randomized(small(keras, "inner")), tmp_path, ".keras")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    layer = config["config"]["layers"][1]
    layer |= {"module": "mine", "registered_name": "Mine>Dense"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in {**parts, "config.json": json.dumps(config)}.items():
            archive.writestr(name, part)
    with pytest.raises(
        UserError, match=r"first \(Dense\): custom layer Mine>Dense, which no plugin"
    ):
        load(path)


def test_models_of_python_code_are_refused(keras, tmp_path):
    path = saved(randomized(small(keras, "inner")), tmp_path, ".keras")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("config.json", json.dumps({"class_name": "Mine", "config": {}}))
    with pytest.raises(UserError, match="a model must be Sequential or Functional; got Mine"):
        load(path)
