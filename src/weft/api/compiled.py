"""Networks, built for this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from weft.api.building import build_here
from weft.api.looked import Looked
from weft.frontends.source import Source, note_built
from weft.ir.buffers import ArrayLike
from weft.ir.graph import Graph
from weft.runtime.cache import Cache, digest
from weft.runtime.choices import Choices
from weft.runtime.compiler import Compiler
from weft.runtime.library import Library, recalled
from weft.runtime.record import remember
from weft.runtime.tune import TUNE_SECONDS, Tuning


@dataclass(frozen=True)
class Net(Looked):
    """A network: a graph, and what can be done with it.

    Nets are values: ``simplified``, ``bound`` and the edits of ``Editable`` give new ones.
    """

    def compile(
        self,
        *,
        batch: int = 1,
        flavour: str = "",
        simd: str = "",
        threads: int | None = None,
        exact: bool = False,
        plain: bool = False,
        tune: bool | Literal["cached"] = False,
        tune_seconds: float = TUNE_SECONDS,
        compiler: Compiler | None = None,
        libraries: Sequence[str] = (),
    ) -> CompiledNet:
        """Builds the net for this machine.

        Args:
            batch: size of an open leading dimension.
            flavour: of the C that is generated.
            simd: ``sse2``, ``avx2``, ``avx512`` or ``neon`` for no other vector instructions;
                by default the widest that this machine has.
            threads: to run on; by default ``WEFT_THREADS``, else one for each core that the
                process may use.  The results do not depend on it unless ``tune`` is given, whose
                choices may add up in another order.
            exact: see ``plan``.
            plain: see ``plan``; compiled so that products and sums round on their own.  The
                bits of a value then depend neither on kernels nor on the parts that a layer is
                cut into.
            tune: ``True`` measures the best few alternatives of every layer that the user's
                database of choices does not know yet, adds them to it, and uses it;
                ``"cached"`` uses it and measures nothing.  By default it plays no part, so
                that builds do not depend on what was once measured.
            tune_seconds: for how long networks run while tuning; building them comes on top.
            compiler: by default the one that is found.
            libraries: whose functions are measured beside Weft's own kernels, and called where
                they are faster: ``onednn``, where it is installed.  Without ``tune`` nothing
                of them is used.

        Returns:
            A callable on NumPy arrays.
        """
        way = build_here(
            batch=batch,
            flavour=flavour,
            simd=simd,
            threads=threads,
            exact=exact,
            compiler=compiler,
            plain=plain,
            libraries=libraries,
        )
        choices = Choices().known(way.context) if tune else {}
        # Neither what it takes to build the net nor the net built keeps what planning remembers.
        later = Net(self.origin)
        key = way.key(self.identity, tune, choices)
        library = recalled(Cache(), key, lambda: way.library(later.graph, choices))
        if library is None:
            if tune is True:
                way.tune(self.graph, choices, tune_seconds)
                choices = Choices().known(way.context)
            library = way.library(self.graph, choices)
            remember(Cache(), way.key(self.identity, tune, choices), library.built)
            if isinstance(self.origin, Source):
                note_built(self.origin, self.graph.name)
        return CompiledNet(later._bound_later(batch), library)

    def tune(
        self,
        *,
        batch: int = 1,
        flavour: str = "",
        simd: str = "",
        threads: int | None = None,
        exact: bool = False,
        again: bool = False,
        seconds: float = TUNE_SECONDS,
        compiler: Compiler | None = None,
        inputs: Sequence[np.ndarray] | None = None,
        report: Callable[[float, str], None] | None = None,
        libraries: Sequence[str] = (),
    ) -> Tuning:
        """Measures alternatives of the net's layers and keeps the best in the database.

        ``compile`` with ``tune`` uses what was found.

        Args:
            batch: see ``compile``, as for the next four.
            flavour: of the C that is generated.
            simd: vector instructions.
            threads: to run on.
            exact: see ``plan``.
            again: measure layers too that the database knows.
            seconds: for how long networks run in all; building them comes on top.
            compiler: by default the one that is found.
            inputs: to run on; seeded random ones if not given.
            report: is told how much is done, from 0 to 1, and what is done next.
            libraries: whose functions are measured, too; see ``compile``.
        """
        way = build_here(
            batch=batch,
            flavour=flavour,
            simd=simd,
            threads=threads,
            exact=exact,
            compiler=compiler,
            libraries=libraries,
        )
        known = {} if again else Choices().known(way.context)
        return way.tune(self.graph, known, seconds, inputs, report)

    def _bound_later(self, batch: int) -> Net:
        """``bound``, but without reading the graph now."""
        if isinstance(self.origin, Graph):
            return self.bound(batch)
        identity = digest([self.origin.identity, str(batch)])
        return Net(Source(identity, lambda: self.bound(batch).graph))


@dataclass(frozen=True)
class CompiledNet:
    """A net that was built for this machine.

    Any number of threads may call it at once; one of these calls at a time has the threads
    that the networks of a process share, the others run on their own.

    Attributes:
        net: what was built.
        library: the loaded code.
    """

    net: Net
    library: Library

    def __call__(
        self, *inputs: ArrayLike, out: ArrayLike | Sequence[ArrayLike] | None = None
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """Runs the net; one array if it has one output, else a tuple.

        Args:
            inputs: of the inputs' types, in order, packed in row-major order; not copied.
                Arrays, tensors that DLPack can give (PyTorch's, say), or buffers.
            out: what to write the outputs into, likewise; new arrays if not given.
        """
        if out is not None and not isinstance(out, list | tuple):
            out = (cast(ArrayLike, out),)
        outputs = self.library(*inputs, out=out)
        return outputs[0] if len(outputs) == 1 else outputs
