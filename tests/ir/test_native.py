"""The native file format."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import replace as changed
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import attribute_class, graphs
from tests.turns import examples
from weft.errors import UserError
from weft.ir.edit import read_only
from weft.ir.graph import Graph
from weft.ir.naming import type_of
from weft.ir.native import load, save
from weft.ir.text import show


def with_constants(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    types = {name: type_of(array, name) for name, array in arrays.items()}
    known = {name: read_only(array) for name, array in arrays.items()}
    return changed(graph, types={**graph.types, **types}, constants={**graph.constants, **known})


def weighted() -> Graph:
    rng = np.random.default_rng(0)
    return with_constants(
        Graph("net", (), (), (), {}),
        {
            "half": rng.standard_normal((3, 5)).astype(ml_dtypes.bfloat16),
            "byte": np.arange(9, dtype=np.int8),
            "wide/one": rng.standard_normal((2, 3, 4)),
            "none": np.zeros((0, 20), np.float32),
            "strided": np.arange(24, dtype=np.float32).reshape(4, 6).T,
            "flags": np.arange(12) % 3 == 0,
        },
    )


def test_round_trip(tmp_path: Path) -> None:
    graph = weighted()
    save(graph, tmp_path / "net.weft")
    again = load(tmp_path / "net.weft", attribute_class)
    assert again == graph
    assert not any(array.flags.writeable for array in again.constants.values())
    save(again, tmp_path / "again.weft")
    assert (tmp_path / "net.weft").read_bytes() == (tmp_path / "again.weft").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["again.weft", "net.weft"]


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_any_graph_round_trips(graph: Graph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(graph, Path(folder) / "g.weft")
        again = load(Path(folder) / "g.weft", attribute_class)
    assert again == graph
    assert again.history == graph.history


def test_weights_are_safetensors(tmp_path: Path) -> None:
    graph = weighted()
    save(graph, tmp_path / "net.weft")
    data = (tmp_path / "net.weft").read_bytes()
    start = data.index(b"weights.safetensors") + len("weights.safetensors")
    start += int.from_bytes(data[start - 19 - 2 : start - 19], "little")  # the extra field
    end = data.index(b"PK\x01\x02", start)
    found = dict(safetensors.deserialize(data[start:end]))
    assert (
        found.keys() == {"half", "byte", "wide/one", "strided", "flags"} | {"none"} & found.keys()
    )
    assert found["half"]["dtype"] == "BF16"
    assert bytes(found["strided"]["data"]) == graph.constants["strided"].tobytes()


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_damaged_files_are_refused_or_sound(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.weft"
        save(weighted(), path)
        raw = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(
            raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
        )
        try:
            graph = load(path, attribute_class)
        except UserError:
            return
    assert show(graph)


def test_pickles() -> None:
    graph = weighted()
    again = pickle.loads(pickle.dumps(graph))
    assert (again, again.history) == (graph, graph.history)
    assert not any(array.flags.writeable for array in again.constants.values())
    assert not hasattr(again.types, "clear")


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        save(weighted(), tmp_path / "missing" / "net.weft")
    assert str(caught.value) == (
        f"the output must be writable; got {tmp_path}/missing/net.weft: No such file or directory"
    )
    with pytest.raises(UserError) as caught:
        load(tmp_path / "net.weft", attribute_class)
    assert str(caught.value) == f"cannot read {tmp_path}/net.weft: No such file or directory"
    (tmp_path / "text.weft").write_text("hello")
    with pytest.raises(UserError) as caught:
        load(tmp_path / "text.weft", attribute_class)
    assert str(caught.value) == (
        f"{tmp_path}/text.weft is not a valid .weft file; got File is not a zip file"
    )


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "net.weft"
    save(weighted(), path)
    before = path.read_bytes()
    reserved = with_constants(weighted(), {"__metadata__": np.zeros(20)})
    with pytest.raises(UserError) as caught:
        save(reserved, path)
    assert str(caught.value) == ("a constant in a file cannot be named __metadata__. Rename it.")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["net.weft"]
