"""ONNX files to graphs and back.

Protocol buffers and the onnx package are imported when a file is read or written.
"""

from typing import TYPE_CHECKING

from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.frontends.onnx.loading import RefusedError, import_model, load
    from weft.frontends.onnx.reading import NoModelError, has_external_data
    from weft.frontends.onnx.session import Session, has_onnxruntime
    from weft.frontends.onnx.writing import save, write

__all__ = [
    "NoModelError",
    "RefusedError",
    "Session",
    "has_external_data",
    "has_onnxruntime",
    "import_model",
    "load",
    "save",
    "write",
]

__getattr__ = deferred(
    __name__,
    {
        "NoModelError": "weft.frontends.onnx.reading",
        "RefusedError": "weft.frontends.onnx.loading",
        "Session": "weft.frontends.onnx.session",
        "has_external_data": "weft.frontends.onnx.reading",
        "has_onnxruntime": "weft.frontends.onnx.session",
        "import_model": "weft.frontends.onnx.loading",
        "load": "weft.frontends.onnx.loading",
        "save": "weft.frontends.onnx.writing",
        "write": "weft.frontends.onnx.writing",
    },
)
