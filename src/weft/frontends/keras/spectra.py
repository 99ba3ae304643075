# pyright: basic
"""Spectra: layers and functions of Fourier transforms.

Complex numbers are pairs of tensors in Keras, and pairs of numbers along a last axis in Weft.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.convolution import image, same
from weft.frontends.keras.record import Config, Emit, Tensor, layer, operation

_EPSILON = 1e-7
_MOST = 1 << 24
"""Samples of a window, and elements of filters, that no model outgrows."""
Pair = Sequence[Tensor]
Window = str | Tensor | Sequence[float] | None

# --- Fourier transforms -----------------------------------------------------------------------


def _floating(g: Emit, x: Tensor) -> Tensor:
    return x if x.dtype in (DType.F32, DType.F64) else g.cast(x, DType.F32)


def _joined(g: Emit, x: Pair) -> Tensor:
    """Real and imaginary parts as one tensor."""
    if isinstance(x, Tensor) or len(x) != 2:
        g.refuse("its input must be a pair of real and imaginary parts")
    parts = [_floating(g, each) for each in x]
    return g.concat([g("Unsqueeze", each, axes=(each.rank,)) for each in parts], parts[0].rank)


def _parted(g: Emit, x: Tensor) -> tuple[Tensor, Tensor]:
    """One tensor as real and imaginary parts."""
    last = x.rank - 1
    real, imaginary = (g.slice(x, last, part, part + 1) for part in (0, 1))
    return g.reshape(real, x.shape[:-1]), g.reshape(imaginary, x.shape[:-1])


def _transformed(g: Emit, x: Pair, axes: Sequence[int], inverse: int) -> tuple[Tensor, Tensor]:
    made = _joined(g, x)
    if made.rank <= len(axes):
        g.refuse(f"its input must have at least {len(axes)} dimensions")
    for axis in axes:
        made = g("DFT", made, axis=axis, inverse=inverse)
    return _parted(g, made)


@operation("FFT")
def fft(g: Emit, x: Pair) -> tuple[Tensor, Tensor]:
    return _transformed(g, x, (-2,), 0)


@operation("FFT2")
def fft2(g: Emit, x: Pair) -> tuple[Tensor, Tensor]:
    return _transformed(g, x, (-3, -2), 0)


@operation("IFFT2")
def ifft2(g: Emit, x: Pair) -> tuple[Tensor, Tensor]:
    return _transformed(g, x, (-3, -2), 1)


@operation("RFFT")
def rfft(g: Emit, x: Tensor, fft_length: int | None = None) -> tuple[Tensor, Tensor]:
    x = _floating(g, x)
    wide = g("Unsqueeze", x, axes=(x.rank,))
    return _parted(g, g("DFT", wide, dft_length=_length(g, fft_length), onesided=1))


@operation("IRFFT")
def irfft(g: Emit, x: Pair, fft_length: int | None = None) -> Tensor:
    made = g("DFT", _joined(g, x), dft_length=_length(g, fft_length), inverse=1, onesided=1)
    return g.reshape(made, made.shape[:-1])


def _length(g: Emit, found: object) -> int | None:
    return None if found is None else _whole(g, "fft_length", found)


def _whole(g: Emit, name: str, found: object) -> int:
    if not isinstance(found, int) or not 1 <= found <= _MOST:
        g.refuse(f"{name} must be a whole number within [1, {_MOST}], but is {str(found)[:40]}")
    return found


# --- frames -----------------------------------------------------------------------------------


@operation("ExtractSequences")
def extract_sequences(g: Emit, x: Tensor, sequence_length: int, sequence_stride: int) -> Tensor:
    # The axis of places comes last, behind that of the frames.
    return g("Frames", x, length=sequence_length, step=sequence_stride)


def _window(g: Emit, window: Window, length: int, fft_length: int) -> np.ndarray:
    """A window, between zeros that make it as long as the transform."""
    if _whole(g, "sequence_length", length) > _whole(g, "fft_length", fft_length):
        g.refuse(f"sequence_length must be within [1, {fft_length}], but is {length}")
    if isinstance(window, Tensor):
        held = g.array(window)
        found = held if held is not None else g.refuse("its window must be known")
    elif window is None or not isinstance(window, str):
        found = np.ones(length) if window is None else np.asarray(window, np.float64)
    else:
        terms = {"hann": 0.5, "hamming": 0.54}
        if window not in terms:
            g.refuse(f"window must be hann or hamming, but is {window}")
        wave = np.cos(2 * np.pi * np.arange(length) / length)
        found = terms[window] - (1 - terms[window]) * wave
    if found.shape != (length,):
        g.refuse(f"its window must have {length} elements, but has {list(found.shape)}")
    before = (fft_length - length) // 2
    return np.pad(found.astype(np.float64), (before, fft_length - length - before))


def _spectrum(g: Emit, x: Tensor, window: np.ndarray, sequence_stride: int, center: bool) -> Tensor:
    """``[rows, frames, bins, 2]`` of rows of samples."""
    length, half = len(window), len(window) // 2
    rows = g.reshape(x, (prod(x.shape[:-1]), x.shape[-1], 1))
    if center:
        if half >= x.shape[-1]:
            g.refuse(f"there must be more than {half} samples, but are {x.shape[-1]}")
        rows = g("Pad", rows, pads=(0, half, 0, 0, half, 0), mode="reflect")
    if rows.shape[1] < length:
        g.refuse(f"there must be at least {length} samples, but are {rows.shape[1]}")
    held = g.held(window.astype(x.dtype.numpy), "window")
    return g("STFT", rows, held, frame_step=sequence_stride, onesided=1)


@operation("STFT")
def stft(
    g: Emit,
    x: Tensor,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Window = "hann",
    center: bool = True,
) -> tuple[Tensor, Tensor]:
    made = _spectrum(g, x, _window(g, window, sequence_length, fft_length), sequence_stride, center)
    real, imaginary = _parted(g, made)
    shape = (*x.shape[:-1], *made.shape[1:3])
    return g.reshape(real, shape), g.reshape(imaginary, shape)


@operation("ISTFT")
def istft(
    g: Emit,
    x: Pair,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    length: int | None = None,
    window: Window = "hann",
    center: bool = True,
) -> Tensor:
    _whole(g, "sequence_stride", sequence_stride)
    frames = irfft(g, x, fft_length)
    forward = _window(g, window, sequence_length, fft_length)
    if window is not None:
        # What overlapping frames add up to is divided out.
        steps = -(-fft_length // sequence_stride)
        squares = np.pad(forward**2, (0, steps * sequence_stride - fft_length))
        sums = squares.reshape(steps, sequence_stride).sum(0)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = forward / np.tile(sums, steps)[:fft_length]
        frames = g.mul(frames, g.held(inverse.astype(frames.dtype.numpy), "window"))
    added = g("OverlapAdd", frames, step=sequence_stride)
    whole = added.shape[-1]
    start = fft_length // 2 if center else 0
    stop = start + length if length is not None else whole - (start if center else 0)
    return g.slice(added, added.rank - 1, start, max(start, min(stop, whole)))


# --- layers -----------------------------------------------------------------------------------


@layer("STFTSpectrogram")
def stft_spectrogram(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed("window", "periodic", "scaling", "fft_length")  # the kernels hold them
    modes = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")
    mode, first, wide = c.text("mode", "log", modes), c.channels_first(), c.flag("expand_dims")
    length = c.size("frame_length", 256)
    step = c.size("frame_step") if c.has("frame_step") else max(1, length // 2)
    padding = c.text("padding", "valid", ("valid", "same"))
    c.heed("frame_step")
    names = [name for name in ("real", "imag") if mode not in ("real", "imag") or mode == name]
    kernels = g.arrays_of(*(f"{name}_kernel" for name in names))
    x = g.cast(inputs, g.compute)
    if x.rank != 3:
        g.refuse(f"its input must have 3 dimensions, but has {x.rank}")
    x = x if first else g.transpose(x, (0, 2, 1))
    batch, channels, samples = x.shape
    weight = np.moveaxis(np.concatenate(kernels, 2), (-1, -2), (0, 1))
    lines = g.reshape(x, (batch * channels, samples, 1))
    pads = same((samples,), (length,), (step,), (1,)) if padding == "same" else (0, 0)
    made = image(g, "Conv", False, lines, g.held(weight, "kernels"), strides=(step,), pads=pads)
    frames, bins = made.shape[1], made.shape[2] // len(names)
    made = g.reshape(made, (batch, channels, frames, made.shape[2]))
    if mode not in ("real", "imag", "stft"):
        made = _told(
            g, mode, *(g.slice(made, 3, part * bins, (part + 1) * bins) for part in (0, 1))
        )
    if wide:
        return g.transpose(made, (0, 1, 2, 3) if first else (0, 2, 3, 1))
    if first:
        return g.reshape(g.transpose(made, (0, 1, 3, 2)), (batch, channels * made.shape[3], frames))
    return g.reshape(g.transpose(made, (0, 2, 1, 3)), (batch, frames, channels * made.shape[3]))


def _told(g: Emit, mode: str, real: Tensor, imaginary: Tensor) -> Tensor:
    """What is given of complex numbers, frequencies along the last axis."""
    if mode == "angle":
        return g("Atan2", imaginary, real)
    power = g("Add", g("Mul", real, real), g("Mul", imaginary, imaginary))
    if mode == "psd":
        twice = np.full(power.shape[-1], 2, power.dtype.numpy)
        twice[0] = twice[-1] = 1  # which have no mirror image
        return g.mul(power, g.held(twice, "mirrored"))
    magnitude = g("Sqrt", g("Max", power, g.number(_EPSILON, power.dtype)))
    if mode == "magnitude":
        return magnitude
    return g("Log", g("Max", magnitude, g.number(_EPSILON, power.dtype)))


@layer("MelSpectrogram")
def mel_spectrogram(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    fft_length = c.size("fft_length", 2048)
    length = c.size("sequence_length") if c.has("sequence_length") else fft_length
    window = _window(g, c.get("window", "hann"), length, fft_length)
    step = c.size("sequence_stride", 512)
    rate = c.number("sampling_rate", 16000)
    highest = c.number("max_freq") if c.get("max_freq") else int(rate / 2)
    wanted = DType.F64 if g.compute is DType.F64 else DType.F32
    x = g.cast(inputs, wanted)
    if x.rank not in (1, 2):
        g.refuse(f"its input must have 1 or 2 dimensions, but has {x.rank}")
    spectrum = _spectrum(g, x, window, step, True)
    made = g("ReduceSum", g("Mul", spectrum, spectrum), axes=(3,), keepdims=0)
    exponent = c.number("mag_exp", 2.0)
    if exponent == 1:
        made = g("Sqrt", made)
    elif exponent != 2:
        made = g.pair("Pow", made, exponent / 2)
    filters = _mel_filters(
        g, c.size("num_mel_bins", 128), made.shape[-1], rate, c.number("min_freq", 20.0), highest
    )
    made = g("MatMul", made, g.held(filters.astype(made.dtype.numpy), "filters"))
    made = g.transpose(made, (0, 2, 1))
    least, reference = c.number("min_power", 1e-10), c.number("ref_power", 1.0)
    below = c.number("top_db", 80.0)
    if c.flag("power_to_db", True):
        logs = g.mul(g("Log10", g("Max", made, g.number(least, made.dtype))), 10.0)
        logs = g.add(logs, -10 * float(np.log10(max(abs(reference), least))))
        loudest = g("ReduceMax", logs, keepdims=0)
        made = g("Max", logs, g.add(loudest, -below))
    made = g.reshape(made, (*x.shape[:-1], *made.shape[1:]))
    return g.cast(made, g.compute)


def _mel_filters(
    g: Emit, count: int, bins: int, rate: float, lowest: float, highest: float
) -> np.ndarray:
    """Triangles that are straight in mel, ``[bins, count]``; the lowest bin is in none."""

    def mel(hertz: np.ndarray | float) -> np.ndarray:
        return 1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0)

    if count * bins > _MOST:
        g.refuse(f"filters must have at most {_MOST} elements")
    places = mel(np.linspace(0.0, rate / 2, bins))[1:, None]
    edges = np.linspace(mel(lowest), mel(highest), count + 2)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (places - left) / (centre - left), (right - places) / (right - centre)
    found = np.zeros((bins, count))
    found[1:] = np.maximum(0, np.minimum(rising, falling))
    return found
