"""The command line: ``weft COMMAND``.

Only this package prints.  Results go to the standard output, progress and errors to the
standard error.  Exit codes are those of ``weft.cli.output.Exit``.
"""

from weft.interrupts import end_interrupted

try:
    from weft.cli.main import main
except KeyboardInterrupt:
    end_interrupted()

__all__ = ["main"]
