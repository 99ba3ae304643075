"""Rows of reductions, comparisons and orders."""

import math

import pytest
import torch

from tests.torch.aten.checking import check

X = torch.randn(3, 4, 5)
WHOLE = torch.randint(-3, 4, (3, 4, 5))
TRUTHS = X > 0.3
NUMBER = torch.tensor(1.5)
SPECIAL = torch.tensor([0.0, 1.0, -1.0, math.inf, -math.inf, math.nan])

REDUCTIONS = {
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.sum(())), X),
    "sum_whole": (lambda x, t: (x.sum(1), t.sum(), x.int().sum(0)), WHOLE, TRUTHS),
    "sum_typed": (lambda x: x.sum(1, dtype=torch.float32), WHOLE),
    "mean": (lambda x: (x.mean(), x.mean(-1, keepdim=True)), X),
    "prod": (lambda x, w: (x.prod(1), x.prod(), w.prod(0)), X, WHOLE),
    "extremes": (lambda x: (x.amax(1), x.amin((0, 1), True), x.max(), x.min()), X),
    "extremes_whole": (lambda x: (x.amax(1), x.max(), x.min()), WHOLE),
    "max_dim": (lambda x: (*x.max(1), *x.min(2, keepdim=True)), X),
    "max_indices": (lambda x: x.max(1)[1], X),
    "arg": (lambda x: (x.argmax(1), x.argmin(), x.argmax(-1, True), x.argmax(None, True)), X),
    "arg_ties": (lambda x: (x.argmax(1), x.argmin(1)), WHOLE),
    "aminmax": (lambda x: (*x.aminmax(), *x.aminmax(dim=1)), X),
    "truths": (lambda t, x: (t.any(), t.all(1), t.any(2, keepdim=True), x.any(0)), TRUTHS, WHOLE),
    "count_nonzero": (lambda x: (x.count_nonzero(), x.count_nonzero(1)), WHOLE),
    "var": (lambda x: (x.var(), x.var(1, unbiased=False), x.var((0, 1), correction=2)), X),
    "std": (lambda x: (x.std(), x.std(1, keepdim=True), *torch.std_mean(x, 1)), X),
    "var_mean": (lambda x: (*torch.var_mean(x, (0, 2), keepdim=True), *torch.var_mean(x)), X),
    "logsumexp": (lambda x: (x.logsumexp(1), x.logsumexp((0, 1), True)), X * 50),
    "cumulative": (lambda x, w: (x.cumsum(1), w.cumsum(-1), x.cumprod(0)), X, WHOLE),
    "cumsum_truths": (lambda t: t.cumsum(1), TRUTHS),
    "diff": (lambda x, w: (x.diff(), x.diff(2, 1), w.diff(dim=0)), X, WHOLE),
    "number": (lambda x: (x.sum(), x.mean(0), x.max(0), x.argmax(), x.cumsum(0)), NUMBER),
}
COMPARISONS = {
    "scalars": (lambda x: (x == 1, x != 1, x < 0, x <= 0.5, x > -1, x >= 2), WHOLE),
    "promoted": (lambda w: (w < 0.5, w == 0.5, w <= 2), WHOLE),
    "tensors": (lambda x, w: (x == w, x != w, x < w, x <= w, x > w, x >= w), X, WHOLE),
    "truths": (lambda t, u: (t == u, t != u, t < u, t >= u), TRUTHS, ~TRUTHS[:1]),
    "special": (lambda x: (x == x, x < 1, x.isnan(), x.isinf(), x.isfinite()), SPECIAL),
    "signed": (lambda x: (x.isposinf(), x.isneginf(), x.bool()), SPECIAL),
    "whole": (lambda x: (x.isnan(), x.isinf(), x.isfinite()), WHOLE),
    "logic": (lambda t, w: (t & (w > 0), t | ~t, t ^ (w > 0), w.logical_and(t)), TRUTHS, WHOLE),
    "logical": (lambda x, w: (x.logical_or(w), x.logical_xor(w), w.logical_not()), X, WHOLE),
    "bitwise": (lambda w: (w & 3, w | 4, w ^ w[0], ~w, w.bitwise_and(w[1])), WHOLE),
    "isclose": (lambda x: (x.isclose(x + 1e-9), x.isclose(x, equal_nan=True)), SPECIAL),
    "where": (lambda t, x, w: (torch.where(t, x, w), torch.where(t, 1.0, x)), TRUTHS, X, WHOLE),
    "where_mixed": (lambda t, w: (torch.where(t, w, 0.5), torch.where(t, 2, 3)), TRUTHS, WHOLE),
}
ORDERS = {
    "topk": (lambda x: (*x.topk(3), *x.topk(2, 1, largest=False)), X),
    "sort": (lambda x: (*x.sort(), *x.sort(1, descending=True)), X),
    "stable": (lambda x: (*x.sort(stable=True, dim=1), x.argsort(dim=2, stable=True)), WHOLE),
    "descending": (lambda x: x.sort(stable=True, dim=1, descending=True), WHOLE),
    "kthvalue": (lambda x: (*x.kthvalue(2), *x.kthvalue(3, 1, True)), X),
    "median": (lambda x, w: (*x.median(1), *x.median(2, True), x.median(), w.median()), X, WHOLE),
    "median_special": (lambda x: (x.median(), *x[:5].reshape(1, 5).median(1)), SPECIAL),
    "search": (
        lambda b, x: [
            torch.searchsorted(b, x, right=right, out_int32=right) for right in (False, True)
        ],
        torch.arange(-3, 4.0),
        torch.cat([SPECIAL, X.flatten() * 2]),
    ),
    "search_rows": (lambda b, x: torch.searchsorted(b, x), X.sort()[0], X[..., :2] + 0.1),
    "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 2.0]), right=True), X),
    "bucketize_whole": (lambda x, b: torch.bucketize(x, b), WHOLE, torch.tensor([-1, 1])),
    "argsort": (lambda x: (x.argsort(), x.argsort(0, descending=True), x.msort()), X),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("cases", [REDUCTIONS, COMPARISONS, ORDERS])
def test_rows(cases: dict[str, tuple], compiled: bool):
    check(cases, compiled=compiled)
