"""What is imported when it is first asked for, or only where it is installed.

A package whose parts take long to import, and are not always needed, defers them (PEP 562): its
users write ``from weft.frontends import onnx`` and ``onnx.load(path)``.  A module that needs
functions of another one in some of its calls only imports that module with ``later``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from weft.cached import cached_property


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


class Later:
    """A function whose module is imported at the first call; also as a method of a class.

    Args:
        module: that has it.
        name: of the function.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    @cached_property
    def _function(self) -> Any:
        return getattr(import_module(self._module), self._name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function."""
        return self._function(*arguments, **named)

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._attribute = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # The class has the function itself from here on, with its signature and documentation.
        setattr(self._owner, self._attribute, self._function)
        return self._function.__get__(instance, owner)


class later:
    """A module whose functions import it at their first call.

    ::

        if TYPE_CHECKING:
            from weft.api import planned
        else:
            planned = later("weft.api.planned")

    Args:
        module: its name.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Later:
        return Later(self._module, name)


@cache
def installed(package: str) -> bool:
    """Whether a package that Weft can do without is there; it is not imported."""
    return find_spec(package) is not None
