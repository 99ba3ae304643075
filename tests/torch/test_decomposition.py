# pyright: basic
"""Ops without rows, as PyTorch decomposes them."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import weft
from tests.torch.aten.checking import check
from tests.torch.version import PYTORCH
from tests.turns import a_few
from weft.errors import UserError
from weft.torch.specialise import Settings, specialise

X, Y = torch.randn(4, 6), torch.rand(4, 6)
LABELS = torch.tensor([0, 5, 2, 2])
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan")])

LOSSES = {
    "mse": (functional.mse_loss, X, Y),
    "l1": (lambda x, y: functional.l1_loss(x, y, reduction="sum"), X, Y),
    "smooth_l1": (functional.smooth_l1_loss, X, Y),
    "huber": (functional.huber_loss, X, Y),
    "cross_entropy": (functional.cross_entropy, X, LABELS),
    "nll": (lambda x, i: functional.nll_loss(x.log_softmax(1), i, reduction="none"), X, LABELS),
    "bce": (lambda x, y: functional.binary_cross_entropy(x.sigmoid(), y), X, Y),
    "bce_logits": (functional.binary_cross_entropy_with_logits, X, Y),
    "kl": (lambda x, y: functional.kl_div(x, y, reduction="batchmean"), X, Y),
    "margin": (lambda x, y: functional.margin_ranking_loss(x, y, y.sign()), X, Y),
    "triplet": (lambda x, y: functional.triplet_margin_loss(x, y, y + 1), X, Y),
}
FUNCTIONS = {
    "kron": (torch.kron, X, Y[:2, :3]),
    "trace": (torch.trace, X),
    "diag_embed": (torch.diag_embed, X),
    "column_stack": (lambda x, y: torch.column_stack((x, y)), X, Y),
    "isin": (torch.isin, LABELS, torch.tensor([2, 7])),
    "nansum": (lambda x: (x.nansum(), x[:4].nanmean()), SPECIAL),
    "ndtr": (torch.special.ndtr, SPECIAL),
    "entr": (torch.special.entr, SPECIAL),
    "heaviside": (lambda x: torch.heaviside(x, torch.tensor(0.5)), SPECIAL[:-1]),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), X),
    "trapezoid": (torch.trapezoid, X),
    "norms": (lambda x: (torch.linalg.norm(x, 1), torch.linalg.matrix_norm(x)), X),
    "matrix_power": (lambda x: torch.linalg.matrix_power(x[:, :4], 3), X),
    "unpool": (lambda x: _unpooled(x), torch.randn(1, 2, 6, 6)),
}
if PYTORCH >= (2, 12):  # torch.export of older ones fails
    FUNCTIONS["quantile"] = (lambda x: x.quantile(0.3, 1), X)


def _unpooled(x: torch.Tensor) -> torch.Tensor:
    largest, places = functional.max_pool2d(x, 2, return_indices=True)
    return functional.max_unpool2d(largest, places, [2, 2])


@pytest.mark.parametrize("compiled", [False, True])
def test_losses_and_functions(compiled: bool):
    check(LOSSES | FUNCTIONS, compiled=compiled)


def test_random_ops_draw_the_numbers_of_pytorch():
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = functional.mse_loss(x, x.sin(), reduction="none") + x.exp()
            return functional.dropout(y, 0.5, training=True) * 2 + torch.rand_like(x)

    x = torch.randn(8, 8)
    runner = specialise(Noisy(), (x,), settings=Settings(measure=False))
    assert [each.op for each in runner.fallbacks] == ["aten::native_dropout", "aten::rand_like"]
    assert runner.parts
    torch.manual_seed(3)
    (got,) = runner.flat([x])
    torch.manual_seed(3)
    torch.testing.assert_close(got, Noisy()(x))


class Between(nn.Module):
    """A function between two layers."""

    def __init__(self, function) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(torch.relu(self.first(x))))


@pytest.mark.parametrize(
    ("function", "op"),
    a_few(
        [
            (lambda y: y[y[:, 0] > 0], "aten::index.Tensor"),
            (lambda y: y[torch.nonzero(y[:, 0])[:, 0]], "aten::nonzero"),
            (lambda y: torch.fft.fft(y).log().abs(), "aten::log"),
            (
                lambda y: torch.linalg.svd(y, full_matrices=False)[2][:8] * y[:8],
                "aten::_linalg_svd",
            ),
        ]
    ),
)
def test_what_stays_pytorchs_runs_between_compiled_parts(function, op: str):
    module, x = Between(function).eval(), torch.randn(9, 6)
    runner = specialise(module, (x,), settings=Settings(measure=False))
    assert op in [each.op for each in runner.fallbacks]
    parts = [[node.op for node in part.imported.graph.nodes] for part in runner.parts]
    assert len(parts) >= (1 if op in ("aten::index.Tensor", "aten::nonzero") else 2)
    assert "Gemm" in parts[0]
    with torch.no_grad():
        torch.testing.assert_close(runner.flat([x])[0], module(x), rtol=1e-4, atol=1e-5)
        told = str(weft.explain(module, x, threads=1))
    assert f"by PyTorch: {op} (" in told


def test_strict_takes_what_can_be_decomposed_and_lists_the_rest():
    x = torch.randn(4, 6)
    strict = Settings(strict=True, measure=False)
    module = Between(lambda y: torch.kron(y, y)[:, :8]).eval()
    assert specialise(module, (x,), settings=strict).fallbacks == []
    with pytest.raises(UserError, match="strict=True") as told:
        specialise(Between(lambda y: torch.fft.fft(y).log().abs()).eval(), (x,), settings=strict)
    assert "log.default of complex numbers is not supported" in told.value.got


def test_graphs_that_pytorch_cannot_trace_again_are_run_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
):
    def refuse(*_: object) -> None:
        raise ValueError("no")

    def counts(y: torch.Tensor) -> torch.Tensor:
        # Nobody reads the places of the largest, which stay in the graph.
        return torch.histc(y.max(-1).values, 8)[None]

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
    module, x = Between(counts).eval(), torch.randn(9, 6)
    runner = specialise(module, (x,), settings=Settings(measure=False))
    assert [each.op for each in runner.fallbacks] == ["aten::histc"]
    with torch.no_grad():
        torch.testing.assert_close(runner.flat([x])[0], module(x), rtol=1e-4, atol=1e-5)
