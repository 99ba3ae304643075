"""Random steps, as ordering sees them."""

from __future__ import annotations

from hypothesis import strategies as st

from weft.plan.liveness import MemoryStep


@st.composite
def programs(
    draw: st.DrawFn, most: int = 7
) -> tuple[list[MemoryStep], dict[str, int], frozenset[str]]:
    """Random programs: some roots are written in two parts, some taken over in place."""
    count = draw(st.integers(1, most))
    sizes = {"in": draw(st.integers(0, 5))}
    written: dict[str, set[int]] = {"in": set()}
    steps: list[MemoryStep] = []
    for place in range(count):
        reads = draw(st.sets(st.sampled_from(sorted(written)), max_size=3))
        new = draw(st.booleans()) or place == 0
        if new:
            target = f"r{place}"
            sizes[target] = draw(st.integers(0, 5))
        else:
            target = draw(st.sampled_from(sorted(written)))
        # A part may be added only to a root that nobody reads yet.
        if any(target in step.reads for step in steps) or target == "in":
            target = f"r{place}"
            sizes[target] = draw(st.integers(0, 5))
        reads -= {target}
        before = frozenset().union(*(written[root] for root in reads))
        pairs = draw(st.permutations([(target, root) for root in sorted(reads)]))
        steps.append(
            MemoryStep(
                before,
                tuple(sorted(reads)),
                (target,),
                tuple(pairs[: draw(st.integers(0, len(pairs)))]),
                draw(st.integers(0, 4)),
            )
        )
        written.setdefault(target, set()).add(place)
    used = {root for step in steps for root in (*step.reads, *step.writes)}
    keep = draw(st.sets(st.sampled_from(sorted(used)), max_size=2))
    return steps, sizes, frozenset(keep)
