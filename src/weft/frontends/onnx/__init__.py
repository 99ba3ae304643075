"""ONNX files to graphs and back."""

from weft.frontends.onnx.load import RefusedError, import_model, load
from weft.frontends.onnx.writing import save, write

__all__ = ["RefusedError", "import_model", "load", "save", "write"]
