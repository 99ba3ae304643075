"""The op table, and every op as a function: ``weft.ops.conv(x, w, strides=(2, 2))``."""

from weft.ops.functions import FUNCTIONS

# Some functions are called like the file of their family (``softmax``): the function is what
# ``weft.ops.softmax`` means, the file's contents are imported from ``weft.ops.softmax`` by name.
globals().update(FUNCTIONS)
