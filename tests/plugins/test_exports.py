"""Exports and data sets of plugins, and Weft's own beside them."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import weft
from tests.plugins.installed import Install, install
from weft.cli import main
from weft.datasets import DATASETS, DataSet, data_set, gather
from weft.errors import UserError
from weft.export.exports import EXPORTS, LAYOUTS, Templates, written
from weft.export.toolkit import facts

__all__ = ["install"]

EXPORT = """
from importlib.resources import files
from weft.export.exports import Export
HERE = files(__package__)
def write(toolkit):
    yield "model.txt", toolkit.model
MODULE = Export("A CMake module.", {"{{ name }}.cmake": HERE / "module.cmake.jinja"}, write)
"""
TEMPLATE = """
add_library({{ name }} STATIC{% for each in sources %} {{ each }}{% endfor %})
# {{ arena_bytes }} bytes
"""


def installed(install: Install, template: str = TEMPLATE, more: str = "") -> None:
    files = {"module/__init__.py": EXPORT + more, "module/module.cmake.jinja": template}
    install("module", files, {"exports": {"cmake": "module:MODULE"}})


def test_an_export_adds_files(install: Install, digits, tmp_path) -> None:
    installed(install)
    arguments = ["export", str(digits), "--target", "generic", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, [*arguments, "--also", "cmake", "--json"])
    assert result.exit_code == 0, result.output
    assert {"digits.cmake", "model.txt", "Makefile"} <= set(json.loads(result.stdout)["files"])
    text = (tmp_path / "out" / "digits.cmake").read_text()
    assert "add_library(digits STATIC digits.c)" in text
    listed = CliRunner().invoke(main, ["exports", "--json"])
    assert [each["name"] for each in json.loads(listed.stdout)] == ["toolkit", *LAYOUTS, "cmake"]


@pytest.mark.parametrize(
    ("template", "more", "told"),
    [
        ("{{ nothing }}", "", "'nothing' is undefined"),
        ("x", "MODULE = Export('', {'../out': HERE / 'module.cmake.jinja'})", "must lie in its"),
        ("x", "MODULE = Export('', {'main.c': HERE / 'module.cmake.jinja'})", "main.c twice"),
        ("x", "MODULE = Export('', overrides={'a': HERE / 'b'})", "it overrides a, which is none"),
        ("{% for", "", "template module.cmake.jinja, line 1"),
        ("x", "MODULE = Export('')", "it must have templates, or a function that writes"),
        ("x", "MODULE = Export('', {'a': HERE / 'b'})", "b does not exist"),
    ],
)
def test_an_export_that_is_wrong(
    install: Install, digits, tmp_path, template: str, more: str, told: str
) -> None:
    installed(install, template, more)
    with pytest.raises(UserError) as caught:
        weft.load(digits).export(tmp_path / "out", "generic", also=["cmake"])
    assert told in str(caught.value)
    assert not (tmp_path / "out").exists()
    weft.load(digits).export(tmp_path / "out", "generic")


def test_templates_and_files_of_an_export_come_before_weft_s(
    install: Install, digits, tmp_path
) -> None:
    more = """
MODULE = Export('Ours.', {'Makefile': HERE / 'module.cmake.jinja'},
                overrides={'NOTICE.jinja': HERE / 'module.cmake.jinja'})
"""
    installed(install, "{{ name }} of ours", more)
    weft.load(digits).export(tmp_path / "out", "generic", also=["cmake"])
    for name in ("Makefile", "NOTICE"):
        assert (tmp_path / "out" / name).read_text() == "digits of ours"


def test_an_export_that_does_not_exist(digits, tmp_path) -> None:
    with pytest.raises(UserError, match=r"got toolkits\. Did you mean toolkit"):
        weft.load(digits).export(tmp_path, "generic", also=["toolkits"])
    assert list(EXPORTS) == ["toolkit", *LAYOUTS]


SAMPLES = """
import numpy as np
from weft.datasets import DataSet
def samples():
    for label in range(10):
        yield (np.full((1, 8, 8), label / 10, np.float32),), label
GREY = DataSet("Grey squares.", samples)
"""


def test_a_data_set_by_name(install: Install, digits) -> None:
    install("grey", {"grey.py": SAMPLES}, {"datasets": {"grey": "grey:GREY"}})
    assert list(DATASETS) == ["digits", "grey"]
    (images,), labels = gather(data_set("grey"), 3)
    assert images.shape == (3, 1, 8, 8)
    assert labels.tolist() == [0, 1, 2]
    arguments = ["compare", str(digits), "--data", "grey", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "accuracy" in result.stdout
    with pytest.raises(UserError, match=r"got gray\. Did you mean grey"):
        data_set("gray")


def test_the_digits_of_scikit_learn(digits) -> None:
    pytest.importorskip("sklearn")
    (images,), labels = gather(data_set("digits"))
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == np.float32
    found = weft.compare([weft.load(digits)], data="digits", seconds=0.01)
    quality = found.variants[0].quality
    assert quality is not None
    assert quality.accuracy is not None
    assert quality.accuracy > 0.97
    assert labels.size == 1797


def test_samples_that_do_not_fit() -> None:
    def of(*rows) -> DataSet:
        return DataSet("", lambda: rows)

    one, two = np.zeros(1), np.zeros(2)
    with pytest.raises(UserError, match="must have samples"):
        gather(of())
    with pytest.raises(UserError, match="the same shapes and types"):
        gather(of(((one,), 1), ((two,), 1)))
    with pytest.raises(UserError, match="must have labels, or none"):
        gather(of(((one,), 1), ((one,), None)))
    assert gather(of(((one,), None)))[1].size == 0


def _no_arrays() -> list[object]:
    return [((1.0,), 1)]


def _fails() -> list[object]:
    raise OSError("no such disk")


def test_faults_of_samples_are_theirs() -> None:
    for samples, below, got in (
        (_no_arrays, 0, "TypeError: a sample is a tuple of arrays and a label, or none"),
        (_fails, 1, "OSError: no such disk"),
    ):
        with pytest.raises(UserError) as caught:
            gather(DataSet("", samples))  # type: ignore[arg-type]
        line = inspect.getsourcelines(samples)[1] + below
        told = f"data set: `samples` failed; got {got} ({__file__}, line {line})"
        assert str(caught.value) == told


def test_faults_of_a_function_that_writes_are_its_own(install: Install) -> None:
    installed(install, more="\nMODULE = Export('Wrong.', write=lambda toolkit: [('a', 1 / 0)])\n")
    with pytest.raises(UserError) as caught:
        list(written("cmake", None, {}, Templates()))
    assert caught.value.rule == "export cmake: `write` failed"
    assert caught.value.got == "ZeroDivisionError: division by zero"
    assert caught.value.where.endswith("module/__init__.py, line 9")


def test_the_page_names_all_that_templates_may_speak_of(digits) -> None:
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    told = page.partition("## Variables of export templates")[2]
    made = facts(weft.load(digits).toolkit("generic"))
    assert [name for name in made if f"`{name}`" not in told and name != "size"] == []
