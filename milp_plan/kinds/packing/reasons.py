"""Reasons of packing problems: buffers, the capacity, and the highest buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from milp_plan.core import Counts, Verdict
from milp_plan.run.reasons.base import Move, Reasons, Remedy, Resource, Usage, Why, used_up

from .problem import PackingPlan, PackingProblem

CAPACITY = "capacity"
MAX_NAMES = 12


class PackingReasons(Reasons[PackingProblem, PackingPlan]):
    """Reasons of :class:`milp_plan.kinds.packing.problem.PackingProblem`."""

    noun, members = "buffers", "buffers"

    def resources(self, problem: PackingProblem) -> tuple[Resource, ...]:
        """Return the capacity."""
        return (Resource(CAPACITY, "memory", problem.capacity, Counts.SIZE),)

    def resized(self, problem: PackingProblem, amounts: Mapping[str, int | None]) -> PackingProblem:
        """Return the problem with another capacity."""
        return replace(problem, capacity=amounts.get(CAPACITY, problem.capacity))

    def why(self, problem: PackingProblem, plan: PackingPlan, verdict: Verdict) -> Why:
        """Return buffers by their tops, and the load that bounds every packing."""
        from .bounds import fullest_instant

        height = verdict.value or 0
        tops = sorted(plan.places, key=lambda place: -place.offset - place.buffer.size)
        usage = tuple(
            Usage(
                f"{place.buffer.name}, alive from {place.buffer.lower} to {place.buffer.upper}",
                "top of a buffer",
                place.offset + place.buffer.size,
                height,
                Counts.SIZE,
            )
            for place in tops
        )
        limits: tuple[Usage, ...] = ()
        if problem.capacity is not None:
            limits = (Usage(CAPACITY, "memory", height, problem.capacity, Counts.SIZE),)
        full = fullest_instant(problem)
        at_top = [p.buffer.name for p in tops if p.offset + p.buffer.size == height]
        text = f"lower places for {_some(at_top)}"
        remedies = [Remedy(text, height - full.height)] if height > full.height else []
        names = [buffer.name for buffer in sorted(full.buffers, key=lambda b: -b.size)]
        remedies.append(
            Remedy(
                f"smaller or shorter-lived buffers among those alive at {full.time}: {_some(names)}"
            )
        )
        return Why((), usage, limits, used_up(limits), (), tuple(remedies))

    def moves(
        self,
        problem: PackingProblem,  # noqa: ARG002
        before: PackingPlan,
        other: PackingProblem,  # noqa: ARG002
        after: PackingPlan,
    ) -> tuple[Move, ...]:
        """Return buffers that moved down or up, and the change of their highest top."""
        one = {place.buffer.name: place for place in before.places}
        two = {place.buffer.name: place for place in after.places}
        common = [name for name in one if name in two]
        moves = []
        for word, sign in (("lower", -1), ("higher", 1)):
            names = [n for n in common if (two[n].offset - one[n].offset) * sign > 0]
            if names:
                tops = [
                    max(side[n].offset + side[n].buffer.size for n in names) for side in (one, two)
                ]
                cost = {"highest top": tops[1] - tops[0]}
                moves.append(
                    Move("offset", "as planned first", word, tuple(names), cost, Counts.SIZE)
                )
        return tuple(moves)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
