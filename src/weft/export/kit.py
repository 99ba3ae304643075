"""What a toolkit is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from weft.codegen.blob import Blob, pack
from weft.codegen.emit import Files
from weft.export.boards import qemu_facts
from weft.export.exports import Templates
from weft.export.golden import Golden
from weft.export.records import NO_ORIGIN, Provenance
from weft.export.steps import StepFigures, StepGolden
from weft.plan.plan import ALIGNMENT
from weft.plan.report import LayerSpan, Report, summary
from weft.records import dataclass
from weft.screen import Screen, Shown
from weft.targets.target import Target


@dataclass(frozen=True)
class ToolkitBuild:
    """How a toolkit is built.

    Attributes:
        compiler: the command that its Makefile calls; the system's if empty.
        archiver: what goes with it, if that is known.
        flags: for it; level 2 of optimization and the target's if there are none.
        flash: bytes of code and constants, if they were measured.
        measured: what measured them.
    """

    compiler: str = ""
    archiver: str = ""
    flags: tuple[str, ...] = ()
    flash: int | None = None
    measured: str = ""


@dataclass(frozen=True, repr=False)
class Toolkit(Shown):
    """What goes into a toolkit.

    Attributes:
        files: the generated C.
        report: the plan in figures.
        spans: what lies in the arena when and where.
        golden: inputs and the outputs that they must give.
        model: what was compiled, for people (``resnet18.onnx``).
        target: name of the target.
        flags: compiler flags of the target.
        build: how its Makefile builds it, and what that was found to take.
        also: exports (see ``weft.export.exports``) whose files are written, too.
        parameters: what the self-test prepares weights of, if they are given at run time.
        steps: what each step must write, for the tests of kernels; none where these are not made.
        figures: of the steps; counted: what counted their instructions, if anything did.
        machine: the target's record, for what memories it has.
        origin: where the network comes from.
        streamed: chains of layers that are computed by strips of rows, as RAM is short.
        templates: Weft's own, or some in their place.
        scales: scale and zero point of inputs and outputs whose integers stand for numbers.
    """

    files: Files
    report: Report
    spans: Sequence[LayerSpan]
    golden: Golden
    model: str
    target: str
    flags: Sequence[str] = ()
    build: ToolkitBuild = ToolkitBuild()
    also: Sequence[str] = ()
    parameters: tuple[np.ndarray, ...] = ()
    steps: tuple[StepGolden, ...] = ()
    figures: tuple[StepFigures, ...] = ()
    counted: str = ""
    machine: Target | None = None
    origin: Provenance = NO_ORIGIN
    streamed: tuple[str, ...] = ()
    templates: Templates = field(default_factory=Templates)
    scales: Mapping[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])

    @property
    def flash_bytes(self) -> int:
        """Bytes of code and constants: measured, or else an estimate."""
        blob = self.files.blob
        if self.build.flash is None:
            return self.report.weight_bytes + self.files.code_bytes
        return self.build.flash + (blob.size if blob is not None else 0)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        facts = (("run", self.files.interface.function), ("plan", summary(self.report)))
        title = f"Toolkit of {self.model} for {self.target}"
        return replace(self.files.screen(), title=title, facts=facts)

    @property
    def parameter_data(self) -> Blob:
        """The parameters in the order in which they are prepared, each aligned."""
        arrays = {str(place): array for place, array in enumerate(self.parameters)}
        return pack(arrays, ALIGNMENT)

    @property
    def on_qemu(self) -> bool:
        """Whether it has what runs it on a board that QEMU emulates."""
        files = self.files
        alone = files.blob is None and not self.parameters and files.threads == 1
        return alone and not files.foreign.files and bool(qemu_facts(self.machine))
