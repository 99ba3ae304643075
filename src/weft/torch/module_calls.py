# pyright: basic
"""Calls of modules while a forward is recorded: which module runs, and where in its source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import get_ident
from types import CodeType
from typing import Any

import torch


@contextmanager
def calls(called: Callable[[torch.nn.Module], AbstractContextManager[None]]) -> Iterator[None]:
    """Tells of calls of modules, as the export does: in the place of ``Module.__call__``.

    Args:
        called: what a call in this thread runs in; those in other threads are not told.
    """
    own: Any = torch.nn.Module.__call__
    thread = get_ident()

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        with called(self) if get_ident() == thread else nullcontext():
            return own(self, *args, **kwargs)

    torch.nn.Module.__call__ = call
    try:
        yield
    finally:
        torch.nn.Module.__call__ = own


def place_of_call(root: CodeType) -> str:
    """The line that calls an op, as a line of a traceback: the module's, or else PyTorch's.

    Args:
        root: the function that records, beyond which nobody looks.

    Returns:
        The line; nothing where no forward runs.
    """
    frame: Any = sys._getframe(1)
    inner: Any = None
    while frame is not None and frame.f_code is not root:
        if frame.f_code.co_name == "forward":
            inner = inner or frame
            if "/torch/" not in frame.f_code.co_filename:
                inner = frame
                break
        frame = frame.f_back
    if inner is None:
        return ""
    code: CodeType = inner.f_code
    return f'  File "{code.co_filename}", line {inner.f_lineno}, in {code.co_name}'
