"""Libraries whose functions may be alternatives, where somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from weft.errors import UserError, nearest
from weft.kernels import onednn
from weft.kernels.alternatives import Propose
from weft.kernels.descriptions import Described


@dataclass(frozen=True, slots=True)
class Library:
    """A library that kernels can be calls of.

    Attributes:
        described: what it does, what it needs, and why it refuses a task.
        propose: its alternatives.
        ready: raises a ``UserError`` where it cannot be used.
    """

    described: Described
    propose: Propose
    ready: Callable[[], None]


LIBRARIES: Mapping[str, Library] = MappingProxyType(
    {
        onednn.NAME: Library(
            Described(
                "Convolution and products of matrices by oneDNN, where it is asked for with "
                "--libraries; only measurement (weft tune) puts it in the place of "
                "Weft's own.",
                (
                    "oneDNN 3 is installed (pip install 'weft[onednn]')",
                    "f32 convolution over all channels with constant filters, or product with a "
                    "constant matrix, channels or columns fastest in the output, followed by "
                    "nothing but biases, residuals, a ReLU or a clip",
                    "one thread",
                    "oneDNN has more than plain loops for its shape and layout",
                ),
                onednn.why_not,
            ),
            onednn.propose,
            onednn.ready,
        ),
    }
)
"""By name."""


def checked(names: Sequence[str]) -> tuple[str, ...]:
    """Names of libraries that can be used, each once.

    Raises:
        UserError: there is no such library, or it is not installed.
    """
    names = (names,) if isinstance(names, str) else names
    for name in names:
        library = LIBRARIES.get(name)
        if library is None:
            raise UserError(
                f"a library must be one of {', '.join(LIBRARIES)}",
                got=name,
                fix=nearest(name, LIBRARIES, 1),
            )
        library.ready()
    return tuple(sorted(set(names)))
