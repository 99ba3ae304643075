"""The code cells of the notebook for PyTorch users run, and it is kept without outputs."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pytorch.ipynb"


def cells() -> list[dict]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_notebook_runs(capsys, monkeypatch):
    notebook = ModuleType("notebook")
    # Dynamo of PyTorch 2.12 imports the module of a function that it compiles.
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    for place, cell in enumerate(cells()):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {place}", "exec"), vars(notebook))
    printed = capsys.readouterr().out
    assert "no fallbacks" in printed
    assert "lib/libclassifier.so" in printed


def test_the_notebook_has_no_outputs():
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
