"""Plans that users give: from files, from text, or made before."""

from __future__ import annotations

from pathlib import Path

from weft.errors import UserError
from weft.kernels.generators import checked_libraries
from weft.options import PlanSource
from weft.plan.plan import Plan, written
from weft.plan.text import PlanText, refused
from weft.plan.written import facts_of
from weft.runtime.threads import thread_count
from weft.targets.find import target as find_target
from weft.targets.target import Target

MOST_BYTES = 1 << 28


def text_of(source: PlanSource) -> PlanText:
    """What a plan says.

    Args:
        source: a plan, its text (a string of several lines), or the file of one.

    Raises:
        UserError: there is no such file, or it is no plan.
    """
    if isinstance(source, PlanText):
        return source
    if isinstance(source, Plan):
        return written(source, alternatives=False)
    # The parser takes a while to import, which only those who give a plan should pay.
    from weft.plan.parse import parse  # noqa: PLC0415

    return parse(source if isinstance(source, str) and "\n" in source else _read(Path(source)))


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError("plan: the file is too large", got=str(path))
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fix = "Write one with `weft plan MODEL -o FILE`."
        raise UserError(
            "a plan must be a readable text file", got=f"{path}: {error}", fix=fix
        ) from None


def machine_of(text: PlanText, target: Target | None = None) -> Target:
    """The machine that a plan was made for.

    Args:
        text: of the plan.
        target: the machine, where it is none that its name finds.

    Raises:
        UserError: it is another one now.
    """
    thread_count(text.threads)
    checked_libraries(text.constraints.libraries)
    if target is None and not text.target:
        raise refused("a plan names its target", "none", 1)
    found = (target or find_target(text.target)).in_flavour(text.constraints.flavour)
    facts = facts_of(found)
    differing = [
        f"{name}={text.facts.get(name, 'nothing')} for {name}={facts.get(name, 'nothing')}"
        for name in dict.fromkeys((*facts, *text.facts))
        if facts.get(name) != text.facts.get(name)
    ]
    if differing:
        raise refused(
            f"it must be for the machine that {found.name} is",
            ", ".join(differing),
            2,
            "Plan it again for this machine.",
        )
    return found
