"""A case for each way in which each Keras layer is supported; nothing here imports Keras.

A case is a layer, the shapes that it is called with (without the batch), its configuration, and
what it is called with beside tensors.  ``docs/keras-coverage.md`` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A layer, or a model around it.

    Attributes:
        layer: the class.
        shapes: of its inputs, without the batch.
        config: of the layer; a function of Keras where it holds objects of it.
        call: further arguments.
        dtypes: of the inputs.
        listed: whether it takes its inputs as a list.
        build: makes the outputs from Keras, the layer and the inputs, where that takes more.
        note: tells cases apart.
        tolerance: largest difference over the range.
        outputs: whether only outputs are compared: where a mask hides everything from a query,
            backends give it different values.
    """

    layer: str
    shapes: tuple[Shape, ...]
    config: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    listed: bool = False
    build: Callable[..., Any] | None = None
    note: str = ""
    tolerance: float = 1e-5
    outputs: bool = False

    def __str__(self) -> str:
        config = (
            "" if callable(self.config) else ",".join(f"{k}={v}" for k, v in self.config.items())
        )
        told = ",".join(filter(None, (config, ",".join(self.call), self.note)))
        return f"{self.layer}({told})".replace(" ", "")[:90]


def case(layer: str, *shapes: Shape, call: Mapping[str, Any] | None = None, **config: Any) -> Case:
    """A layer with one input or several."""
    return Case(layer, shapes, config, call or {})


def cases(layer: str, shape: Shape, *configs: Mapping[str, Any]) -> list[Case]:
    """A layer in several configurations."""
    return [Case(layer, (shape,), config) for config in configs]


def merged(layer: str, *shapes: Shape, **config: Any) -> Case:
    """A layer of a list of inputs."""
    return Case(layer, shapes, config, listed=True)


# --- convolution and pooling --------------------------------------------------------------------

LINE, IMAGE, VOLUME = (11, 3), (9, 10, 4), (5, 6, 4, 2)


def _convolutions() -> list[Case]:
    found: list[Case] = []
    for rank, shape in ((1, LINE), (2, IMAGE), (3, VOLUME)):
        first = (shape[-1], *shape[:-1])
        found += cases(
            f"Conv{rank}D",
            shape,
            {"filters": 5, "kernel_size": 3, "activation": "relu"},
            {"filters": 4, "kernel_size": 3, "padding": "same", "strides": 2},
            {"filters": 4, "kernel_size": 2, "padding": "same", "use_bias": False},
            {"filters": 4, "kernel_size": 2, "dilation_rate": 2, "padding": "same"},
        )
        found += cases(
            f"Conv{rank}DTranspose",
            shape,
            {"filters": 3, "kernel_size": 3},
            {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"},
            {"filters": 3, "kernel_size": 2, "strides": 2, "activation": "relu"},
            {"filters": 2, "kernel_size": 2, "strides": 3},
        )
        if rank < 3:
            found += cases(
                f"Conv{rank}DTranspose",
                shape,
                {"filters": 3, "kernel_size": 3, "strides": 2, "output_padding": 1},
                {"filters": 3, "kernel_size": 4, "strides": 2, "padding": "same"},
                {"filters": 3, "kernel_size": 3, "dilation_rate": 2},
            )
            found += cases(
                f"DepthwiseConv{rank}D",
                shape,
                {"kernel_size": 3},
                {"kernel_size": 3, "padding": "same", "strides": 2, "activation": "relu6"},
                {"kernel_size": 2, "depth_multiplier": 2, "use_bias": False},
                {"kernel_size": 3, "dilation_rate": 2, "padding": "same"},
            )
            found += cases(
                f"SeparableConv{rank}D",
                shape,
                {"filters": 5, "kernel_size": 3},
                {"filters": 5, "kernel_size": 3, "padding": "same", "depth_multiplier": 2},
                {
                    "filters": 5,
                    "kernel_size": 3,
                    "strides": 2,
                    "activation": "tanh",
                    "use_bias": False,
                },
            )
        found += cases(
            f"Conv{rank}D",
            first,
            {"filters": 4, "kernel_size": 3, "data_format": "channels_first"},
        )
        for kind in ("Max", "Average"):
            found += cases(
                f"{kind}Pooling{rank}D",
                shape,
                {"pool_size": 2},
                {"pool_size": 2, "strides": 1},
            )
            # Of odd sizes: at one end only, Keras on PyTorch pads averages with copies of the edge.
            odd = (*((9, 7, 5)[:rank]), 3)
            same = {"pool_size": 3, "strides": 2, "padding": "same"}
            found += cases(f"{kind}Pooling{rank}D", odd, same)
            last = {"pool_size": 2, "data_format": "channels_first"}
            found += cases(f"{kind}Pooling{rank}D", first, last)
            found += cases(f"Global{kind}Pooling{rank}D", shape, {}, {"keepdims": True})
            found += cases(f"Global{kind}Pooling{rank}D", first, {"data_format": "channels_first"})
            even = (*(4 for _ in range(rank)), 3)
            found += cases(
                f"Adaptive{kind}Pooling{rank}D", even, {"output_size": 2}, {"output_size": 3}
            )
    found += cases(
        "Conv1D",
        LINE,
        {"filters": 4, "kernel_size": 3, "padding": "causal"},
        {"filters": 4, "kernel_size": 3, "padding": "causal", "dilation_rate": 2},
    )
    found += cases(
        "Conv2D",
        IMAGE,
        {"filters": 6, "kernel_size": 3, "groups": 2},
        {"filters": 4, "kernel_size": [3, 2], "strides": [2, 1], "padding": "same"},
        {"filters": 4, "kernel_size": 1, "activation": "softmax"},
    )
    first = {"data_format": "channels_first"}
    found += cases("DepthwiseConv2D", (4, 9, 10), {"kernel_size": 3, **first})
    found += cases("SeparableConv2D", (4, 9, 10), {"filters": 3, "kernel_size": 3, **first})
    found += cases(
        "Conv2DTranspose", (4, 9, 10), {"filters": 3, "kernel_size": 3, "strides": 2, **first}
    )
    return found


# --- normalization, activation, core ------------------------------------------------------------

_NAMES = (
    "celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear "
    "log_sigmoid log_softmax mish relu relu6 selu sigmoid silu soft_shrink softmax softplus "
    "softsign sparse_plus sparse_sigmoid sparsemax squareplus tanh tanh_shrink"
).split()


def _normalizations() -> list[Case]:
    return [
        *cases(
            "BatchNormalization",
            IMAGE,
            {},
            {"scale": False},
            {"center": False, "epsilon": 1e-2},
            {"axis": 1},
            {"axis": 2},
        ),
        *cases("BatchNormalization", (6,), {}),
        *cases(
            "LayerNormalization",
            IMAGE,
            {},
            {"scale": False},
            {"center": False},
            {"axis": [1, 2, 3]},
            {"axis": [1, 3]},
            {"rms_scaling": True},
        ),
        *cases(
            "GroupNormalization",
            IMAGE,
            {"groups": 2},
            {"groups": -1, "scale": False},
            {"groups": 1, "center": False},
            {"groups": 3, "axis": 1},
        ),
        *cases("UnitNormalization", IMAGE, {}, {"axis": [1, 2]}),
        *cases("RMSNormalization", IMAGE, {}, {"axis": [1, 2, 3]}, {"epsilon": 1e-2}),
        Case(
            "SpectralNormalization",
            (IMAGE,),
            lambda keras: {"layer": keras.layers.Conv2D(3, 3)},
        ),
        Case("SpectralNormalization", ((6,),), lambda keras: {"layer": keras.layers.Dense(3)}),
        case("LayerScale", IMAGE, init_values=0.1, projection_dim=4),
    ]


def _activations() -> list[Case]:
    return [
        *(case("Activation", (5, 6), activation=name) for name in _NAMES),
        *cases(
            "ReLU",
            (5, 6),
            {},
            {"max_value": 1.0},
            {"negative_slope": 0.2},
            {"threshold": 0.5},
            {"max_value": 1.0, "negative_slope": 0.2},
            {"max_value": 1.0, "negative_slope": 0.2, "threshold": 0.5},
        ),
        *cases("LeakyReLU", (5, 6), {}, {"negative_slope": 0.1}),
        *cases("ELU", (5, 6), {}, {"alpha": 0.5}),
        *cases("PReLU", IMAGE, {}, {"shared_axes": [1, 2]}),
        *cases("Softmax", (5, 6), {}, {"axis": 1}, {"axis": [1, 2]}),
        Case("Softmax", ((5, 6), (5, 6)), call={"mask": 1}, dtypes=("float32", "bool")),
    ]


def _core() -> list[Case]:
    dense = [{}, {"activation": "relu"}, {"use_bias": False, "activation": "softmax"}]
    return [
        *cases("Dense", (6,), *({"units": 5, **each} for each in dense)),
        *cases("Dense", (4, 3, 6), {"units": 5}),
        *cases(
            "EinsumDense",
            (4, 6),
            {"equation": "abc,cd->abd", "output_shape": [4, 5], "bias_axes": "d"},
            {
                "equation": "abc,cde->abde",
                "output_shape": [4, 2, 3],
                "bias_axes": "de",
                "activation": "relu",
            },
            {"equation": "...x,xy->...y", "output_shape": [4, 5]},
            {"equation": "abc,cbd->abd", "output_shape": [4, 5]},
        ),
        Case("Embedding", ((5,),), {"input_dim": 7, "output_dim": 3}, dtypes=("int32",)),
        Case(
            "Embedding",
            ((5,),),
            {"input_dim": 7, "output_dim": 3, "mask_zero": True},
            dtypes=("float32",),
        ),
        *(
            case(name, (4, 5, 3), **config)
            for name, config in {
                "Dropout": {"rate": 0.5},
                "AlphaDropout": {"rate": 0.5},
                "GaussianDropout": {"rate": 0.5},
                "GaussianNoise": {"stddev": 0.5},
                "SpatialDropout2D": {"rate": 0.5},
                "ActivityRegularization": {"l1": 0.1},
                "Identity": {},
            }.items()
        ),
        case("SpatialDropout1D", (4, 5), rate=0.5),
        case("SpatialDropout3D", (4, 5, 2, 3), rate=0.5),
        Case(
            "Masking",
            ((4, 3),),
            {"mask_value": 0.0},
            build=lambda keras, layer, x: keras.layers.GlobalAveragePooling1D()(
                layer(keras.layers.ZeroPadding1D((0, 2))(x))
            ),
        ),
    ]


# --- merging, reshaping, preprocessing ----------------------------------------------------------


def _merging() -> list[Case]:
    names = ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")
    return [
        *(merged(name, (4, 3), (4, 3), (4, 3)) for name in names),
        merged("Subtract", (4, 3), (4, 3)),
        merged("Add", (4, 3), (3,)),
        merged("Multiply", (4, 3), (1, 3)),
        merged("Concatenate", (4, 3), (5, 3), axis=1),
        merged("Dot", (6,), (6,), axes=1),
        merged("Dot", (4, 6), (5, 6), axes=2),
        merged("Dot", (6, 4), (5, 6), axes=[1, 2], normalize=True),
    ]


def _reshaping() -> list[Case]:
    first = {"data_format": "channels_first"}
    found = [
        *cases("Reshape", (4, 6), {"target_shape": [8, 3]}, {"target_shape": [-1, 2, 2]}),
        *cases("Flatten", (4, 3, 2), {}, first),
        *cases("Permute", (4, 3, 2), {"dims": [3, 1, 2]}),
        *cases("RepeatVector", (4,), {"n": 3}),
        *cases("Cropping1D", (8, 3), {"cropping": 2}, {"cropping": [1, 2]}),
        *cases(
            "Cropping2D",
            IMAGE,
            {"cropping": 2},
            {"cropping": [[1, 2], [0, 3]]},
            {"cropping": [1, 2]},
        ),
        *cases("Cropping2D", (3, 8, 9), {"cropping": 2, **first}),
        *cases("Cropping3D", VOLUME, {"cropping": 1}, {"cropping": [[1, 2], [0, 3], [1, 1]]}),
        *cases("ZeroPadding1D", (8, 3), {"padding": 2}, {"padding": [1, 2]}),
        *cases("ZeroPadding2D", IMAGE, {"padding": 2}, {"padding": [[1, 2], [0, 3]]}),
        *cases("ZeroPadding2D", (3, 8, 9), {"padding": [1, 2], **first}),
        *cases("ZeroPadding3D", VOLUME, {"padding": 1}, {"padding": [[1, 2], [0, 3], [1, 1]]}),
        *cases("UpSampling1D", (5, 3), {}, {"size": 3}),
        *cases("UpSampling2D", IMAGE, {}, {"size": [2, 3]}, {"interpolation": "bilinear"}),
        *cases("UpSampling2D", (3, 5, 6), {"size": 3, "interpolation": "bilinear", **first}),
        *cases("UpSampling3D", VOLUME, {}, {"size": [1, 2, 3]}),
    ]
    return found


def _spectra() -> list[Case]:
    line, modes = (60, 2), ("log", "magnitude", "psd", "real", "imag", "angle", "stft")
    short = {"frame_length": 12, "frame_step": 5}
    return [
        *cases("STFTSpectrogram", line, *({"mode": mode, **short} for mode in modes)),
        *cases(
            "STFTSpectrogram",
            line,
            {"frame_length": 16},
            {**short, "padding": "same", "expand_dims": True, "fft_length": 32},
            {**short, "window": "hamming", "periodic": True, "scaling": "spectrum"},
            {**short, "window": None, "scaling": None, "mode": "magnitude"},
        ),
        *cases("MelSpectrogram", (6000,), {"num_mel_bins": 16, "min_freq": 100.0}),
        *cases(
            "MelSpectrogram",
            (400,),
            {
                "fft_length": 64, "sequence_length": 40, "sequence_stride": 20, "num_mel_bins": 8,
                "window": "hamming", "sampling_rate": 8000, "power_to_db": False, "mag_exp": 1.0,
            },
            {"fft_length": 128, "sequence_stride": 50, "num_mel_bins": 4, "max_freq": 3000,
             "mag_exp": 3.0, "top_db": 10.0, "ref_power": 2.0, "min_power": 0.5},
        ),
    ]  # fmt: skip


def _preprocessing() -> list[Case]:
    return [
        *cases("Rescaling", IMAGE, {"scale": 1 / 255}, {"scale": 2.0, "offset": -1.0}),
        *cases("Rescaling", (4, 4, 3), {"scale": [1.0, 2.0, 3.0], "offset": [0.0, 1.0, 2.0]}),
        *cases("Normalization", (4, 3), {"mean": 1.0, "variance": 4.0}),
        *cases("Normalization", (4, 3), {"mean": [1.0, 2.0, 3.0], "variance": [4.0, 5.0, 6.0]}),
        *cases("Normalization", (4, 3), {"mean": 1.0, "variance": 4.0, "invert": True}),
        Case("Normalization", ((4, 3),), {}, note="adapted", build=_adapted),
        *cases(
            "Resizing",
            (8, 12, 3),
            {"height": 4, "width": 6},
            {"height": 16, "width": 24, "interpolation": "nearest"},
            {"height": 5, "width": 7},
            {"height": 6, "width": 6, "crop_to_aspect_ratio": True},
            {"height": 6, "width": 6, "pad_to_aspect_ratio": True, "fill_value": 3.0},
            {"height": 5, "width": 7, "antialias": True},
            {"height": 5, "width": 7, "interpolation": "bicubic", "antialias": True},
        ),
        Case(
            "Resizing",
            ((6, 8, 2),),
            {"height": 3, "width": 4},
            dtypes=("int32",),
            note="integers",
        ),
        *cases("CenterCrop", (8, 12, 3), {"height": 5, "width": 6}, {"height": 9, "width": 6}),
        *cases("RandomFlip", (4, 4, 3), {}),
        *cases("RandomRotation", (4, 4, 3), {"factor": 0.2}),
        *cases("RandomZoom", (4, 4, 3), {"height_factor": 0.2}),
        Case("CategoryEncoding", ((4,),), {"num_tokens": 6}, dtypes=("int32",)),
        Case(
            "CategoryEncoding",
            ((4,),),
            {"num_tokens": 6, "output_mode": "count"},
            dtypes=("int32",),
        ),
        *(
            Case(
                "CategoryEncoding",
                ((3, 4),),
                {"num_tokens": 6, "output_mode": mode},
                dtypes=("int32",),
                note="several axes",
            )
            for mode in ("multi_hot", "count")
        ),
        Case(
            "CategoryEncoding",
            ((1,),),
            {"num_tokens": 6, "output_mode": "one_hot"},
            dtypes=("int32",),
        ),
        *cases(
            "Discretization",
            (4,),
            {"bin_boundaries": [-1.0, 0.0, 0.5]},
            {"bin_boundaries": [-1.0, 0.0, 0.5], "output_mode": "multi_hot"},
        ),
    ]


def _adapted(keras: Any, layer: Any, x: Any) -> Any:
    random = keras.random.normal((64, 4, 3), seed=1)
    layer.adapt(keras.ops.convert_to_numpy(random) * 3 + 1)
    return layer(x)


# --- recurrent and attention --------------------------------------------------------------------

STEPS = (6, 4)


def _masked(keras: Any, layer: Any, x: Any) -> Any:
    # Steps 1 and 4 and all from 6 on do not count.
    some = keras.layers.ZeroPadding1D((0, 2))(x)
    spread = keras.layers.ZeroPadding1D((1, 0))(some)
    return layer(keras.layers.Masking()(spread))


def _started(states: int) -> Callable[..., Any]:
    def build(keras: Any, layer: Any, x: Any, *initial: Any) -> Any:
        return layer(x, initial_state=list(initial) if states > 1 else initial[0])

    return build


def _recurrent() -> list[Case]:
    found: list[Case] = []
    sequences = {"return_sequences": True}
    for name, states in (("LSTM", 2), ("GRU", 1), ("SimpleRNN", 1)):
        units = {"units": 5}
        found += cases(
            name,
            STEPS,
            units,
            {**units, **sequences},
            {**units, **sequences, "return_state": True},
            {**units, **sequences, "go_backwards": True},
            {**units, "go_backwards": True, "use_bias": False},
            {**units, "activation": "elu", **sequences},
            {**units, "unroll": True},
        )
        for config in (
            {},
            sequences,
            {"go_backwards": True},
            {"zero_output_for_mask": True, **sequences},
        ):
            config = {**units, **config}
            found.append(Case(name, (STEPS,), config, build=_masked, note="masked"))
        starts = ((5,),) * states
        found.append(
            Case(name, (STEPS, *starts), units, build=_started(states), note="initial_state")
        )
        for mode in ("concat", "sum", "mul", "ave"):
            found.append(
                Case(
                    "Bidirectional", (STEPS,), _both(name, mode, **sequences), note=f"{name},{mode}"
                )
            )
        found.append(Case("Bidirectional", (STEPS,), _both(name, "concat"), note=f"{name},last"))
        found.append(
            Case(
                "Bidirectional",
                (STEPS,),
                _both(name, "concat", **sequences),
                build=_masked,
                note=f"{name},masked",
            )
        )
    found += cases(
        "GRU",
        STEPS,
        {"units": 5, "reset_after": False, "return_sequences": True},
        {"units": 5, "reset_after": False, "activation": "elu"},
        {"units": 5, "recurrent_activation": "hard_sigmoid"},
    )
    found += cases("LSTM", STEPS, {"units": 5, "recurrent_activation": "hard_sigmoid"})
    found += [
        Case("Bidirectional", (STEPS,), _both("LSTM", None), note="None"),
        Case("Bidirectional", (STEPS,), _both("LSTM", "concat", return_state=True), note="states"),
        Case("RNN", (STEPS,), lambda keras: {"cell": keras.layers.LSTMCell(5)}, note="LSTMCell"),
        Case(
            "RNN",
            (STEPS,),
            lambda keras: {"cell": keras.layers.GRUCell(5)},
            build=_masked,
            note="GRUCell",
        ),
        Case(
            "RNN",
            (STEPS,),
            lambda keras: {"cell": keras.layers.SimpleRNNCell(5)},
            note="SimpleRNNCell",
        ),
        Case(
            "RNN",
            (STEPS,),
            lambda keras: {
                "cell": keras.layers.StackedRNNCells(
                    [keras.layers.LSTMCell(5), keras.layers.GRUCell(4), keras.layers.LSTMCell(3)]
                ),
                "return_sequences": True,
            },
            note="StackedRNNCells",
        ),
        Case(
            "TimeDistributed",
            ((3, 5),),
            lambda keras: {"layer": keras.layers.Dense(4)},
            note="Dense",
        ),
        Case(
            "TimeDistributed",
            ((3, 6, 6, 2),),
            lambda keras: {"layer": keras.layers.Conv2D(4, 3, padding="same")},
            note="Conv2D",
        ),
    ]
    return found


def _both(name: str, mode: str | None, **config: Any) -> Callable[[Any], Mapping[str, Any]]:
    return lambda keras: {
        "layer": getattr(keras.layers, name)(4, **config),
        "merge_mode": mode,
    }


def _recurrent_images() -> list[Case]:
    found: list[Case] = []
    sequences = {"return_sequences": True, "padding": "same"}
    for rank, shape in ((1, (4, 7, 2)), (2, (3, 5, 6, 2)), (3, (3, 3, 4, 3, 2))):
        base = {"filters": 3, "kernel_size": 2 if rank == 3 else 3}
        found += cases(
            f"ConvLSTM{rank}D",
            shape,
            base,
            {**base, **sequences},
            {**base, **sequences, "return_state": True},
            {**base, "go_backwards": True, "use_bias": False},
            {**base, "strides": 2, **sequences},
            {**base, "dilation_rate": 2, **sequences},
            {**base, "activation": "relu", "recurrent_activation": "hard_sigmoid"},
        )
        state = (*shape[1:-1], 3)
        config = {**base, "padding": "same"}
        found.append(
            Case(
                f"ConvLSTM{rank}D",
                (shape, state, state),
                config,
                build=_started(2),
                note="initial_state",
            )
        )
    first = (3, 2, 5, 6)
    found += cases(
        "ConvLSTM2D", first, {"filters": 3, "kernel_size": 3, "data_format": "channels_first"}
    )
    return found


def _attention() -> list[Case]:
    query, value = (4, 6), (5, 6)
    heads = {"num_heads": 2, "key_dim": 3}
    grouped = {"num_query_heads": 4, "num_key_value_heads": 2, "head_dim": 3}
    return [
        Case("MultiHeadAttention", (query, value), heads),
        Case(
            "MultiHeadAttention",
            (query, value, value),
            {**heads, "value_dim": 4, "use_bias": False},
        ),
        Case("MultiHeadAttention", (query, query), heads, {"use_causal_mask": True}),
        Case(
            "MultiHeadAttention",
            (query, value),
            {**heads, "output_shape": 5},
            {"return_attention_scores": True},
        ),
        Case(
            "MultiHeadAttention",
            (query, value, (4, 5)),
            heads,
            {"attention_mask": 2},
            ("float32", "float32", "bool"),
        ),
        Case("MultiHeadAttention", ((2, 3, 6), (2, 3, 6)), heads, note="two axes"),
        Case("GroupQueryAttention", (query, value), grouped),
        Case("GroupQueryAttention", (query, query), grouped, {"use_causal_mask": True}),
        *(
            Case("Attention", (query, value), config, call, listed=True)
            for config, call in (
                ({}, {}),
                ({"use_scale": True}, {"use_causal_mask": True}),
                ({"score_mode": "concat"}, {}),
                ({"score_mode": "concat", "use_scale": True}, {}),
                ({}, {"return_attention_scores": True}),
            )
        ),
        Case("Attention", (query, value, value), {}, listed=True),
        Case("AdditiveAttention", (query, value), {}, listed=True),
        Case("AdditiveAttention", (query, value), {"use_scale": False}, listed=True),
        Case(
            "MultiHeadAttention",
            ((4,),),
            heads,
            dtypes=("int32",),
            note="masked",
            outputs=True,
            build=lambda keras, layer, x: (
                lambda y: keras.layers.GlobalAveragePooling1D()(layer(y, y))
            )(keras.layers.Embedding(9, 6, mask_zero=True)(x)),
        ),
        Case(
            "Attention",
            ((4,),),
            {},
            dtypes=("int32",),
            note="masked",
            build=lambda keras, layer, x: (lambda y: layer([y, y]))(
                keras.layers.Embedding(9, 6, mask_zero=True)(x)
            ),
        ),
    ]


FAMILIES: Mapping[str, Sequence[Case]] = {
    "Convolution and pooling": _convolutions(),
    "Normalization": _normalizations(),
    "Activation": _activations(),
    "Core and regularization": _core(),
    "Merging": _merging(),
    "Reshaping": _reshaping(),
    "Preprocessing": _preprocessing() + _spectra(),
    "Recurrent": _recurrent() + _recurrent_images(),
    "Attention": _attention(),
}
CASES = [each for family in FAMILIES.values() for each in family]
