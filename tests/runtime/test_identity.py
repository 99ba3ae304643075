"""Digests: equal for equal content, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.codegen.flavours import flavour_named
from weft.runtime.compiler import Compiler
from weft.runtime.identity import build_key, digest_all, digest_file, digest_graph, digest_self

LARGE = 9_000_001


def test_blocks_are_told_apart() -> None:
    cuts = [[b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"", b"abc"], []]
    found = {digest_all([memoryview(block) for block in blocks]) for blocks in cuts}
    assert len(found) == len(cuts)


@pytest.mark.parametrize("place", [0, LARGE // 2, LARGE - 1])
def test_every_byte_of_a_file_counts(tmp_path: Path, place: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, LARGE, np.uint8)
    (tmp_path / "a").write_bytes(data.tobytes())
    (tmp_path / "b").write_bytes(data.tobytes())
    assert digest_file(tmp_path / "a") == digest_file(tmp_path / "b")
    data[place] ^= 1
    (tmp_path / "b").write_bytes(data.tobytes())
    assert digest_file(tmp_path / "a") != digest_file(tmp_path / "b")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert digest_file(tmp_path / "a") == digest_all([])


def test_weights_and_structure_of_a_graph_count(digits: Path) -> None:
    graph = weft.load(digits).graph
    assert digest_graph(graph) == digest_graph(weft.load(digits).graph)
    largest = max(graph.constants, key=lambda name: graph.constants[name].size)
    changed = graph.constants[largest].copy()
    changed.flat[-1] += 1
    others = [
        replace(graph, name="other"),
        replace(graph, outputs=graph.nodes[0].outputs),
        replace(graph, constants={**graph.constants, largest: changed}),
    ]
    assert len({digest_graph(each) for each in (graph, *others)}) == 4


def test_options_and_compiler_are_part_of_the_key() -> None:
    gcc = Compiler(("gcc",), "gcc", "gcc 12")
    gnu = flavour_named("gnu")
    keys = {
        build_key(gcc, gnu, ["-O2"], "net", 1),
        build_key(gcc, gnu, ["-O2"], "net", 2),
        build_key(gcc, gnu, ["-O2"], "ten", 1),
        build_key(gcc, gnu, ["-O1"], "net", 1),
        build_key(gcc, flavour_named("c99"), ["-O2"], "net", 1),
        build_key(replace(gcc, version="gcc 13"), gnu, ["-O2"], "net", 1),
    }
    assert len(keys) == 6
    assert digest_self() == digest_self()
