# pyright: basic
"""Rows of tables that are looked up."""

import pytest
import torch
from torch import nn

from tests.torch.aten.checking import check

INDICES = torch.tensor([3, 0, 5, 2, 2, 4, 1])
OFFSETS = torch.tensor([0, 2, 2, 5])
ENDED = torch.tensor([0, 2, 2, 7])


@pytest.mark.parametrize("compiled", [False, True])
def test_embeddings(compiled: bool):
    weights = torch.rand(7)
    cases = {
        "rows": (nn.Embedding(6, 4, padding_idx=2), INDICES),
        "matrix": (nn.Embedding(6, 4), INDICES.reshape(1, 7)),
        "sums": (nn.EmbeddingBag(6, 4, mode="sum"), INDICES, OFFSETS),
        "means": (nn.EmbeddingBag(6, 4, padding_idx=2), INDICES, OFFSETS),
        "last": (nn.EmbeddingBag(6, 4, include_last_offset=True), INDICES, ENDED),
        "weighted": (nn.EmbeddingBag(6, 4, mode="sum"), INDICES, OFFSETS, weights),
    }
    check(cases, compiled=compiled)
