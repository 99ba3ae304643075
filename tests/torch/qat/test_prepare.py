"""What ``prepare_qat`` does to a module, and what it leaves as it was."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import weft
from tests.torch.qat.nets import Residual, images, residual
from tests.turns import a_few
from weft.errors import UserError
from weft.torch import prepare_qat, qat_parameters, qat_summary


def prepared(**given: Any) -> Any:
    return prepare_qat(residual(), images(), **given)


def test_parameters_keep_their_names_and_modules_their_classes():
    module = residual()
    before = copy.deepcopy(module.state_dict())
    made = prepare_qat(module, images())
    assert type(made) is Residual
    assert isinstance(made.depthwise, nn.Conv2d)
    assert type(made.depthwise).__name__ == "Conv2d"
    assert type(module.depthwise) is nn.Conv2d
    after = made.state_dict()
    assert list(module.state_dict()) == list(before)
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert sorted(after.keys() - before.keys()) == [
        "depthwise.input_quantizer.step",
        "depthwise.input_quantizer.zero_point",
        "depthwise.weight_quantizer.step",
        "head.input_quantizer.step",
        "head.input_quantizer.zero_point",
        "head.output_quantizer.step",
        "head.output_quantizer.zero_point",
        "head.weight_quantizer.step",
        "pointwise.input_quantizer.step",
        "pointwise.input_quantizer.zero_point",
        "pointwise.output_quantizer.step",
        "pointwise.output_quantizer.zero_point",
        "pointwise.weight_quantizer.step",
        "stem.0.input_quantizer.step",
        "stem.0.input_quantizer.zero_point",
        "stem.0.weight_quantizer.step",
        "stem.2.output_quantizer.step",
        "stem.2.output_quantizer.zero_point",
    ]


def test_the_mode_is_kept_and_changes_with_the_module():
    module = residual().eval()
    module.stem.train()
    made: Any = prepare_qat(module, images())
    modes = {name: each.training for name, each in made.named_modules()}
    assert not modes["head"]
    assert not modes["head.weight_quantizer"]
    assert modes["stem.0"]
    assert modes["stem.0.weight_quantizer"]
    assert all(each.training for each in made.train().modules())
    assert not any(each.training for each in made.eval().modules())


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "state_dict"])
def test_copies_compute_the_same_and_are_apart(how):
    made, x = prepared().eval(), images()
    if how == "deepcopy":
        other = copy.deepcopy(made)
    elif how == "pickle":
        other = pickle.loads(pickle.dumps(made))
    else:
        other = prepared().eval()
        other.load_state_dict(made.state_dict())
    with torch.no_grad():
        assert torch.equal(other(x), made(x))
        expected = made(x)
        for parameter in other.parameters():
            parameter.zero_()
        assert torch.equal(made(x), expected)
    assert weft.torch.convert(made, x[:1]).outputs


def test_all_of_it_moves_to_a_device():
    made = prepared().to("meta")
    assert {each.device.type for each in made.state_dict().values()} == {"meta"}


def test_layers_of_every_kind():
    class Every(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Conv1d(3, 4, 3)
            self.back = nn.ConvTranspose1d(4, 4, 2, stride=2, groups=2)
            self.two = nn.ConvTranspose2d(1, 3, 2, bias=False)
            self.norm = nn.BatchNorm2d(3)
            self.three = nn.Conv3d(1, 2, 2)
            self.widen = nn.ConvTranspose3d(2, 1, 2)
            self.last = nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.back(self.one(x)).relu()[:, None]
            x = self.norm(self.two(x, output_size=(5, x.shape[3] + 1)))[:, None]
            return self.last(self.widen(self.three(x)).flatten(2)[..., :8].relu())

    x = torch.randn(2, 3, 9)
    made = prepare_qat(Every(), x, weights=8, activations=8)
    paths = [each.path for each in qat_summary(made).layers]
    assert paths == ["one", "back", "two", "three", "widen", "last"]
    made(x).sum().backward()
    assert all(each.grad is not None for each in made.parameters())


def test_what_stays_in_floats_is_said():
    class Some(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 4, batch_first=True)
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
            self.round = nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular")
            self.first, self.last, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(self.lstm(x)[0])
            x = self.attention(x, x, x)[0]
            return self.last(self.round(x.mT).mT.tanh() + x.cos())

    made = prepare_qat(Some(), torch.randn(2, 5, 4), layers={"first": None})
    summary = qat_summary(made)
    assert [each.path for each in summary.layers] == ["last"]
    assert dict(summary.floats) == {
        "lstm": "recurrent layers are not quantized",
        "attention.out_proj": "its forward is not called",
        "round": "it pads with other values than zeros",
        "first": "it was asked for",
        "unused": "its forward is not called",
        "": "no module returns what tanh, cos gives",
    }


def test_layers_that_read_one_value_share_a_quantizer():
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.query(x) @ self.key(x).mT

    made: Any = prepare_qat(Heads(), torch.randn(2, 5, 4), between=None)
    assert made.query.input_quantizer is made.key.input_quantizer
    assert len(list(made.parameters())) == 4 + 3


def test_bits_by_layer_and_at_the_ends():
    made: Any = prepared(weights=3, activations=5, layers={"pointwise": 6})
    assert str(qat_summary(made)) == (
        "4 quantized layers\n"
        "  weights  6.89 bits on average, 379 bytes\n"
        "  layer      weights  bits  bits of the input  bytes\n"
        "  stem.0         144     8                  8    144\n"
        "  depthwise       72     3                  5     27\n"
        "  pointwise       64     6                  6     48\n"
        "  head           160     8                  8    160"
    )
    same: Any = prepared(weights=3, activations=5, ends=None)
    assert {each.weight_bits for each in qat_summary(same).layers} == {3}


def test_groups_of_parameters():
    made = prepared(budget=weft.torch.Budget(mean_bits=4))
    rest, steps, bits = qat_parameters(made, 0.01, weight_decay=0.1, bits_lr=0.2)
    assert {id(each) for each in rest["params"]} == {
        id(each) for name, each in made.named_parameters() if "quantizer" not in name
    }
    assert (steps["lr"], steps["weight_decay"]) == (0.01, 0)
    assert (bits["lr"], bits["weight_decay"], len(bits["params"])) == (0.2, 0, 2)
    torch.optim.SGD([rest, steps, bits], lr=1)


@pytest.mark.parametrize(
    ("module", "given", "message"),
    [
        (
            nn.Sequential(nn.ReLU()),
            {},
            "quantization-aware training needs a convolution or a linear layer; "
            "got none in Sequential",
        ),
        (
            nn.Linear(2, 2),
            {"weights": 9},
            "weights must be a whole number of bits, 2 to 8; got 9",
        ),
        (
            nn.Linear(2, 2),
            {"activations": 1},
            "activations must be a whole number of bits, 2 to 8; got 1",
        ),
        (
            nn.Linear(2, 2),
            {"layers": {"": 3.5}},
            "layers[''] must be a whole number of bits, 2 to 8; got 3.5",
        ),
        (
            nn.Linear(2, 2),
            {"layers": {"head": 4}},
            "layers must name convolutions or linear layers; got 'head'",
        ),
        (
            nn.Linear(2, 2),
            {"method": "dorefa"},
            "method must be lsq or sat; got 'dorefa'",
        ),
        (
            nn.Linear(2, 2),
            {"budget": 4},
            "budget must be a weft.torch.Budget; got 4. "
            "Budget(mean_bits=4), or Budget(bytes=20_000)",
        ),
        (
            nn.Linear(2, 2).double(),
            {},
            "quantization-aware training needs a convolution or a linear layer; "
            "got the module: its weights are torch.float64",
        ),
    ],
)
def test_refusals(module, given, message):
    x = torch.ones(1, 2, dtype=next(module.parameters(), torch.ones(1)).dtype)
    with pytest.raises(UserError) as error:
        prepare_qat(module, x, **given)
    assert str(error.value) == message


def test_a_module_is_prepared_once():
    with pytest.raises(UserError) as error:
        prepare_qat(prepared(), images())
    assert str(error.value) == (
        "a module is prepared for quantization-aware training once; got one that was prepared. "
        "Prepare the module in floats again."
    )


def test_numbers_that_are_not_finite():
    with pytest.raises(UserError) as error:
        prepare_qat(nn.Linear(2, 2), torch.tensor([[1.0, float("nan")]]))
    assert str(error.value) == "activations must be finite numbers; got NaN or infinity"


# Dynamo's own use of functions with gradients.
@pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("method", a_few(["lsq", "sat"], 1))
def test_torch_compile_takes_the_whole_of_it(method):
    made, x = prepared(method=method), images()
    other = copy.deepcopy(made)
    compiled = torch.compile(other, backend="aot_eager", fullgraph=True)
    for mode in (True, False):
        found, expected = compiled.train(mode)(x), made.train(mode)(x)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    found.sum().backward()
    expected.sum().backward()
    for each, same in zip(other.parameters(), made.parameters(), strict=True):
        torch.testing.assert_close(each.grad, same.grad)
