"""ONNX files to graphs and back."""

from weft.frontends.onnx.load import RefusedError, import_model, load
from weft.frontends.onnx.reading import has_external_data
from weft.frontends.onnx.writing import save, write

__all__ = ["RefusedError", "has_external_data", "import_model", "load", "save", "write"]
