# pyright: basic
"""Rows of complex numbers and of Fourier transforms."""

import pytest
import torch
from torch import fft

from tests.torch.aten.checking import check, refusals

torch.manual_seed(0)
X, Y = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
Z, W = torch.complex(X, Y), torch.complex(Y, X + 1)
ROW = torch.randn(5, dtype=torch.complex64)
PAIRS = torch.randn(3, 4, 2)
SOUND = torch.randn(2, 120)
WINDOW = torch.hann_window(16)


@pytest.mark.parametrize("compiled", [False, True])
def test_arithmetic(compiled: bool):
    cases = {
        "pairs": (torch.view_as_complex, PAIRS),
        "parts": (lambda z: (torch.view_as_real(z), z.real, z.imag), Z),
        "joined": (torch.complex, X, Y),
        "polar": (torch.polar, X.abs(), Y),
        "abs": (torch.abs, Z),
        "angle": (torch.angle, Z),
        "conj": (lambda z: z.conj() * 2, Z),
        "conj_physical": (torch.conj_physical, Z),
        "exp": (torch.exp, Z),
        "phase": (lambda x: torch.exp(1j * x), X),
        "neg": (torch.neg, Z),
        "reciprocal": (torch.reciprocal, W),
        "square": (lambda z: z**2 + z**3, Z),
        "add": (lambda z, w: z + w, Z, W),
        "add_row": (lambda z, w: z - w, Z, ROW),
        "add_real": (lambda z, x: (z + x, x - z, z + 1, z - 2j), Z, Y),
        "add_scaled": (lambda z, w: torch.add(z, w, alpha=2), Z, W),
        "mul": (lambda z, w: z * w, Z, W),
        "mul_row": (lambda z, w: z * w, Z, ROW),
        "mul_real": (lambda z, x: (z * x, x * z, z * 3, z * (1 + 2j)), Z, Y),
        "div": (lambda z, w: z / w, Z, W),
        "div_real": (lambda z, x: (z / (x.abs() + 1), z / 4, 1 / z), W, Y),
        "where": (lambda z, w, x: torch.where(x > 0, z, w), Z, W, X),
        "sums": (
            lambda z: (z.sum(), z.sum([]), z.sum(1), z.sum((-1, 0), keepdim=True), z.mean(-2)),
            Z,
        ),
        "in_place": (lambda z, w: z.clone().mul_(w).add_(1), Z, W),
        "double": (lambda z: z * z, Z.to(torch.complex128)),
    }
    check(cases, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_places_of_complex_numbers(compiled: bool):
    cases = {
        "shapes": (lambda z: (z.reshape(12, 5), z.flatten(1), z[None], z[:, None].squeeze(1)), Z),
        "orders": (lambda z: (z.permute(2, 0, 1), z.transpose(-1, 0), z.mT, z[0].t()), Z),
        "parts": (lambda z: (z[:, 1:3], z[..., -1], z[..., ::2], *z.unbind(-1)), Z),
        "split": (lambda z: (*z.split(2, dim=-1), *z.chunk(2, dim=1)), Z),
        "cat": (lambda z, w: (torch.cat([z, w], -1), torch.stack([z, w], -1)), Z, W),
        "expand": (lambda z: (z.expand(3, 4, 5), z.repeat(2, 1)), ROW.expand(4, 5).clone()),
        "flip": (lambda z: (z.flip(-1), z.roll(2, -1), z.roll(3)), Z),
        "pad": (lambda z: torch.nn.functional.pad(z, (1, 2, 0, 3)), Z),
        "types": (lambda z, x: (x.to(torch.complex64), x.type_as(z)), Z, X),
        "filled": (
            lambda z: (torch.zeros_like(z) + z, torch.ones_like(z) * z, torch.full_like(z, 2j) + z),
            Z,
        ),
        "fft_shift": (lambda z: (fft.fftshift(z), fft.ifftshift(z, dim=-1)), Z),
    }
    check(cases, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_writes_into_parts(compiled: bool):
    def modes(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3, 4, 7, dtype=torch.complex64)
        made[..., :5] = z * w
        made[:, 1, -2] = 1
        return made

    check({"modes": (modes, Z, W)}, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_products_of_matrices(compiled: bool):
    cases = {
        "mm": (lambda z, w: z @ w, Z[0], W[0].mT.contiguous()),
        "bmm": (lambda z, w: z @ w.mT, Z, W),
        "mixed": (lambda z, w: z[0] @ w[0].T.to(torch.complex64), Z, X),
        "einsum": (
            lambda z, w: torch.einsum("bix,ibx->xb", z, w),
            Z,
            W.transpose(0, 1).contiguous(),
        ),
    }
    check(cases, compiled=compiled)


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
@pytest.mark.parametrize("compiled", [False, True])
def test_transforms(norm: str, compiled: bool):
    options = {"norm": norm}
    cases = {
        "fft": (lambda z: (fft.fft(z, **options), fft.fft(z, 7, 1, **options)), Z),
        "fft_real": (lambda x: fft.fft(x, dim=0, **options), X),
        "ifft": (lambda z: (fft.ifft(z, **options), fft.ifft(z, 3, **options)), Z),
        "ifft_real": (lambda x: fft.ifft(x, **options), X),
        "rfft": (lambda x: (fft.rfft(x, **options), fft.rfft(x, 9, -2, **options)), X),
        "irfft": (lambda z: (fft.irfft(z, **options), fft.irfft(z, 7, 0, **options)), Z),
        "fft2": (lambda z: (fft.fft2(z, **options), fft.fft2(z, (3, 6), **options)), Z),
        "ifft2": (lambda z: fft.ifft2(z, dim=(0, 1), **options), Z),
        "rfft2": (lambda x: fft.rfft2(x, **options), X),
        "irfft2": (lambda z: fft.irfft2(z, (6, 9), **options), Z),
        "fftn": (lambda z: (fft.fftn(z, **options), fft.ifftn(z, (2, 3), **options)), Z),
        "rfftn": (lambda x: fft.irfftn(fft.rfftn(x, **options), X.shape, **options), X),
        "decomposed": (
            lambda z, x: (
                torch.ops.aten._fft_c2c(z, [0, 2], 1, False),
                torch.ops.aten._fft_r2c(x, [2, 1], 2, False),
                torch.ops.aten._fft_c2r(z, [1, 2], 1, 8),
            ),
            Z,
            X,
        ),
    }
    check(cases, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_frames(compiled: bool):
    def spectrum(x: torch.Tensor, *sizes: int, **options: object) -> torch.Tensor:
        return torch.stft(x, *sizes, return_complex=True, **options)

    def and_back(x: torch.Tensor, *sizes: int, **options: object) -> torch.Tensor:
        return torch.istft(spectrum(x, *sizes, **options), *sizes, **options)

    cases = {
        "plain": (lambda x: spectrum(x, 16, window=torch.ones(16)), SOUND),
        "windowed": (lambda x, w: spectrum(x, 16, 5, window=w), SOUND, WINDOW),
        "short": (lambda x, w: spectrum(x, 21, 5, 16, window=w, center=False), SOUND, WINDOW),
        "one": (lambda x, w: spectrum(x[0], 16, 4, window=w, normalized=True), SOUND, WINDOW),
        "two_sided": (lambda x, w: spectrum(x, 16, 8, window=w, onesided=False), SOUND, WINDOW),
        "power": (lambda x, w: spectrum(x, 16, 8, window=w).abs() ** 2, SOUND, WINDOW),
        "back": (lambda x, w: and_back(x, 16, 4, window=w), SOUND, WINDOW),
        "back_normal": (lambda x, w: and_back(x, 16, 4, window=w, normalized=True), SOUND, WINDOW),
        "back_short": (
            lambda x, w: torch.istft(spectrum(x, 20, 4, 16, window=w), 20, 4, 16, w, length=97),
            SOUND,
            WINDOW,
        ),
    }
    check(cases, compiled=compiled)


def test_long_transforms_are_as_exact_as_those_of_pytorch():
    x = torch.randn(4, 4096)
    check({"long": (lambda x: fft.rfft(x), x)}, rtol=0, atol=2e-4)


def test_what_is_refused_says_that_the_numbers_are_complex():
    (why,) = refusals(torch.log, Z)
    assert why == "log.default of complex numbers is not supported"
    assert refusals(lambda z: z**0.5, Z) == ["a power of complex numbers by 0.5 is not supported"]
    (why,) = refusals(lambda z, x: torch.cat([z, x]), Z, X)
    assert "real and complex" in why


def test_large_zeros():
    def padded(z: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3, 1 << 21, dtype=torch.complex64)
        return made[:, : z.shape[-1]] + z[:, 0]

    check({"zeros": (padded, Z)})
