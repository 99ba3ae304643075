"""Architectures of ``keras.applications`` with random weights, and images for them.

Three kinds of weights:

- ``initial``: what Keras draws for ``weights=None``.
- ``settled``: the initializers' kernels, scales and shifts as wide as those of trained networks,
  statistics of batch normalization from images with the spectrum of natural ones, and layers that
  nothing normalizes scaled so that their sums have a standard deviation of 1, logits 3.  Networks
  so made can be chaotic: differences grow from layer to layer (Yang and others, "A Mean Field
  Theory of Batch Normalization", 2019), and rounding with them, so that Keras's own results are as
  far from double precision as a bound on errors allows.
- ``trained``: settled, and then trained for some steps, which ends that.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from weft.frontends.keras.session import import_keras

KINDS = ("initial", "settled", "trained")
SIDE = 96
SIZES = {"NASNetMobile": 224, "VGG16": 224, "VGG19": 224, "InceptionV3": 139}
BATCH = 8
"""Images that statistics are of."""
STEPS, RATE, MOMENTUM, TRAINED_ON = 60, 0.002, 0.9, 16
"""Of the training: steps, and images of a step."""


def sizes_of(name: str) -> int:
    """The side of the images."""
    return SIZES.get(name, SIDE)


def model_of(name: str, weights: str = "initial") -> Any:
    """The architecture with weights of one of the `KINDS`."""
    keras = import_keras()
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    side = sizes_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(keras.applications, name)(weights=None, input_shape=(side, side, 3))
        if weights != "initial":
            _settle(keras, model, images_of(name, BATCH))
        if weights == "trained":
            _train(keras, model, name)
    return model


def images_of(name: str, count: int) -> np.ndarray:
    """Random images with the spectrum of natural ones, as the architecture wants them.

    The amplitudes fall with the frequency; all frequencies alike would be nearly the same image
    for any network, whose normalizations would then amplify the rounding of small differences.
    """
    side, random = sizes_of(name), np.random.default_rng(1)
    rows, columns = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    frequency = np.maximum(np.hypot(rows, columns), 1 / side)
    noise = np.fft.rfft2(random.normal(size=(count, 4, side, side))) / frequency
    fields = np.fft.irfft2(noise, (side, side))
    # Three colours have much in common: the brightness.
    colours = fields[:, :1] + 0.5 * fields[:, 1:]
    colours /= colours.std(axis=(1, 2, 3), keepdims=True)
    contrast = random.uniform(30, 70, (count, 1, 1, 1))
    images = random.uniform(80, 170, (count, 1, 1, 1)) + contrast * colours
    return _preprocessed(name, images.clip(0, 255).transpose(0, 2, 3, 1))


def _preprocessed(name: str, images: np.ndarray) -> np.ndarray:
    """Images of 0 to 255, channels last, as the architecture wants them."""
    module = sys.modules[getattr(import_keras().applications, name).__module__]
    return np.ascontiguousarray(module.preprocess_input(images.astype(np.float32)), np.float32)


def _settle(keras: Any, model: Any, images: np.ndarray) -> None:
    """Realistic statistics: normalizations have seen data, and what is not normalized is wide."""
    random = np.random.default_rng(1)
    layers = list(model._flatten_layers(include_self=False))
    for layer in layers:
        for weight in layer.weights:
            shape = weight.shape
            if weight.name == "gamma" or type(layer).__name__ == "LayerScale":
                weight.assign(random.uniform(0.5, 1.5, shape))
            elif weight.name in ("beta", "bias"):
                weight.assign(random.normal(0, 0.3, shape))
    with ExitStack() as wrapped:
        for layer in layers:
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.momentum = 0.0
            elif isinstance(layer, keras.layers.Dropout):
                layer.rate = 0.0
            elif getattr(layer, "use_bias", False) and hasattr(layer, "kernel"):
                # Logits of trained classifiers are a few units apart.
                wide = 3.0 if layer is model.layers[-1] else 1.0
                call = _scaling(keras, layer, wide)
                object.__setattr__(layer, "call", call)
                wrapped.callback(object.__delattr__, layer, "call")
        model(images, training=True)


def _scaling(keras: Any, layer: Any, wide: float) -> Callable[..., Any]:
    """The call of a layer that first gives its sums a standard deviation."""
    call, activation = layer.call, layer.activation

    def scaling(*args: Any, **kwargs: Any) -> Any:
        layer.activation = keras.activations.linear
        sums = call(*args, **kwargs)
        layer.activation = activation
        scale = wide / max(float(keras.ops.std(sums)), 1e-6)
        layer.kernel.assign(layer.kernel * scale)
        return call(*args, **kwargs)

    return scaling


def digits_of(name: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits of scikit-learn, as large and of such values as the architecture wants.

    Args:
        name: the architecture.
        count: of the images.
        seed: which they are, and of their noise.

    Returns:
        The images, and their classes.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415 # pyright: ignore

    data: Any = load_digits()
    random, side = np.random.default_rng(seed), sizes_of(name)
    chosen = random.integers(0, len(data.target), count)
    small = (data.images[chosen] * 15.0)[..., None].astype(np.float32)
    grown = np.asarray(import_keras().ops.image.resize(small, (side, side), "bilinear"))
    noisy = grown + random.normal(0, 10, (count, side, side, 3))
    return _preprocessed(name, noisy.clip(0, 255)), data.target[chosen]


def _train(keras: Any, model: Any, name: str) -> None:
    """Trains by plain descent with momentum, and lets normalizations see the data."""
    optimizer = keras.optimizers.SGD(RATE, MOMENTUM)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    for step in range(STEPS):
        model.train_on_batch(*digits_of(name, TRAINED_ON, step))
    model(digits_of(name, BATCH, STEPS)[0], training=True)
