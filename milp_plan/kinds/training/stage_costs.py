"""A configuration's stages as a problem of layers on stages.

Times, activations and resident bytes of one block, of the embedding and of the head are those of
the costs, taken one by one from a pipeline that has a device for each of them. They add up to those
of a chunk but for rounding (sizes are rounded up) and for passes that are bound by launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from .configuration import Configuration, Recompute, Schedule
from .costs import Clock, in_ns
from .replay import shop_and_words
from .stages_problem import Chunk, Device, Fill, Load, Run, TrainingStagesProblem
from .step import micro_batches_ahead

if TYPE_CHECKING:
    from milp_plan.kinds.pipeline.shop import Shop

    from .costing import PlanCosts
    from .problem import TrainingProblem

FILLS = {
    Schedule.GPIPE: Fill(),
    Schedule.ONE_F_ONE_B: Fill(),
    Schedule.INTERLEAVED: Fill(),
    Schedule.ZB_H1: Fill(weight=-1),
    Schedule.ZB_V: Fill(weight=-2),
}
"""Fill and drain of each schedule: with equal chunks the bubbles of :mod:`.costs`."""


def ways_of(problem: TrainingProblem) -> tuple[Recompute, ...]:
    """Return what a layer may keep, recompute or move to the host."""
    hosts = all(group.device.host for group in problem.cluster.groups)
    return tuple(way for way in Recompute if hosts or way is not Recompute.OFFLOAD)


def why_no_stages(configuration: Configuration) -> str | None:
    """Say why there is nothing to distribute, or no closed form; ``None`` where there is."""
    if configuration.pipeline == 1:
        return "a pipeline of one stage has all layers"
    if configuration.schedule not in FILLS:
        return f"schedule {configuration.schedule} has no closed form with unequal stages"
    return None


def stages_problem(
    costs: PlanCosts,
    configuration: Configuration,
    ways: tuple[Recompute, ...] | None = None,
) -> TrainingStagesProblem:
    """Return which layers lie on which chunk of a configuration, and what recomputes.

    Parameters
    ----------
    costs
        Of the training problem.
    configuration
        Degrees, micro-batches, schedule and sharding; its layers and recomputation are left out.
    ways
        What a layer may do; by default all that :func:`ways_of` lists.

    Raises
    ------
    ValueError
        As :func:`why_no_stages` says.
    NoScheduleError
        The schedule is not defined for the configuration.
    """
    reason = why_no_stages(configuration)
    if reason is not None:
        raise ValueError(reason)
    ways = ways or ways_of(costs.problem)
    c = replace(configuration, layers=(), recomputed=0, recompute=ways[0])
    pieces = _Pieces(costs, c, ways)
    return TrainingStagesProblem(
        f"stages of {costs.problem.name}",
        tuple(map(str, ways)),
        pieces.runs(),
        pieces.devices(),
        pieces.chunks(),
        c.micro_batches,
        FILLS[c.schedule],
    )


def chunks_apart(c: Configuration, layers: tuple[int, ...]) -> Configuration:
    """Return one micro-batch of a pipeline that has a device for every chunk of some layers."""
    return replace(c, pipeline=len(layers), virtual=1, micro_batches=1, layers=layers)


class _Piece(NamedTuple):
    """One piece of the model on one class of devices."""

    forward: int
    backward: int
    weight: int
    kept: int
    resident: int
    lane: int

    def less(self, other: _Piece) -> _Piece:
        return _Piece(*map(sub, self, other))


class _Pieces:
    """Prices the pieces of a model, one by one."""

    def __init__(
        self,
        costs: PlanCosts,
        configuration: Configuration,
        ways: tuple[Recompute, ...],
    ) -> None:
        self.costs, self.c, self.ways = costs, configuration, ways
        self.problem = costs.problem
        c, cluster = configuration, costs.problem.cluster
        groups = [cluster.group_of(stage * c.stage_devices) for stage in range(c.pipeline)]
        self.kinds = list(dict.fromkeys(groups))
        self.kind = [self.kinds.index(group) for group in groups]
        self.priced = [[self._price(way, group) for way in ways] for group in self.kinds]

    def _price(self, way: Recompute, group: int) -> list[_Piece]:
        """Return embedding, nothing, one block of each run, head: each on a device of its own."""
        problem, cluster = self.problem, self.problem.cluster
        counts = [n for _, size in problem.architecture.runs for n in (1, size - 1)]
        apart = replace(chunks_apart(self.c, (0, 0, *counts, 0)), recompute=way)
        passes = replace(apart, recompute=Recompute.NONE) if way is Recompute.OFFLOAD else apart
        alone = replace(cluster, groups=(cluster.groups[group],))
        times = self.costs.seconds(passes, alone).stages
        clock = Clock(cluster.groups[group], self.costs.efficiency, self.c)
        memory = self.costs.meter(apart).stages(self.costs.works(passes, alone))
        made = [
            _Piece(
                in_ns(time.forward),
                in_ns(time.backward),
                in_ns(time.weight),
                use.activations_bytes,
                use.total_bytes - use.activations_bytes,
                in_ns(2 * use.host_activations_bytes * clock.copied)
                if use.host_activations_bytes
                else 0,
            )
            for time, use in zip(times, memory, strict=True)
        ]
        return [made[0], made[1], *made[2:-1:2], made[-1]]

    def runs(self) -> tuple[Run, ...]:
        """Runs of equal blocks with what each of them takes, in every way."""
        found, first = [], 0
        for number, (_, size) in enumerate(self.problem.architecture.runs):
            ways = tuple(self._loads(row, number) for row in self.priced)
            found.append(Run(f"blocks {first} to {first + size - 1}", size, ways))
            first += size
        return tuple(found)

    def _loads(self, row: list[list[_Piece]], run: int) -> tuple[Load, ...]:
        pieces = [priced[2 + run].less(priced[1]) for priced in row]
        least = min(piece.resident for piece in pieces)
        return tuple(
            Load(
                max(0, piece.forward),
                max(0, piece.backward),
                max(0, piece.weight),
                piece.kept + 1,
                least + 3,
                piece.resident - least,
                piece.lane,
            )
            for piece in pieces
        )

    def chunks(self) -> tuple[Chunk, ...]:
        """Chunks with embedding, head and what they send to their neighbours."""
        c, priced = self.c, self.costs.priced(self.c).chunks
        sends = self._sends()
        made = []
        for number in range(len(priced)):
            device = c.device_of(number)
            pieces = self.priced[self.kind[device]][0]
            empty = pieces[1]
            ends = [pieces[0]] * (number == 0) + [pieces[-1]] * (number == len(priced) - 1)
            more = [piece.less(empty) for piece in ends]
            base = empty.resident if number == c.chunks_of(device)[0] else 0
            beside = Load(
                max(0, empty.forward) + sum(piece.forward for piece in more) + sends[number],
                max(0, empty.backward) + sum(piece.backward for piece in more) + sends[number],
                max(0, empty.weight) + sum(piece.weight for piece in more),
                empty.kept + sum(piece.kept for piece in more),
                base + sum(piece.resident for piece in more),
            )
            made.append(Chunk(device, beside))
        return tuple(made)

    def _sends(self) -> list[int]:
        """Return ticks of sending in one pass of each chunk."""
        problem = self.problem
        apart = chunks_apart(self.c, self.c.chunk_layers(problem.architecture))
        times = self.costs.seconds(apart, problem.cluster).stages
        return [in_ns(time.transfer / 2) for time in times]

    def devices(self) -> tuple[Device, ...]:
        """Stages with their memory and the micro-batches that wait."""
        c = self.c
        waiting = micro_batches_waiting(c, self.costs)
        return tuple(
            Device(kind, self.problem.limit_bytes(c, stage), waiting[stage])
            for stage, kind in enumerate(self.kind)
        )


def micro_batches_waiting(
    c: Configuration, costs: PlanCosts
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return the largest sets of micro-batches that wait on each stage, from the schedule's order.

    Each set has a number for each chunk of the stage. The order of 1F1B, interleaved 1F1B and ZB-H1
    does not depend on times; that of ZB-V is the one for an even split.
    """
    if c.virtual == 1:
        return tuple((ahead,) for ahead in micro_batches_ahead(c))
    priced = costs.priced(c)
    marked = tuple(
        replace(chunk, activation_bytes=number + 1) for number, chunk in enumerate(priced.chunks)
    )
    shop, words = shop_and_words(c, marked, priced.lag_ns)
    return tuple(_most_waiting(shop, c.chunks_of(s), words[s]) for s in range(c.pipeline))


def _most_waiting(
    shop: Shop, chunks: tuple[int, ...], word: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    place = {chunk + 1: number for number, chunk in enumerate(chunks)}
    now, seen = [0] * len(chunks), {}
    for task in word:
        kind = shop.kinds[task]
        if kind.alloc:
            now[place[kind.alloc]] += 1
            seen[tuple(now)] = True
        if kind.free:
            now[place[kind.free]] -= 1
    return tuple(
        one
        for one in seen
        if not any(
            one != other and all(a <= b for a, b in zip(one, other, strict=True)) for other in seen
        )
    )
