"""What is imported when it is first asked for (PEP 562), or only where it is installed.

A package whose parts take long to import, and are not always needed, gives its interface so; who
uses it says ``from weft.frontends import onnx`` and ``onnx.load(path)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec


def deferred(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """What to call ``__getattr__`` in a package.

    Args:
        package: its name.
        modules: by name in the package, the module that has it.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package} has no attribute {name}")
        return getattr(import_module(modules[name]), name)

    return get


@cache
def installed(package: str) -> bool:
    """Whether a package that Weft can do without is there; it is not imported."""
    return find_spec(package) is not None
