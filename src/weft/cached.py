"""Attributes that are computed when they are first read, without a lock.

Before Python 3.12 ``functools.cached_property`` has a lock for each attribute of a class, of all
its objects: threads that plan different networks wait for each other, and a process that is
forked while one of them computes such an attribute waits for ever when it computes it, too.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

_UNSET = object()

if TYPE_CHECKING:
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):
        """``functools.cached_property``; of threads that compute it at once, one gives the value.

        What is computed must be the same each time.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            known = vars(instance)
            value = known.get(self.attrname, _UNSET)
            if value is _UNSET:
                value = known.setdefault(self.attrname, self.func(instance))
            return value
