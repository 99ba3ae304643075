"""What users call: load a network, look at it, compile it, export it.

::

    net = weft.load("model.onnx")
    fast = net.compile()
    scores = fast(image)

``Net`` is put together from what it can do: ``network`` (what it computes), ``planned`` (what it
becomes for a machine), ``looked`` (how people look at it) and ``compiled`` (how it runs here).
"""

from weft.api.compiled import CompiledNet, Net
from weft.api.looked import MOST_SHOWN, Oracle
from weft.api.opening import input, load, merge, net, trace
from weft.api.streams import Stream

__all__ = [
    "MOST_SHOWN",
    "CompiledNet",
    "Net",
    "Oracle",
    "Stream",
    "input",
    "load",
    "merge",
    "net",
    "trace",
]
