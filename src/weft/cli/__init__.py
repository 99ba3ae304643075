"""The command line: ``weft COMMAND``.

Only this package prints.  Results go to the standard output, progress and errors to the
standard error.  Exit codes are those of ``weft.cli.output.Exit``.
"""

import sys

try:
    from weft.cli.main import main
except KeyboardInterrupt:
    sys.stderr.write("interrupted\n")
    raise SystemExit(130) from None

__all__ = ["main"]
