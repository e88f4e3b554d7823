r"""Address packing by order: which of two buffers that meet in time lies below the other.

Letters: buffers i, j that have an instant in common; o offset, s size, a alignment; T the height
that is asked at most. ``below[i,j]`` (i before j in the problem) is 1 where i lies below j, 0 where
j lies below i.

============  ====================================================================================
``apart``     o_i + s_i <= o_j + (T - s_j) (1 - below[i,j]);  the same the other way round
``height``    o_i + s_i <= H
``stack``     at an instant: o_i >= sum of s_j over the j alive then that lie below i
``rest``      at an instant: H >= o_i + s_i + sum of s_j over the j alive then that lie above i
``multiple``  o_i = a_i k_i, k_i whole
============  ====================================================================================

``stack`` and ``rest`` hold since buffers alive at one instant share no address; they make the
linear relaxation as high as the fullest instant. Buffers that are alike stand in their order, as
they may change places. Decoding lets every buffer sink onto those below it, so offsets are exact.

Source: this project; one bit for each pair is the usual program (e.g. MODeL, arXiv 2210.12924).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from milp_plan.api import (
    BuilderFormulation,
    Card,
    CompiledModel,
    Guide,
    Scale,
    Tableau,
    Term,
    Values,
    packing,
)

NAME = "packing_order"

UNITS = 10_000
"""Units of the model that the greatest height takes at most, where sizes have no such divisor."""


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    pairs: int = field(
        default=4_000, metadata={"help": "refuse problems with more pairs of buffers that meet"}
    )


class PackingOrder(BuilderFormulation):
    """Offsets, and a bit for each pair of buffers that meet."""

    card = Card(
        name=NAME,
        title="Address packing by the order of buffers that meet",
        source="this project; one bit for each pair as in MODeL (arXiv 2210.12924)",
        objectives=(packing.PackingObjective.HEIGHT,),
        exact=True,
    )
    handles = packing.PackingProblem
    Options = Switches

    def unsupported(self, problem: packing.PackingProblem, options: Switches) -> str | None:
        """Too many pairs."""
        found = len(meetings(problem))
        if found > options.pairs:
            return f"{found} pairs of buffers meet, the switch pairs allows {options.pairs}"
        return None

    def encode(
        self,
        problem: packing.PackingProblem,
        options: Switches,
        model: CompiledModel,
        plan: packing.PackingPlan,
    ) -> Values | None:
        """Offsets of a plan; ``None`` where buffers that are alike stand the other way round."""
        offset = {place.buffer.name: place.offset for place in plan.places}
        buffers, unit = problem.buffers, _unit(problem)
        values: Values = {}
        columns: list[tuple[str, Any]] = list(model.columns)
        for family, index in columns:
            row = values.setdefault(family, {})
            if family == "below":
                i, j = index
                row[index] = float(offset[buffers[i].name] < offset[buffers[j].name])
                if alike(buffers[i], buffers[j]) and not row[index]:
                    return None
            elif family == "multiple":
                row[index] = offset[buffers[index].name] // buffers[index].alignment
            elif family == "offset":
                row[index] = offset[buffers[index].name] / unit
            else:
                row[index] = max(offset[b.name] + b.size for b in buffers) / unit
        return values


def alike(one: packing.Buffer, two: packing.Buffer) -> bool:
    """Whether two buffers differ in name alone."""
    return (one.lower, one.upper, one.size, one.alignment) == (
        two.lower, two.upper, two.size, two.alignment
    )  # fmt: skip


def meetings(problem: packing.PackingProblem) -> list[tuple[int, int]]:
    """Pairs of buffers, by number, that have an instant in common."""
    buffers = problem.buffers
    return [
        (i, j)
        for i, one in enumerate(buffers)
        for j, two in enumerate(buffers[i + 1 :], i + 1)
        if one.lower < two.upper and two.lower < one.upper
    ]


def _highest(problem: packing.PackingProblem, guide: Guide) -> int:
    """Height up to which packings are looked for: some best packing is no higher."""
    tops = [sum(b.size + b.alignment - 1 for b in problem.buffers)]
    tops += [top for top in (problem.capacity, guide.cutoff) if top is not None]
    return min(tops)


def _unit(problem: packing.PackingProblem) -> float:
    """Addresses per unit: so few of them that a solver's tolerances mean nothing."""
    total = sum(b.size + b.alignment - 1 for b in problem.buffers)
    return max(1.0, total / UNITS)


class _Builder:
    """One model under construction."""

    def __init__(self, problem: packing.PackingProblem, _: Switches, guide: Guide) -> None:
        self.problem, self.buffers = problem, problem.buffers
        self.top, self.unit = _highest(problem, guide), _unit(problem)
        self.low = max(0, guide.bound or 0)
        self.scale = Scale(self.unit)
        self.pairs = meetings(problem)
        self.met = set(self.pairs)
        self.table = Tableau()

    def build(self) -> CompiledModel:
        table, unit = self.table, self.unit
        table.column(("height", 0), 1.0, upper=self.top / unit, integer=False)
        table.row("height", [(("height", 0), 1.0)], self.low / unit)
        for i, buffer in enumerate(self.buffers):
            # a buffer that is too large leaves the model without a solution, as it should
            upper = max(0, self.top - buffer.size) / unit
            table.column(("offset", i), upper=upper, integer=False)
            terms: list[Term] = [(("offset", i), 1.0), (("height", 0), -1.0)]
            table.row("height", terms, high=-buffer.size / unit)
            if buffer.alignment > 1:
                table.column(("multiple", i), upper=self.top // buffer.alignment)
                share = buffer.alignment / unit
                table.row("multiple", [(("offset", i), 1.0), (("multiple", i), -share)], 0.0, 0.0)
        for i, j in self.pairs:
            table.column(("below", (i, j)))
            self.apart(i, j)
        for members in self.instants():
            self.stack(members)
        return table.compiled()

    def below(self, i: int, j: int, share: float) -> list[Term]:
        """``share`` times whether i lies below j."""
        if (i, j) in self.met:
            return [(("below", (i, j)), share)]
        return [(None, share), (("below", (j, i)), -share)]

    def apart(self, i: int, j: int) -> None:
        one, two = self.buffers[i], self.buffers[j]
        if alike(one, two):
            self.table.row("alike", [(("below", (i, j)), 1.0)], 1.0)
        for a, b in ((i, j), (j, i)):
            room = max(0, self.top) / self.unit  # o_a + s_a is at most top, o_b at least 0
            terms: list[Term] = [(("offset", a), 1.0), (("offset", b), -1.0)]
            terms += self.below(a, b, room)
            self.table.row("apart", terms, high=room - self.buffers[a].size / self.unit)

    def instants(self) -> list[tuple[int, ...]]:
        """Sets of buffers alive at one instant, of which none is part of another."""
        found: list[frozenset[int]] = []
        for start in sorted({buffer.lower for buffer in self.buffers}):
            alive = frozenset(
                i for i, buffer in enumerate(self.buffers) if buffer.lower <= start < buffer.upper
            )
            found = [one for one in found if not one < alive]
            if not any(alive <= one for one in found):
                found.append(alive)
        return [tuple(sorted(one)) for one in found]

    def stack(self, members: tuple[int, ...]) -> None:
        unit = self.unit
        for i in members:
            under: list[Term] = [(("offset", i), 1.0)]
            over: list[Term] = [(("height", 0), 1.0), (("offset", i), -1.0)]
            for j in members:
                if j != i:
                    size = self.buffers[j].size / unit
                    under += self.below(j, i, -size)
                    over += self.below(i, j, -size)
            self.table.row("stack", under, 0.0)
            self.table.row("rest", over, self.buffers[i].size / unit)

    def decode(self, values: Values) -> packing.PackingPlan:
        """Let buffers sink, the lowest first."""
        offset: dict[int, int] = {}
        for i in sorted(values["offset"], key=lambda i: (values["offset"][i], i)):
            buffer = self.buffers[i]
            under = (
                offset[j] + self.buffers[j].size
                for j in offset if (i, j) in self.met or (j, i) in self.met
            )  # fmt: skip
            offset[i] = -(-max(under, default=0) // buffer.alignment) * buffer.alignment
        places = tuple(packing.Place(buffer, offset[i]) for i, buffer in enumerate(self.buffers))
        height = max(place.offset + place.buffer.size for place in places)
        return packing.PackingPlan(self.problem.name, places, height, NAME)


FORMULATION: Any = PackingOrder(_Builder)
