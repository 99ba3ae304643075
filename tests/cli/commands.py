"""Commands as they are typed, run in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from weft.cli import main


def weft(*arguments: object) -> Result:
    """Runs a command."""
    return CliRunner().invoke(main, [str(each) for each in arguments])


def good(*arguments: object) -> str:
    """What a command that ends well prints."""
    result = weft(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def bad(*arguments: object, code: int = 1) -> str:
    """What a command that fails says."""
    result = weft(*arguments)
    assert result.exit_code == code, result.output
    return result.stderr


def record(*arguments: object) -> Any:
    """What a command prints as JSON."""
    return json.loads(good(*arguments, "--json"))
