"""Rows that read and write at computed places."""

import pytest
import torch
from torch.nn import functional

from tests.torch.aten.checking import check, refusals

X = torch.randn(4, 5, 6)
VECTOR = torch.randn(6)
ROWS = torch.tensor([3, -1, 0])
COLUMNS = torch.tensor([[1], [-2]])

READS = {
    "one": (lambda x, i: (x[i], x[:, i], x[..., i]), X, ROWS),
    "matrix": (lambda x, i: x[:, i], X, torch.randint(-5, 5, (2, 3))),
    "adjacent": (lambda x, i, j: (x[i, j], x[:, i, j]), X, ROWS, COLUMNS),
    "apart": (lambda x, i, j: (x[i, :, j], x[:, i, :], x[None, i, None, j]), X, ROWS, COLUMNS),
    "known": (lambda x: (x[torch.arange(4), torch.tensor([0, -1, 2, 1])], x[[0, 2]]), X),
    "half_known": (lambda x, i: x[torch.arange(3), i], X, ROWS),
    "index_select": (lambda x, i: x.index_select(1, i), X, ROWS.abs()),
    "take": (lambda x, i: x.take(i), X, ROWS),
    "gather": (lambda x, i: x.gather(1, i), X, torch.randint(0, 5, (3, 7, 2))),
    "take_along_dim": (
        lambda x, i: (x.take_along_dim(i, 1), x.take_along_dim(i)),
        X,
        torch.randint(0, 5, (4, 2, 1)),
    ),
}
WRITES = {
    "slice_scatter": (
        lambda x, y: (x.slice_scatter(y, 1, 1, 4), x.slice_scatter(y, 1, 0, 5, 2)),
        X,
        torch.randn(4, 3, 6),
    ),
    "select_scatter": (lambda x, y: x.select_scatter(y, 1, -2), X, torch.randn(4, 6)),
    "diagonal_scatter": (
        lambda x, y: (
            x.diagonal_scatter(y, 1, 1, 2),
            x.diagonal_scatter(y[:, :4], -1, -2, 2),
            x.diagonal_scatter(y.mT.new_ones(6, 4), 0, 1, 0),
        ),
        X,
        torch.randn(4, 5),
    ),
    "index_put": (
        lambda x, i, j, v: (
            x.index_put((i,), v[0, 0]),
            x.index_put((i, j), v[0]),
            torch.ops.aten.index_put(x, [None, i, j], v[:, 0]),
            torch.ops.aten.index_put(x, [i, None, j], v[0, 0, 0]),
            x.index_put((i, j), v[0], accumulate=True),
        ),
        X,
        ROWS,
        COLUMNS,
        torch.randn(1, 1, 1, 6)[..., :1],
    ),
    "index_put_known": (
        lambda x, v: x.index_put((torch.arange(4) % 2 == 0, torch.tensor([1, 3])), v),
        X,
        VECTOR,
    ),
    "index_put_mask": (lambda x: x.index_put((x > 0.5,), torch.tensor(7.0)), X),
    "assignment": (lambda x, y: _assigned(x, y), X, torch.randn(4, 2, 6)),
    "index_add": (lambda x, i, y: x.index_add(1, i, y, alpha=2), X, ROWS.abs(), X[:, :3]),
    "index_copy": (lambda x, i, y: x.index_copy(1, i, y), X, ROWS.abs(), X[:, :3] + 1),
    "index_fill": (lambda x, i: x.index_fill(2, i, 3), X, ROWS.abs()),
    "masked_fill": (lambda x, y: (x.masked_fill(x > 0, -1), x.masked_fill(y > 0, y[0])), X, VECTOR),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), X, torch.randn(4, 5, 6)),
    "scatter": (
        lambda x, i, y: (x.scatter(1, i, y), x.scatter(1, i, 2.5), x.scatter_add(1, i, y)),
        X,
        torch.tensor([4, 0, 2]).reshape(1, 3, 1).expand(2, 3, 6).clone(),
        torch.randn(4, 4, 6),
    ),
    "scatter_reduce": (
        lambda x, i, y: [x.scatter_reduce(1, i, y, r) for r in ("sum", "prod", "amax", "amin")],
        X,
        torch.randint(0, 5, (4, 5, 6)),
        torch.randn(4, 5, 6),
    ),
    "copy": (lambda x, y: torch.ops.aten.copy(x, y), X, VECTOR.double()),
    "one_hot": (lambda i: functional.one_hot(i, 5), ROWS.abs()),
}


def _assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    made = x.new_zeros(4, 5, 6)
    made[:, 1:3] = y
    made[:, -1] += x[:, 0]
    made[made > 1] = 0
    return made


@pytest.mark.parametrize("compiled", [False, True])
def test_reads(compiled: bool):
    check(READS, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_writes(compiled: bool):
    check(WRITES, compiled=compiled)


def test_sizes_that_depend_on_data_are_refused():
    (first, *_) = refusals(lambda x, mask: x[mask].sum(), X, X > 0)
    assert first.startswith("sizes that depend on data are not supported")
