"""A lower bound on steps that recompute, or offload, only as many blocks as memory asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .activations import width_of
from .block_work import parameters_of
from .configuration import Configuration, Offload, Recompute, Schedule, without_recomputation
from .costs import NANO, Clock
from .memory import sharded_parameters
from .step import least_activations, micro_batches_ahead

if TYPE_CHECKING:
    from .costing import PlanCosts

PRECISION = 1000
"""The bound is found to this part of itself."""


@dataclass(frozen=True, slots=True)
class BlockLoad:
    """The most frequent block of a model on a device of one class.

    Parameters
    ----------
    time, saved_time
        Ticks of all its passes for one micro-batch, without and with saving memory.
    kept, saved_kept
        Bytes of a micro-batch that waits, without and with saving memory.
    resident
        Bytes of its weights, gradients and optimizer state.
    beside
        Whether saving runs beside the passes: copies to the host.
    """

    time: int
    saved_time: int
    kept: int
    saved_kept: int
    resident: int
    beside: bool


@dataclass(frozen=True, slots=True)
class StageRoom:
    """What a pipeline stage offers to blocks.

    Parameters
    ----------
    waiting
        Micro-batches that wait there at once, at least.
    limit
        Bytes of a device.
    load
        The block there.
    """

    waiting: float
    limit: int
    load: BlockLoad

    def least_time(self, blocks: int) -> float | None:
        """Return the least time of some blocks on the stage; ``None`` if they do not fit."""
        load, waiting = self.load, self.waiting
        needed = blocks * (load.resident + waiting * load.kept) - self.limit
        saved = waiting * (load.kept - load.saved_kept)
        if needed <= 0:
            return blocks * load.time
        if needed > blocks * saved:
            return None
        if load.beside:
            return max(blocks * load.time, needed / saved * load.saved_time)
        return blocks * load.time + needed / saved * (load.saved_time - load.time)

    def most_blocks(self, time: float) -> float:
        """Return how many blocks the stage takes at most within a time, in fractions."""
        load, limit, waiting = self.load, self.limit, self.waiting
        alone = load.resident + waiting * load.kept
        saved = waiting * (load.kept - load.saved_kept)
        fit = limit / max(1, alone - saved)
        if alone * time <= limit * load.time or saved <= 0:
            return min(time / max(1, load.time), limit / max(1, alone))
        if load.beside:
            some = (limit + saved * time / max(1, load.saved_time)) / alone
            return min(time / max(1, load.time), some, fit)
        more = (load.saved_time - load.time) / saved
        return min((time + limit * more) / (load.time + alone * more), fit)


def least_ticks(stages: Iterable[StageRoom], count: int) -> int | None:
    """Return a lower bound on the time of the slowest stage for one micro-batch.

    However ``count`` blocks are divided over stages, even in fractions, and whichever of them save
    memory, some stage takes that long. ``None`` where they do not fit at all.
    """
    rooms = Counter(stages)
    low, high = 0, 1 + max(count * (r.load.time + r.load.saved_time) for r in rooms)
    if _taken(rooms, high) < count:
        return None
    while high - low > 1 + high // PRECISION:
        middle = (low + high) // 2
        if _taken(rooms, middle) < count:
            low = middle
        else:
            high = middle
    return low


def _taken(rooms: Counter[StageRoom], time: float) -> float:
    return sum(number * room.most_blocks(time) for room, number in rooms.items())


class SavingBounds:
    """Bounds steps of configurations that save memory.

    Parameters
    ----------
    costs
        Of the problem.
    """

    def __init__(self, costs: PlanCosts) -> None:
        self.costs, self.problem = costs, costs.problem
        self.loads: dict[object, BlockLoad] = {}
        self.waits: dict[object, tuple[list[float], list[int]]] = {}
        model = self.problem.architecture
        kinds = model.kinds(((0, len(model.blocks)),))
        self.block, _ = max(kinds, key=lambda kind: kind[1])
        inner = range(1, len(model.blocks) - 1)  # times at the ends may be of more than a block
        self.place = next((i for i in inner if model.blocks[i] == self.block), None)

    def least_ns(self, c: Configuration) -> int | None:
        """Return a bound from the most frequent block alone, without fill and drain.

        ``None`` where the blocks do not fit even if all of them save memory.
        """
        waiting, blocks = self.waiting(c)
        groups = [self.problem.group_of(c, stage) for stage in range(c.pipeline)]
        loads = {group: self.load(c, group) for group in dict.fromkeys(groups)}
        rooms = [
            StageRoom(ahead, self.problem.limit_bytes(c, stage), loads[group])
            for stage, (ahead, group) in enumerate(zip(waiting, groups, strict=True))
        ]
        if c.virtual == 1 and not c.layers:
            slowest: float | None = least_ticks(rooms, sum(blocks))
        else:
            times = [room.least_time(count) for room, count in zip(rooms, blocks, strict=True)]
            known = [time for time in times if time is not None]
            slowest = max(known) if len(known) == len(times) else None
        if slowest is None:
            return None
        return int(c.micro_batches * slowest) + self.optimizer_ns(c, sum(blocks))

    def optimizer_ns(self, c: Configuration, blocks: int) -> int:
        """Return the least time of the optimizer for the blocks of a stage of mean size."""
        software, cluster = self.costs.efficiency.software, self.problem.cluster
        clocks = [Clock(group, self.costs.efficiency, c) for group in cluster.groups]
        parameters = blocks * self.sharded(c) / c.pipeline
        moved = software.optimizer_moved * parameters
        if c.offload is Offload.NONE:
            return int(NANO * moved * min(clock.moved for clock in clocks))
        copied = software.optimizer_copied * parameters
        return int(NANO * min(moved * c.on_host + copied * c.copied for c in clocks))

    def waiting(self, c: Configuration) -> tuple[list[float], list[int]]:
        """Return micro-batches that wait for each block at least, and blocks, by stage."""
        key = (c.pipeline, c.virtual, c.micro_batches, c.schedule, c.layers)
        if key not in self.waits:
            self.waits[key] = self._waiting(c)
        return self.waits[key]

    def _waiting(self, c: Configuration) -> tuple[list[float], list[int]]:
        model, waiting, blocks = self.problem.architecture, list[float](), list[int]()
        for stage, ahead in enumerate(micro_batches_ahead(c)):
            spans = c.spans(model, stage)
            counts = [dict(model.kinds((span,))).get(self.block, 0) for span in spans]
            most, number = least_activations(c, stage, counts), sum(counts)
            blocks.append(number)
            waiting.append(ahead[0] if c.virtual == 1 else most / max(1, number))
        return waiting, blocks

    def load(self, c: Configuration, group: int) -> BlockLoad:
        """Return what the block takes on a device of a group."""
        hides = c.schedule is Schedule.DUALPIPE_V
        key = (width_of(c), group, c.zero, c.data, c.offload, hides)
        if key not in self.loads:
            both = (without_recomputation(c), c)
            time, saved = (self.ticks(each, group) for each in both)
            kept, less = (int(self.costs.meter(each).kept(self.block)) for each in both)
            beside = c.recompute is Recompute.OFFLOAD
            self.loads[key] = BlockLoad(time, saved, kept, less, self.resident(c), beside)
        return self.loads[key]

    def ticks(self, c: Configuration, group: int) -> int:
        """Return at most the ticks of the block's passes on a device of a group."""
        if self.place is None:
            return 1
        return max(1, self.costs.block_times(c, group)[0][self.place] - 1)

    def sharded(self, c: Configuration) -> float:
        """Return parameters of the block of which a device has the optimizer's state."""
        return 0.0 if self.block.frozen else sharded_parameters(c, *parameters_of(self.block, c))

    def resident(self, c: Configuration) -> int:
        """Return bytes of the block's weights, gradients and optimizer on a device."""
        if self.block.frozen:
            return 0
        parameters = sum(parameters_of(self.block, c))
        sizes = self.costs.meter(c).resident(parameters, self.sharded(c))
        return int(sum(sizes[:3]))
