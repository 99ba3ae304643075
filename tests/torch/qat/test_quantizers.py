"""Rounding and its gradients, against the papers' formulas and finite differences."""

import pytest
import torch

from weft.torch.qat.activations import ActivationQuantizer
from weft.torch.qat.rounding import fitted_step
from weft.torch.qat.weights import LsqWeightQuantizer, SatWeightQuantizer, largest_of


def lsq_gradient(x: torch.Tensor, step: float, low: int, high: int) -> torch.Tensor:
    """Equation 3 of Esser et al., element by element."""
    scaled = x / step
    inside = torch.round(scaled) - scaled
    return torch.where(scaled <= low, low, torch.where(scaled >= high, high, inside))


def activation_quantizer(bits: int, step: float, zero: int) -> ActivationQuantizer:
    made = ActivationQuantizer(bits)
    with torch.no_grad():
        made.step.fill_(step)
        made.zero_point.fill_(zero)
    return made


@pytest.mark.parametrize(("bits", "zero"), [(2, 0), (4, 0), (4, 8), (8, 100)])
def test_activations_have_lsq_gradients(bits, zero):
    x = torch.randn(6, 50).requires_grad_()
    quantizer = activation_quantizer(bits, 0.13, zero)
    weights = torch.randn(6, 50)
    made = quantizer(x)
    (made * weights).sum().backward()
    low, high = -zero, (1 << bits) - 1 - zero
    scaled = x.detach() / 0.13
    torch.testing.assert_close(made, torch.round(scaled).clamp(low, high) * 0.13)
    inside = (scaled >= low) & (scaled <= high)
    assert inside.float().mean() > 0.1
    torch.testing.assert_close(x.grad, weights * inside)
    expected = (lsq_gradient(x.detach(), 0.13, low, high) * weights).sum()
    expected = expected / (50 * ((1 << bits) - 1)) ** 0.5
    torch.testing.assert_close(quantizer.step.grad, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_have_lsq_gradients_by_channel(axis):
    weight = torch.randn(5, 4, 3)
    quantizer = LsqWeightQuantizer(weight, axis, 3, learned=False)
    with torch.no_grad():
        # No weight stands exactly at a bound.
        quantizer.step.mul_(0.97)
    parameter = weight.clone().requires_grad_()
    factors = torch.randn_like(weight)
    (quantizer(parameter) * factors).sum().backward()
    rows, scaled = weight.movedim(axis, 0).flatten(1), factors.movedim(axis, 0).flatten(1)
    steps = quantizer.step.detach().tolist()
    expected = [
        (lsq_gradient(row, step, -3, 3) * factor).sum() / (len(row) * 3) ** 0.5
        for row, step, factor in zip(rows, steps, scaled, strict=True)
    ]
    torch.testing.assert_close(quantizer.step.grad, torch.stack(expected))


def test_the_gradient_of_a_clamped_step_is_that_of_finite_differences():
    # Beyond the last step, and where nothing is rounded, the derivative exists.
    x = torch.tensor([[9.0, -9.0, 7.5, 0.0]])
    quantizer = activation_quantizer(4, 0.25, 8)
    quantizer(x).sum().backward()
    epsilon = 1e-3
    with torch.no_grad():
        values = []
        for sign in (1, -1):
            quantizer.step.fill_(0.25 + sign * epsilon)
            values.append(float(quantizer(x).double().sum()))
    expected = (values[0] - values[1]) / (2 * epsilon) / (4 * 15) ** 0.5
    assert float(quantizer.step.grad) == pytest.approx(expected, rel=1e-3)


def test_sat_keeps_the_mean_square_and_its_gradient_is_the_clamps():
    weight = torch.randn(6, 40) * torch.linspace(0.01, 2, 6)[:, None]
    quantizer = SatWeightQuantizer(weight, 0, 4, learned=False)
    parameter = weight.clone().requires_grad_()
    made = quantizer(parameter)
    torch.testing.assert_close(made.square().mean(1), weight.square().mean(1))
    whole, scale = quantizer.integers(weight)
    assert (int(whole.min()), int(whole.max())) == (-7, 7) or int(whole.abs().max()) == 7
    torch.testing.assert_close(whole * scale[:, None], made)
    made.sum().backward()
    largest = weight.tanh().abs().amax(1, keepdim=True)
    expected = 7 * scale[:, None] * (1 - weight.tanh().square()) / largest
    torch.testing.assert_close(parameter.grad, expected)


@pytest.mark.parametrize("kind", [LsqWeightQuantizer, SatWeightQuantizer])
def test_fractional_bits_are_between_whole_ones(kind):
    weight = torch.randn(4, 30)
    quantizer = kind(weight, 0, 4, learned=True)
    below, above = quantizer._with(weight, 3), quantizer._with(weight, 4)
    with torch.no_grad():
        quantizer.bits.fill_(3.25)
    made = quantizer(weight)
    torch.testing.assert_close(made, 0.75 * below + 0.25 * above)
    factors = torch.randn_like(weight)
    (made * factors).sum().backward()
    torch.testing.assert_close(quantizer.bits.grad, ((above - below) * factors).sum())
    assert torch.equal(quantizer.eval()(weight), below)


@pytest.mark.parametrize(("low", "high"), [(-7, 7), (0, 15), (-1, 1)])
def test_the_fitted_step_has_the_least_error(low, high):
    samples = torch.randn(3, 500)
    steps = fitted_step(samples, low, high)

    def error(step: torch.Tensor) -> torch.Tensor:
        held = (samples / step[:, None]).round().clamp(low, high) * step[:, None]
        return (held - samples).square().mean(1)

    best = error(steps)
    for factor in (0.5, 0.8, 1.25, 2):
        assert (best <= error(steps * factor) * 1.0001).all()
    assert torch.equal(fitted_step(torch.zeros(2, 3), low, high), torch.ones(2))


def test_largest():
    assert [largest_of(bits) for bits in (2, 3, 4, 8)] == [1, 3, 7, 127]
