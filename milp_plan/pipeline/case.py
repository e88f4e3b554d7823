"""One pipeline to plan: a model, how it is cut and placed, how many micro-batches, which memory.

All numbers are exact fractions in the units of their source: times of one micro-batch, sizes in
whatever the source counts (for ``--times`` one device's share of the activations is 1).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import lcm

from milp_plan.core import CommunicationModel, Objective, PlanningProblem, Units, ceil_div
from milp_plan.core.quantity import BYTES, NANOSECONDS, UNSPECIFIED, plain, scale_of

from .placement import Route, place
from .stash import with_hosts
from .template import Stage, Template, pipeline_problem

Number = Fraction | int

FREE = "free"
"""Family of cases whose stages choose their devices."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the model that is not cut further; costs of one micro-batch.

    Parameters
    ----------
    forward, backward, weight
        Times of forward pass, input gradient and weight gradient.
    held_to_backward, held_to_weight
        Activations held from the start of the forward pass to the end of the input gradient, and
        to the end of the weight gradient.
    gradient
        Held from the start of the input gradient to the end of the weight gradient.
    parameters
        Held all the time.
    """

    forward: Number
    backward: Number
    weight: Number
    held_to_backward: Number = 0
    held_to_weight: Number = 0
    gradient: Number = 0
    parameters: Number = 0

    def scaled(self, factor: Number) -> Piece:
        """Return the piece with everything but its parameters multiplied: another batch size."""
        return Piece(
            self.forward * factor,
            self.backward * factor,
            self.weight * factor,
            self.held_to_backward * factor,
            self.held_to_weight * factor,
            self.gradient * factor,
            self.parameters,
        )

    @property
    def time(self) -> Number:
        """All of its work on one micro-batch."""
        return self.forward + self.backward + self.weight


@dataclass(frozen=True)
class Model:
    """What is cut into stages.

    Parameters
    ----------
    pieces
        In the order of the forward pass; stages are runs of neighbouring pieces.
    transfer
        Time of a transfer between neighbouring stages on different devices.
    even
        The only piece is one device's share of a model that can be cut anywhere into equal parts.
    time_unit, size_unit
        What the numbers count; ``unspecified`` if nothing is said.
    """

    pieces: tuple[Piece, ...]
    transfer: Number = 0
    even: bool = False
    time_unit: str = UNSPECIFIED
    size_unit: str = UNSPECIFIED

    @property
    def units(self) -> Units:
        """What the numbers count; none of them is scaled."""
        return Units(self.time_unit, self.size_unit)

    @classmethod
    def from_share(
        cls,
        times: tuple[Number, Number, Number],
        transfer: Number = 0,
        freed_at_backward: Number = 0,
        time_unit: str = UNSPECIFIED,
    ) -> Model:
        """Return the model whose share per device has these F, B and W, and one activation."""
        share = Piece(*times, freed_at_backward, 1 - freed_at_backward)
        return cls((share,), transfer, even=True, time_unit=time_unit)

    def cut(self, devices: int, stages: int) -> tuple[Piece, ...]:
        """Cut into stages.

        Raises
        ------
        ValueError
            There are fewer pieces than stages.
        """
        if self.even:
            share = self.pieces[0]
            size = Fraction(devices, stages)
            return (replace(share.scaled(size), parameters=share.parameters * size),) * stages
        if len(self.pieces) < stages:
            raise ValueError(f"{len(self.pieces)} pieces cannot be cut into {stages} stages")
        return tuple(_joined(part) for part in _balanced(self.pieces, stages))


@dataclass(frozen=True)
class Case:
    """One pipeline to plan.

    Parameters
    ----------
    model, devices, micro_batches, family, chunks
        What is planned where; see :func:`.placement.place`. Family :data:`FREE` leaves every
        stage its choice of device.
    memory
        Limit of every device, in the model's units; ``None`` is without limit.
    batch
        Factor on the size of a micro-batch: times and activations are multiplied by it.
    joint_backward, channels
        One operator for both gradients; transfers hold their channel.
    lane
        Time in which an activation leaves to the host, and returns from there, on lanes of each
        device; ``None`` where it cannot. Transfers then hold their channel.
    recompute
        Forward passes may run again.
    objective
        Makespan, or span.
    """

    model: Model
    devices: int
    micro_batches: int
    family: str = "line"
    chunks: int | None = None
    memory: Number | None = None
    batch: Number = 1
    joint_backward: bool = False
    channels: bool = False
    lane: Number | None = None
    recompute: bool = False
    objective: Objective = Objective.MAKESPAN

    @property
    def name(self) -> str:
        """Name of the problem: what tells it from its neighbours in a sweep."""
        chunks = "" if self.chunks is None else f"-{self.chunks}chunks"
        memory = "" if self.memory is None else f"-memory{_word(self.memory)}"
        memory += "" if self.lane is None else f"-lane{_word(self.lane)}"
        memory += "-recompute" if self.recompute else ""
        span = "-span" if self.objective is Objective.SPAN else ""
        return f"{self.family}{chunks}-{self.devices}x{self.micro_batches}{memory}{span}"


@dataclass(frozen=True)
class Built:
    """A case as a problem, and its scales.

    Parameters
    ----------
    case
        What was built.
    problem
        With the model's units: what it counts are nanoseconds and bytes, or parts of them, where
        these are known.
    work
        Ticks the busiest device works at least: less than that no plan takes.
    """

    case: Case
    problem: PlanningProblem
    work: int


def build(case: Case) -> Built:
    """Unroll a case into a problem.

    Raises
    ------
    ValueError
        The placement does not exist, or the model cannot be cut for it.
    """
    routes = None
    stages = case.devices * (case.chunks or 1)
    if case.family != FREE:
        routes = place(case.family, case.devices, case.chunks)
        stages = len(routes[0])
    pieces = case.model.cut(case.devices, stages)
    pieces = tuple(piece.scaled(case.batch) for piece in pieces)
    times = [t for piece in pieces for t in (piece.forward, piece.backward, piece.weight)]
    clock = [*times, case.model.transfer, case.lane or 0]
    sizes = [size for piece in pieces for size in _sizes(piece)]
    memory = [] if case.memory is None else [case.memory]
    units = case.model.units
    units = replace(
        units,
        time_scale=scale_of(units.time, NANOSECONDS, clock),
        size_scale=scale_of(units.size, BYTES, [*sizes, *memory]),
    )
    template = Template(
        stages=tuple(_stage(piece, units) for piece in pieces),
        micro_batches=case.micro_batches,
        transfer_ns=int(case.model.transfer * units.time_scale),
        joint_backward=case.joint_backward,
        transfers=CommunicationModel.CHANNEL if case.channels else CommunicationModel.DELAY,
        units=units,
    )
    limit = None if case.memory is None else int(case.memory * units.size_scale)
    problem = _problem(case, template, routes, limit)
    return Built(case, problem, _work(template, routes, case.devices))


def _problem(
    case: Case,
    template: Template,
    routes: Sequence[Route] | None,
    limit: int | None,
) -> PlanningProblem:
    if routes is None and (case.recompute or case.lane is not None):
        raise ValueError("stages that recompute or have lanes to a host need given devices")
    problem = pipeline_problem(
        case.name,
        template,
        routes,
        devices=case.devices,
        memory_bytes=limit,
        objective=case.objective,
    )
    if case.lane is not None:
        ticks = int(case.lane * template.units.time_scale)
        if ticks < 1:
            raise ValueError("a lane takes more than no time")
        problem = with_hosts(problem, ticks)
    return replace(problem.with_recomputation(), parent=None) if case.recompute else problem


def _work(template: Template, routes: Sequence[Sequence[int]] | None, devices: int) -> int:
    if routes is None:
        each = sum(s.forward_ns + s.backward_ns + s.weight_ns for s in template.stages)
        return ceil_div(each * template.micro_batches, devices)
    busy = [0] * devices
    for batch in range(template.micro_batches):
        route = routes[batch * len(routes) // template.micro_batches]
        for device, stage in zip(route, template.stages, strict=True):
            busy[device] += stage.forward_ns + stage.backward_ns + stage.weight_ns
    return max(busy)


def _sizes(piece: Piece) -> tuple[Number, ...]:
    return (piece.held_to_backward, piece.held_to_weight, piece.gradient, piece.parameters)


def _stage(piece: Piece, units: Units) -> Stage:
    times = (piece.forward, piece.backward, piece.weight)
    return Stage(
        *(int(number * units.time_scale) for number in times),
        *(int(number * units.size_scale) for number in _sizes(piece)),
    )


def _word(number: Number) -> str:
    return plain(number).replace("/", "over")


def _denominator(numbers: Iterable[Number]) -> int:
    return lcm(*(Fraction(number).denominator for number in numbers))


def _joined(pieces: Sequence[Piece]) -> Piece:
    """One stage of several pieces."""
    rows = [((p.forward, p.backward, p.weight), _sizes(p)) for p in pieces]
    times = [sum(column) for column in zip(*(row[0] for row in rows), strict=True)]
    sizes = [sum(column) for column in zip(*(row[1] for row in rows), strict=True)]
    return Piece(*times, *sizes)


def _balanced(pieces: Sequence[Piece], parts: int) -> list[Sequence[Piece]]:
    """Cut into runs whose longest is as short as can be; of equals, what cuts earlier from behind.

    A dynamic programme over last cuts. The later the last cut, the shorter the last run and the
    longer the longest before it, so the best one stands where the two cross: it is bisected for.
    """
    scale = _denominator(piece.time for piece in pieces)
    total = [0, *accumulate(int(Fraction(piece.time) * scale) for piece in pieces)]
    count = len(pieces)
    longest = list(total)
    last = [[0] * (count + 1)]
    for part in range(2, parts + 1):
        row, chosen = [0] * (count + 1), [0] * (count + 1)
        for end in range(part, count - (parts - part) + 1):
            chosen[end] = cut = _last_cut(total, longest, part - 1, end)
            row[end] = max(longest[cut], total[end] - total[cut])
        longest = row
        last.append(chosen)
    cuts = [count]
    for chosen in reversed(last):
        cuts.append(chosen[cuts[-1]])
    cuts.reverse()
    return [pieces[a:b] for a, b in pairwise(cuts)]


def _last_cut(total: list[int], longest: list[int], least: int, end: int) -> int:
    """Return the first of the best places from ``least`` on for the last cut before ``end``."""
    low, high = least, end - 1
    while low < high:
        middle = (low + high) // 2
        if longest[middle] >= total[end] - total[middle]:
            high = middle
        else:
            low = middle + 1
    if low == least or max(longest[low], total[end] - total[low]) < total[end] - total[low - 1]:
        return low
    return max(least, bisect_left(total, total[low - 1]))
