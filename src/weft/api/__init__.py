"""What users call: load a network, look at it, compile it, export it.

::

    net = weft.load("model.onnx")
    fast = net.compile()
    scores = fast(image)

``weft.api.net`` says where what can be done with a ``Net`` is.
"""

from typing import TYPE_CHECKING

from weft.api.net import CompiledNet, Net
from weft.api.opening import input, load, merge, net, trace
from weft.api.streams import Stream
from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.api.looked import MOST_SHOWN
    from weft.api.step_run import Oracle

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

__getattr__ = deferred(__name__, {"MOST_SHOWN": "weft.api.looked", "Oracle": "weft.api.step_run"})
