"""ONNX files to graphs and back."""

from weft.frontends.onnx.load import RefusedError, import_model, load

__all__ = ["RefusedError", "import_model", "load"]
