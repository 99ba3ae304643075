"""The command line: ``weft COMMAND``.

Only this package prints.  Results go to the standard output, progress and errors to the
standard error.  Exit codes are those of ``weft.cli.common.Exit``.
"""

from weft.cli.main import main

__all__ = ["main"]
