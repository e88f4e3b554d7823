r"""Address packing by order: which of two buffers that meet in time lies below the other.

Letters: buffers i, j that have an instant in common; o offset, s size, a alignment; c the size,
rounded up to what all alignments have in common; T the height that is asked at most.
``below[i,j]`` (i before j in the problem) is 1 where i lies below j, 0 where j lies below i.

============  ====================================================================================
``apart``     o_i + c_i <= o_j + (highest o_i + c_i) (1 - below[i,j]);  the same the other way round
``height``    o_i + s_i <= H
``stack``     at an instant: o_i >= sum of c_j over the j alive then that lie below i
``rest``      at an instant: H >= o_i + c_i + sum of c_j over the j alive then that lie above i,
              less the most by which one of them was rounded up
============  ====================================================================================

``stack`` and ``rest`` hold since buffers alive at one instant share no address; they make the
linear relaxation as high as the fullest instant. Buffers that are alike stand in their order, as
they may change places. Decoding lets every buffer sink onto those below it, so offsets are exact.

Sunk buffers lie at multiples of a *step* (:func:`step_of`): what all sizes c and those alignments
have in common that are not divisors of it. Units are steps, or twice as many of them again and
again where a height is many, so that no number is rounded. An offset whose alignment is no divisor
of the step is ``multiple`` (whole) times its alignment; all others are whole by themselves once the
order is chosen. All that is at most so high may be half a grain of heights more: no packing lies at
an edge of the model.

Source: this project; one bit for each pair is the usual program (e.g. MODeL, arXiv 2210.12924).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import gcd
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
    coarser,
)
from milp_plan.kinds.packing import problem as packing

NAME = "packing_order"

MOST_UNITS = 128
"""Units of the model that the greatest height takes at most. At 10^4 of them HiGHS 1.15.1 loses
optima, as what rounding leaves in its rows comes close to the tolerance it is asked to keep."""


@dataclass(frozen=True)
class Switches:
    """Switches of the formulation."""

    pairs: int = field(
        default=4_000,
        metadata={"help": "refuse problems with more pairs of buffers that meet", "least": 0},
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
    ) -> Values:
        """Offsets of a plan once it has sunk, which takes no more than the plan."""
        return _Builder(problem, options, Guide()).encode(model, plan)


def alike(one: packing.Buffer, two: packing.Buffer) -> bool:
    """Whether two buffers differ in name alone."""
    return _form(one) == _form(two)


def _form(buffer: packing.Buffer) -> tuple[int, ...]:
    return buffer.lower, buffer.upper, buffer.size, buffer.alignment


def meetings(problem: packing.PackingProblem) -> list[tuple[int, int]]:
    """Pairs of buffers, by number, that have an instant in common."""
    buffers = problem.buffers
    return [
        (i, j)
        for i, one in enumerate(buffers)
        for j, two in enumerate(buffers[i + 1 :], i + 1)
        if one.lower < two.upper and two.lower < one.upper
    ]


def rounded_sizes(buffers: Iterable[packing.Buffer]) -> list[int]:
    """Sizes, rounded up to what all alignments have in common: nothing else fits in between."""
    grid = gcd(*(buffer.alignment for buffer in buffers))
    return [-(-buffer.size // grid) * grid for buffer in buffers]


def step_of(buffers: Iterable[packing.Buffer]) -> int:
    """Addresses of which the offset of every buffer that has sunk is a multiple.

    A buffer lies at 0 or on another, rounded up to its alignment. Rounding up a multiple of the
    step changes nothing where the alignment is a divisor of it; else the result is a multiple of
    the alignment, so the step must divide that.
    """
    step, found = 0, gcd(*rounded_sizes(buffers))
    while step != found:
        step = found
        found = gcd(step, *(b.alignment for b in buffers if step % b.alignment))
    return step


class _Builder:
    """One model under construction."""

    def __init__(self, problem: packing.PackingProblem, _: Switches, guide: Guide) -> None:
        self.problem, self.buffers = problem, problem.buffers
        self.pairs = meetings(problem)
        self.met = set(self.pairs)
        self.sizes, self.step = rounded_sizes(self.buffers), step_of(self.buffers)
        most = self.highest()
        self.unit = coarser(self.step, most, MOST_UNITS)
        grain = self.scale.grain
        self.top = (most if guide.cutoff is None else min(most, guide.cutoff)) // grain * grain
        self.spare = grain / 2  # no packing is at an edge
        self.low = max(0, guide.bound or 0)
        self.table = Tableau()

    @cached_property
    def scale(self) -> Scale:
        """Heights are offsets and sizes: multiples of what they have in common."""
        return Scale(self.unit, gcd(self.step, *(buffer.size for buffer in self.buffers)))

    @cached_property
    def first_fit(self) -> list[int]:
        """Offsets of a first fit: of the largest first, or of those that live longest."""
        numbers = range(len(self.buffers))
        orders = (
            sorted(numbers, key=lambda i: (-self.buffers[i].size, i)),
            sorted(numbers, key=lambda i: (self.buffers[i].lower - self.buffers[i].upper, i)),
        )
        return min(map(self.sunk, orders), key=self.height)

    def highest(self) -> int:
        """Height up to which packings are looked for: some best packing is no higher."""
        top, capacity = self.height(self.first_fit), self.problem.capacity
        return top if capacity is None else min(top, capacity)

    def build(self) -> CompiledModel:
        """Write the model."""
        table, unit = self.table, self.unit
        table.column(("height", 0), 1.0, upper=(self.top + self.spare) / unit, integer=False)
        table.row("height", [(("height", 0), 1.0)], self.low / unit)
        if any(buffer.size > self.top for buffer in self.buffers):
            table.row("height", [], 1.0)  # never, however little it is too large by
        for i, buffer in enumerate(self.buffers):
            family, grid = self.counted(i)
            most = self.latest(i) // grid
            upper = float(most) if family == "multiple" else (most * grid + self.spare) / unit
            table.column((family, i), upper=upper, integer=family == "multiple")
            terms: list[Term] = [self.offset(i), (("height", 0), -1.0)]
            table.row("height", terms, high=-buffer.size / unit)
        for i, j in self.pairs:
            table.column(("below", (i, j)))
            self.apart(i, j)
        for members in self.instants():
            self.stack(members)
        return table.compiled()

    def counted(self, i: int) -> tuple[str, int]:
        """Family of a buffer's column, and the addresses of which its offset is a multiple."""
        alignment = self.buffers[i].alignment
        return ("multiple", alignment) if self.step % alignment else ("offset", self.step)

    def offset(self, i: int, sign: float = 1.0) -> Term:
        """Return the offset of a buffer, in units."""
        family, grid = self.counted(i)
        return (family, i), sign * (grid / self.unit if family == "multiple" else 1.0)

    def latest(self, i: int) -> int:
        """Highest offset; 0 for what is too large: then there is no solution."""
        return max(0, self.top - self.buffers[i].size)

    def below(self, i: int, j: int, share: float) -> list[Term]:
        """``share`` times whether i lies below j."""
        if (i, j) in self.met:
            return [(("below", (i, j)), share)]
        return [(None, share), (("below", (j, i)), -share)]

    def apart(self, i: int, j: int) -> None:
        """Write that one of two lies below the other."""
        if alike(self.buffers[i], self.buffers[j]):
            self.table.row("alike", [(("below", (i, j)), 1.0)], 1.0)
        for a, b in ((i, j), (j, i)):
            room = self.latest(a) // self.step * self.step + self.sizes[a] + self.spare
            terms = [self.offset(a), self.offset(b, -1.0), *self.below(a, b, room / self.unit)]
            self.table.row("apart", terms, high=(room - self.sizes[a]) / self.unit)

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
        """Write what lies below and above each buffer of an instant."""
        spare = max(self.sizes[i] - self.buffers[i].size for i in members)
        for i in members:
            under: list[Term] = [self.offset(i)]
            over: list[Term] = [(("height", 0), 1.0), self.offset(i, -1.0)]
            for j in members:
                if j != i:
                    size = self.sizes[j] / self.unit
                    under += self.below(j, i, -size)
                    over += self.below(i, j, -size)
            self.table.row("stack", under, 0.0)
            self.table.row("rest", over, (self.sizes[i] - spare) / self.unit)

    # -- plans and solutions -----------------------------------------------------------------------

    def sunk(self, order: Iterable[int]) -> list[int]:
        """Offsets of buffers that are put down one after the other, each as low as can be."""
        offset: dict[int, int] = {}
        for i in order:
            under = (
                offset[j] + self.buffers[j].size
                for j in offset if (i, j) in self.met or (j, i) in self.met
            )  # fmt: skip
            alignment = self.buffers[i].alignment
            offset[i] = -(-max(under, default=0) // alignment) * alignment
        return [offset[i] for i in range(len(self.buffers))]

    def height(self, offsets: list[int]) -> int:
        """Highest address in use."""
        return max(at + b.size for at, b in zip(offsets, self.buffers, strict=True))

    def decode(self, values: Values) -> packing.PackingPlan:
        """Let buffers sink onto those that lie below them."""
        at = [
            values[family][i] * grid if family == "multiple" else values[family][i] * self.unit
            for i, (family, grid) in enumerate(map(self.counted, range(len(self.buffers))))
        ]
        under: dict[int, list[int]] = {i: [] for i in sorted(range(len(at)), key=at.__getitem__)}
        for (i, j), bit in values.get("below", {}).items():
            under[j if bit > 0.5 else i].append(i if bit > 0.5 else j)
        try:
            order = list(TopologicalSorter(under).static_order())
        except CycleError:  # of sizes that a tolerance hides
            order = list(under)
        offsets = self.sunk(order)
        places = tuple(map(packing.Place, self.buffers, offsets))
        return packing.PackingPlan(self.problem.name, places, self.height(offsets), NAME)

    def encode(self, model: CompiledModel, plan: packing.PackingPlan) -> Values:
        """Offsets of a plan once it has sunk, or of the first fit where that is lower.

        Buffers that are alike stand in their order.
        """
        known = {place.buffer.name: place.offset for place in plan.places}
        numbers = range(len(self.buffers))
        order = sorted(numbers, key=lambda i: known[self.buffers[i].name])
        found = min(self.sunk(order), self.first_fit, key=self.height)
        order.sort(key=found.__getitem__)
        rows: dict[tuple[int, ...], list[int]] = {_form(buffer): [] for buffer in self.buffers}
        for i in order:
            rows[_form(self.buffers[i])].append(found[i])
        offset = [rows[_form(buffer)].pop(0) for buffer in self.buffers]
        values: Values = {}
        columns: list[tuple[str, Any]] = list(model.columns)
        for family, index in columns:
            row = values.setdefault(family, {})
            if family == "below":
                i, j = index
                row[index] = float(offset[i] < offset[j])
            elif family == "multiple":
                row[index] = float(offset[index] // self.buffers[index].alignment)
            elif family == "offset":
                row[index] = offset[index] / self.unit
            else:
                row[index] = self.height(offset) / self.unit
        return values


FORMULATION: Any = PackingOrder(_Builder)
