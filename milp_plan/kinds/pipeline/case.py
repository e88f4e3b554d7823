"""One pipeline to plan: a model, how it is cut and placed, how many micro-batches, which memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from milp_plan.core import CommunicationModel, Objective, PlanningProblem, Units, ceil_div
from milp_plan.core.quantity import BYTES, NANOSECONDS, plain, scale_of

from .model import Cut, Model, Number, Piece, most_even
from .placement import Route, place
from .stash import with_hosts
from .template import Stage, Template, pipeline_problem

CUT = "cut"
"""Entry of the provenance: the number of pieces of each stage. ``stage 0`` and so on name them."""

TO = " … "
"""Stands between the first and the last of consecutive names."""

FREE = "free"
"""Name of the family whose stages choose their devices."""


@dataclass(frozen=True)
class Case:
    """One pipeline to plan.

    Parameters
    ----------
    model, devices, micro_batches, family, chunks
        What is planned where; see :func:`.placement.place`. Family :data:`FREE` leaves every
        stage its choice of device.
    memory
        Memory limit of every device, in the model's units; ``None`` is without limit.
    batch
        Factor on the size of a micro-batch: times and activations are multiplied by it.
    joint_backward, channels
        Whether both gradients are one operator; whether transfers hold their channel.
    lane
        Time that an activation takes to the host, or back, on the lanes of each device; ``None``
        where it cannot go there. With lanes, transfers hold their channel.
    recompute
        Whether forward passes may run again.
    objective
        Makespan or span.
    cut
        Number of pieces of each stage, in the order of the forward pass; ``None`` leaves it open:
        then :func:`build` takes the cut whose longest stage is shortest.
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
    cut: Cut | None = None

    @property
    def name(self) -> str:
        """Name of the problem, unique within a sweep."""
        chunks = "" if self.chunks is None else f"-{self.chunks}chunks"
        memory = "" if self.memory is None else f"-memory{_word(self.memory)}"
        memory += "" if self.lane is None else f"-lane{_word(self.lane)}"
        memory += "-recompute" if self.recompute else ""
        span = "-span" if self.objective is Objective.SPAN else ""
        return f"{self.family}{chunks}-{self.devices}x{self.micro_batches}{memory}{span}"


@dataclass(frozen=True)
class Share:
    """The pieces of one stage, and the devices that run it.

    Parameters
    ----------
    stage
        Number of the stage, in the order of the forward pass.
    devices
        Devices that run it: several in a bidirectional placement, none where the plan chooses.
    first, pieces
        Number of its first piece (from 0), and the number of its pieces.
    names
        Names of those of its pieces that have one.
    """

    stage: int
    devices: tuple[str, ...]
    first: int
    pieces: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        last = self.first + self.pieces - 1
        which = f"piece {last}" if self.pieces == 1 else f"pieces {self.first}-{last}"
        every = [part for name in self.names for part in name.split(TO)]
        named = TO.join(dict.fromkeys([every[0], every[-1]])) if every else ""
        where = f" on {', '.join(self.devices)}" if self.devices else ""
        return f"{which}{f' ({named})' if named else ''}{where}"


@dataclass(frozen=True)
class Built:
    """A case as a problem, and its scales.

    Parameters
    ----------
    case
        What was built.
    problem
        The unrolled problem. Its units are the model's: nanoseconds and bytes, or fractions of
        them, where these are known.
    work
        Ticks that the busiest device works at least; every plan takes as long.
    shares
        The pieces and devices of each stage.
    """

    case: Case
    problem: PlanningProblem
    work: int
    shares: tuple[Share, ...]

    @property
    def cut(self) -> Cut:
        """Number of pieces of each stage."""
        return tuple(share.pieces for share in self.shares)


@dataclass(frozen=True)
class Grid:
    """A case in integers before it is cut: ticks, bytes, and the device of each stage.

    Parameters
    ----------
    case
        The case.
    routes
        Device of each stage, per route; ``None`` where the plan chooses.
    stages
        Number of stages.
    parts
        The parts of the model; a stage is a run of consecutive parts.
    units
        The model's units, scaled so that all numbers are whole: the same for every cut.
    """

    case: Case
    routes: tuple[Route, ...] | None
    stages: int
    parts: tuple[Piece, ...]
    units: Units

    @property
    def limit(self) -> int | None:
        """Memory limit of each device, bytes."""
        memory = self.case.memory
        return None if memory is None else int(memory * self.units.size_scale)

    @property
    def transfer(self) -> int:
        """Ticks from one device to another."""
        return int(self.case.model.transfer * self.units.time_scale)

    @property
    def workspace(self) -> int:
        """Bytes of each device that are always in use, whatever it runs."""
        return int(self.case.model.workspace * self.units.size_scale)

    @cached_property
    def arrivals(self) -> tuple[int, ...]:
        """Bytes that each part receives from the part before it."""
        return tuple(int(part.arrives * self.units.size_scale) for part in self.parts)

    def apart(self, stage: int) -> bool:
        """Return whether a stage and the one before it are on different devices."""
        return self.routes is None or self.routes[0][stage] != self.routes[0][stage - 1]

    def arriving(self, stage: int, a: int, b: int) -> int:
        """Return the bytes for tensors that arrive at a stage ahead of their passes."""
        before = self.arrivals[a] if stage and self.apart(stage) else 0
        last = stage == self.stages - 1
        return before + (0 if last or not self.apart(stage + 1) else self.arrivals[b])

    @cached_property
    def costs(self) -> tuple[Stage, ...]:
        """Costs of each part."""
        return tuple(
            Stage(
                *(int(number * self.units.time_scale) for number in part.times),
                *(int(number * self.units.size_scale) for number in part.sizes),
            )
            for part in self.parts
        )

    def template(self, cut: Cut) -> Template:
        """Return the stages of a cut."""
        case, bounds = self.case, [0, *accumulate(cut)]
        first, *others = (
            joined(self.costs[a:b], self.arriving(stage, a, b))
            for stage, (a, b) in enumerate(pairwise(bounds))
        )
        return Template(
            stages=(self._first(first), *others),
            micro_batches=case.micro_batches,
            transfer_ticks=self.transfer,
            joint_backward=case.joint_backward,
            transfers=CommunicationModel.CHANNEL if case.channels else CommunicationModel.DELAY,
            units=self.units,
            workspace_bytes=self.workspace,
        )

    def _first(self, stage: Stage) -> Stage:
        """Return the first stage; an input gradient of zero time waits for the weight gradient.

        Nobody but the weight gradient waits for it, and all that it ends is what both end: in some
        best plan it runs right before it. So what it makes is there during the weight gradient
        alone, and no operator that takes no time holds memory.
        """
        idle = not (stage.backward_ticks or stage.backward_bytes or self.case.joint_backward)
        if not (idle and stage.weight_ticks) or self.case.recompute or self.case.lane is not None:
            return stage
        return replace(stage, gradient_bytes=0, workspace_bytes=stage.gradient_bytes)

    def shares(self, cut: Cut) -> tuple[Share, ...]:
        """Return the pieces and devices of each stage of a cut."""
        bounds = [0, *accumulate(cut)]
        return tuple(
            Share(
                stage,
                tuple(dict.fromkeys(f"d{route[stage]}" for route in self.routes or ())),
                a,
                b - a,
                tuple(part.name for part in self.parts[a:b] if part.name),
            )
            for stage, (a, b) in enumerate(pairwise(bounds))
        )


def stages_of(family: str, devices: int, chunks: int | None = None) -> int:
    """Return the number of stages of a placement.

    Raises
    ------
    ValueError
        The placement does not exist.
    """
    if family == FREE:
        return devices * (chunks or 1)
    return len(place(family, devices, chunks)[0])


def grid(case: Case) -> Grid:
    """Read a case in integers.

    Raises
    ------
    ValueError
        The placement does not exist, or the model has too few pieces for it.
    """
    routes = None
    if case.family != FREE:
        routes = place(case.family, case.devices, case.chunks)
    stages = stages_of(case.family, case.devices, case.chunks)
    parts = tuple(p.scaled(case.batch) for p in case.model.parts(case.devices, stages))
    if len(parts) < stages:
        raise ValueError(f"{len(parts)} pieces cannot be cut into {stages} stages")
    times = [time for part in parts for time in part.times]
    sizes = [size for part in parts for size in (*part.sizes, part.arrives)]
    memory = [case.model.workspace, *([] if case.memory is None else [case.memory])]
    units = replace(
        case.model.units,
        time_scale=scale_of(
            case.model.time_unit, NANOSECONDS, [*times, case.model.transfer, case.lane or 0]
        ),
        size_scale=scale_of(case.model.size_unit, BYTES, [*sizes, *memory]),
    )
    return Grid(case, routes, stages, parts, units)


def build(case: Case) -> Built:
    """Unroll a case into a problem.

    Raises
    ------
    ValueError
        The placement does not exist, or the model cannot be cut for it.
    """
    return built(grid(case))


def built(grid: Grid, cut: Cut | None = None) -> Built:
    """Unroll a case with a cut: by default its own, else the most even one.

    Raises
    ------
    ValueError
        The cut does not divide the model into the stages of the placement.
    """
    case = grid.case
    cut = cut or case.cut or most_even(grid.parts, grid.stages)
    if len(cut) != grid.stages or min(cut) < 1 or sum(cut) != len(grid.parts):
        raise ValueError(
            f"{', '.join(map(str, cut))} is no cut of {len(grid.parts)} pieces"
            f" into {grid.stages} stages"
        )
    if not case.model.even:
        case = replace(case, cut=cut)
    template, shares = grid.template(cut), grid.shares(cut)
    provenance = {} if case.model.even else {f"stage {share.stage}": str(share) for share in shares}
    provenance = {CUT: cut_text(cut), **provenance} if provenance else provenance
    problem = _problem(case, template, grid, provenance)
    work = _work(template, grid.routes, case.devices)
    return Built(case, problem, work, shares)


def _word(number: Number) -> str:
    """Write a number as part of a name."""
    return plain(number).replace("/", "over")


def cut_text(cut: Cut) -> str:
    """Write a cut: ``3 | 1`` are three pieces on the first stage and one on the second."""
    return " | ".join(map(str, cut))


def cut_lines(problem: PlanningProblem) -> list[str]:
    """Describe the pieces of each stage of a pipeline whose model was cut; else return nothing."""
    provenance = problem.provenance
    if CUT not in provenance:
        return []
    stages = [f"  {name}: {text}" for name, text in provenance.items() if name.startswith("stage ")]
    return [f"cut {provenance[CUT]}", *stages]


def joined(costs: Sequence[Stage], arriving: int = 0) -> Stage:
    """Return the costs of a stage of several parts, with the bytes that arrive ahead."""
    one = Stage(*(sum(column) for column in zip(*map(astuple, costs), strict=True)))
    return replace(one, parameter_bytes=one.parameter_bytes + arriving)


def _problem(
    case: Case, template: Template, grid: Grid, provenance: Mapping[str, str]
) -> PlanningProblem:
    if grid.routes is None and (case.recompute or case.lane is not None):
        raise ValueError("stages that recompute or have lanes to a host need given devices")
    problem = pipeline_problem(
        case.name,
        template,
        grid.routes,
        devices=case.devices,
        memory_bytes=grid.limit,
        objective=case.objective,
        provenance=provenance,
    )
    if case.lane is not None:
        ticks = int(case.lane * grid.units.time_scale)
        if ticks < 1:
            raise ValueError("a lane takes more than no time")
        problem = with_hosts(problem, ticks)
    return replace(problem.with_recomputation(), parent=None) if case.recompute else problem


def _work(template: Template, routes: Sequence[Sequence[int]] | None, devices: int) -> int:
    if routes is None:
        each = sum(s.forward_ticks + s.backward_ticks + s.weight_ticks for s in template.stages)
        return ceil_div(each * template.micro_batches, devices)
    busy = [0] * devices
    for batch in range(template.micro_batches):
        route = routes[batch * len(routes) // template.micro_batches]
        for device, stage in zip(route, template.stages, strict=True):
            busy[device] += stage.forward_ticks + stage.backward_ticks + stage.weight_ticks
    return max(busy)
