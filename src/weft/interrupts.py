"""How the command line ends where it was interrupted."""

import sys
from typing import NoReturn


def end_interrupted() -> NoReturn:
    """Ends with one line and code 130, as a shell says it of what SIGINT ended."""
    sys.stderr.write("interrupted\n")
    # An interrupt inside the `exec` of a text (dataclasses are made so) is remembered as unhandled,
    # and CPython then ends by the signal whatever code was asked for; the next `exec` forgets it.
    exec("")
    raise SystemExit(130) from None
