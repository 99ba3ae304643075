"""``python -m weft.cli`` is the command line."""

from weft.cli import main

main(prog_name="weft")
