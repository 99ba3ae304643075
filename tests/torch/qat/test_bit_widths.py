"""Learned bit widths: their budget, the term of the loss, and what freezing makes of them."""

from typing import Any

import pytest
import torch
from torch import nn

from tests.torch.qat.nets import images, residual
from weft.errors import UserError
from weft.torch import (
    Budget,
    bit_penalty,
    convert,
    freeze_bits,
    prepare_qat,
    qat_parameters,
    qat_summary,
)


def learning(**given: Any) -> Any:
    return prepare_qat(residual(), images(), ends=None, **given)


def bits_of(module: nn.Module) -> dict[str, float]:
    return {each.path: each.weight_bits for each in qat_summary(module).layers}


def test_the_penalty_is_the_distance_from_the_budget():
    module = learning(weights=6, budget=Budget(mean_bits=4))
    assert float(bit_penalty(module).detach()) == pytest.approx(0.5)
    bit_penalty(module).backward()
    # Weights are 144, 72, 64 and 160.
    assert float(module.head.weight_quantizer.bits.grad) == pytest.approx(160 / 440 / 4)
    bytes_given = learning(weights=4, budget=Budget(bytes=440))
    assert float(bit_penalty(bytes_given).detach()) == pytest.approx(0.5)


def test_training_learns_bits_within_the_budget():
    module = learning(weights=6, budget=Budget(mean_bits=4))
    optimizer = torch.optim.Adam(qat_parameters(module, 0.01))
    x = images(64)
    wanted = torch.randn(64, 5)
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), wanted) + bit_penalty(module)
        loss.backward()
        optimizer.step()
    learned = bits_of(module)
    assert len(set(learned.values())) == 4
    freeze_bits(module)
    frozen = bits_of(module)
    assert all(bits == int(bits) and 2 <= bits <= 8 for bits in frozen.values())
    assert qat_summary(module).mean_bits <= 4
    optimizer.step()
    assert bits_of(module) == frozen
    assert convert(module.eval(), x[:1]).outputs


def test_freezing_rounds_the_largest_fractions_up_as_the_budget_allows():
    module = learning(budget=Budget(mean_bits=4))
    layers = [module.stem[0], module.depthwise, module.pointwise, module.head]
    with torch.no_grad():
        for layer, bits in zip(layers, (3.5, 4.9, 5.2, 4.1), strict=True):
            layer.weight_quantizer.bits.fill_(bits)
    freeze_bits(module)
    # 4 * 440 - (3 * 144 + 4 * 72 + 5 * 64 + 4 * 160) = 80: enough for 72, not for 144 or 64 more.
    assert list(bits_of(module).values()) == [3, 5, 5, 4]


def test_freezing_takes_from_the_widest_where_training_missed_the_budget():
    module = learning(weights=7, budget=Budget(bytes=165))
    freeze_bits(module)
    assert qat_summary(module).bytes <= 165
    assert set(bits_of(module).values()) == {3}


def test_refusals():
    with pytest.raises(UserError) as error:
        Budget()
    assert str(error.value) == "a budget is either mean_bits or bytes; got neither"
    with pytest.raises(UserError) as error:
        Budget(4, 1000)
    assert str(error.value) == "a budget is either mean_bits or bytes; got both"
    with pytest.raises(UserError) as error:
        Budget(mean_bits=1.5)
    assert str(error.value) == "mean_bits must be 2 to 8; got 1.5"
    with pytest.raises(UserError) as error:
        learning(budget=Budget(bytes=100))
    assert str(error.value) == (
        "weights take at least 110 bytes with 2 bits where bits are learned; "
        "got a budget of 100 bytes"
    )
    with pytest.raises(UserError) as error:
        prepare_qat(nn.Linear(2, 2), torch.ones(1, 2), budget=Budget(4))
    assert str(error.value) == (
        "a budget needs layers whose bits can be learned; "
        "got none besides the first, the last and those of `layers`. "
        "Give ends=None, or fewer entries of `layers`."
    )
    with pytest.raises(UserError) as error:
        freeze_bits(learning())
    assert str(error.value) == (
        "freeze_bits is for learned bit widths; got a module prepared without a budget. "
        "prepare_qat(module, example, budget=weft.torch.Budget(mean_bits=4))"
    )
