"""The code cells of the notebook for PyTorch users run, and it is kept without outputs."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pytorch.ipynb"


def cells() -> list[dict]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_notebook_runs(capsys):
    names: dict[str, object] = {"__name__": "notebook"}
    for place, cell in enumerate(cells()):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {place}", "exec"), names)
    printed = capsys.readouterr().out
    assert "no fallbacks" in printed
    assert "lib/libclassifier.so" in printed


def test_the_notebook_has_no_outputs():
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
