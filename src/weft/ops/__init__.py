"""The op table, and every op as a function: ``weft.ops.conv(x, w, strides=(2, 2))``."""

from weft.ops import attention, cast, expand, shape, softmax
from weft.ops.functions import FUNCTIONS, function_named, meant

# Files called like a function.  They are loaded first, since loading a file gives its name to
# the file; from here on the name is the function's, as `from weft.ops.softmax import OPS` needs
# the name no more.
_FILES = (attention, cast, expand, shape, softmax)

globals().update(FUNCTIONS)


def __getattr__(name: str) -> object:
    """The function of a plugin's op."""
    found = function_named(name)
    if found is None:
        raise AttributeError(f"weft.ops has no op {name}. {meant(name)}".strip())
    return found
