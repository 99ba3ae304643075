# pyright: basic
"""Rows of products of matrices, norms and distances."""

import pytest
import torch
from torch import nn

from tests.torch.aten.checking import check, refusals

A, B, C = torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5)
BATCH, OTHER = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
HEADS = torch.randn(2, 2, 3, 4)
V, W, U = torch.randn(4), torch.randn(5), torch.randn(3)


@pytest.mark.parametrize("compiled", [False, True])
def test_products(compiled: bool):
    cases = {
        "linear_1": (nn.Linear(4, 6), V),
        "linear_2": (nn.Linear(4, 6), A),
        "linear_3": (nn.Linear(4, 6, bias=False), BATCH),
        "linear_4": (nn.Linear(4, 6), HEADS),
        "mm": (torch.mm, A, B),
        "bmm": (torch.bmm, BATCH, OTHER),
        "mv": (torch.mv, A, V),
        "dot": (torch.dot, V, V + 1),
        "matmul_12": (torch.matmul, V, B),
        "matmul_21": (torch.matmul, A, V),
        "matmul_11": (torch.matmul, V, V),
        "matmul_32": (torch.matmul, BATCH, B),
        "matmul_43": (torch.matmul, HEADS, OTHER),
        "matmul_31": (torch.matmul, BATCH, V),
        "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), C, A, B),
        "addmm_row": (torch.addmm, W, A, B),
        "addmm_none": (lambda c, a, b: torch.addmm(c, a, b, beta=0), C, A, B),
        "addmv": (torch.addmv, U, A, V),
        "addr": (lambda c, u, w: torch.addr(c, u, w, beta=2, alpha=3), C, U, W),
        "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, alpha=0.5), C, BATCH, OTHER),
        "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, beta=2), C, BATCH, OTHER),
        "outer": (torch.outer, U, W),
        "einsum": (lambda a, b: torch.einsum("b i j, b j k -> b k", a, b), BATCH, OTHER),
        "dots": (lambda a, b: torch.einsum("...ij,jk->...ik", a, b), HEADS, B),
        "trace": (lambda a: torch.einsum("ij->j", a), A),
        "tensordot": (lambda a, b: torch.ops.aten.tensordot(a, b, [1, 2], [0, 1]), HEADS, HEADS[0]),
        "inner": (torch.inner, BATCH, A),
        "bilinear": (nn.Bilinear(4, 4, 3), A, A + 1),
        "cross": (lambda a: torch.linalg.cross(a, a * a), torch.randn(4, 3)),
    }
    check(cases, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_norms_and_distances(compiled: bool):
    vector = torch.linalg.vector_norm
    cases = {
        "all": (vector, BATCH),
        "axis": (lambda x: vector(x, dim=-1, keepdim=True), BATCH),
        "one": (lambda x: vector(x, 1, dim=(0, 2)), BATCH),
        "largest": (lambda x: vector(x, float("inf"), dim=1), BATCH),
        "smallest": (lambda x: vector(x, -float("inf"), dim=1), BATCH),
        "count": (lambda x: vector(x.relu(), 0, dim=1), BATCH),
        "three": (lambda x: vector(x, 3, dim=1), BATCH),
        "norm": (lambda x: torch.norm(x, p=2, dim=1), BATCH),
        "frobenius": (torch.norm, BATCH),
        "linalg": (torch.linalg.norm, BATCH),
        "cosine": (nn.CosineSimilarity(dim=1), BATCH, BATCH + 1),
        "pairwise": (nn.PairwiseDistance(), A, A + 2),
        "cdist": (torch.cdist, BATCH, BATCH + 1),
        "pdist": (lambda x: (torch.pdist(x), torch.pdist(x, 1), torch.pdist(x[:1])), A),
        "dist": (lambda x, y: (torch.dist(x, y), torch.dist(x, y[0], 3)), A, A + 2),
        "manhattan": (lambda x, y: torch.cdist(x, y, p=1), BATCH, BATCH + 1),
    }
    check(cases, compiled=compiled)


def test_norms_of_matrices_are_refused():
    (why,) = refusals(lambda x: torch.linalg.norm(x, 2), A)
    assert "matrices" in why
