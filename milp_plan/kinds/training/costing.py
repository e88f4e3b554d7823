"""What a search and the checker ask of costs: chunks, what follows the last pass, memory.

The times and sizes are those of :mod:`.costs` and :mod:`.memory`, chunk by chunk.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import cached_property

from milp_plan.core.bound import Bound

from .activations import Known, width_of
from .block_work import Kinds
from .cluster import TrainingCluster
from .collectives import Traffic
from .configuration import (
    SPLIT_BACKWARD,
    Configuration,
    Precision,
    Recompute,
    Schedule,
    without_recomputation,
)
from .costs import NANO, StepSeconds, StepTime, in_ns, overlapped_seconds, step_seconds, step_time
from .memory import MemoryUse, Meter, sharded_parameters
from .passes import Passes
from .problem import TrainingProblem
from .ranks import Layout
from .replay import ChunkCost
from .saving import SavingBounds
from .stage_costs import FILLS, chunks_apart, stages_problem
from .stages import balanced_layers, layers_within_memory
from .step import Priced, excess_of, least_activations, least_peaks, least_step
from .work import Counter, StageWork, stage_works

PARTS = tuple(field.name for field in fields(StepTime))
"""Parts of a step's time."""

_REMEMBERED = 64
"""Configurations whose costs are stored."""


class PlanCosts:
    """Costs of the configurations of one problem.

    Parameters
    ----------
    problem
        What is planned, by which rates.
    """

    def __init__(self, problem: TrainingProblem) -> None:
        self.problem, self.efficiency = problem, problem.efficiency
        self._known: Known = {}
        self._priced: dict[Configuration, Priced] = {}
        self._whole: dict[object, float] = {}
        self._blocks: dict[object, tuple[list[int], int, int]] = {}
        self._layers: dict[object, tuple[tuple[int, ...], ...]] = {}
        self._first: dict[object, tuple[float, float]] = {}
        self._saving = SavingBounds(self)

    @cached_property
    def _fastest(self) -> float:
        """Most operations per second of one device."""
        return max(
            max(rates.matrix, rates.attention) * group.device.peak_flops_per_s
            for group in self.problem.cluster.groups
            for rates in [self.efficiency.rates(group.device.name)]
        )

    @cached_property
    def _differs_by_group(self) -> bool:
        """Whether the cluster has groups of different nodes."""
        first, *others = self.problem.cluster.groups
        return any(each != first for each in others)

    @cached_property
    def _flops(self) -> dict[Recompute, int]:
        """Operations of a sample, with what is computed again."""
        model, sequence = self.problem.architecture, self.problem.sequence
        plain = model.model_flops(sequence)
        trained = [(block, n) for block, n in model.runs if block.backward_flops(sequence)]
        again = sum(block.flops(sequence) * n for block, n in trained)
        core = sum(block.attention.core_flops(block.length(sequence)) * n for block, n in trained)
        more = {Recompute.ATTENTION: core, Recompute.FULL: again}
        return {each: plain + more.get(each, 0) for each in Recompute}

    def least_ns(self, configuration: Configuration) -> int:
        """Operations of a step over the rate of all devices, evenly divided."""
        again = _at_least(configuration).recompute
        work = self._flops[again] * self.problem.global_batch
        if configuration.precision is Precision.FP8:
            work //= 2
        return int(work * NANO / (self._fastest * configuration.devices))

    def evenly_ns(self, configuration: Configuration) -> int:
        """All passes of the model on one device class, evenly divided over the pipeline.

        A pass takes the larger of its kernels' time and that of their launches; for the whole
        model at once this is at most the sum over chunks, so it is a bound. On several classes it
        is that of :meth:`least_ns`.
        """
        if self._differs_by_group:  # one class may be faster for some layers and slower for others
            return self.least_ns(configuration)
        c = _at_least(configuration)
        hides = c.schedule is Schedule.DUALPIPE_V
        key = (width_of(c), hides)
        if key not in self._whole:
            alone = replace(
                c,
                pipeline=1,
                virtual=1,
                micro_batches=1,
                schedule=c.schedule if hides else Schedule.ONE_F_ONE_B,
                layers=(),
                zero=1,
            )
            groups = self.problem.cluster.groups
            clusters = [replace(self.problem.cluster, groups=(group,)) for group in groups]
            self._whole[key] = min(
                sum(self.seconds(alone, cluster).stages[0][:3]) for cluster in clusters
            )
        return int(c.micro_batches * self._whole[key] * NANO) // c.pipeline

    def saving_ns(self, configuration: Configuration) -> int | None:
        """Return a lower bound on steps that recompute no more blocks than memory asks for.

        ``None`` where even recomputation of all blocks does not suffice.
        """
        return self._saving.least_ns(configuration)

    def lighter(
        self, configuration: Configuration, cutoff: float = math.inf
    ) -> tuple[Configuration, ...]:
        """Return variants that recompute, or offload, as few blocks of each chunk as fit.

        Recomputation only adds time, so a variant is left out where the step takes ``cutoff``
        without it.
        """
        none = without_recomputation(configuration)
        bases = (none, *self.variants(none), *self._within_memory(configuration))
        found: list[Configuration] = []
        for base in bases:
            whole = replace(base, recompute=configuration.recompute)
            if self._helps(base, whole) and least_step(base, self.priced(base)) < cutoff:
                found += self._recomputing(whole)
        return tuple(found)

    def _helps(self, c: Configuration, whole: Configuration) -> bool:
        """Whether memory does not suffice without recomputation, and does where stages recompute.

        A stage may fit as it is and lack memory for the block that is computed again.
        """
        if self._lacks(c, min(self.first_peak(c), self.first_peak(whole))) > 0:
            return False
        alone, again = (least_peaks(each, self.priced(each)) for each in (c, whole))
        return self._lacks(c, *alone) > 0 >= self._lacks(c, *map(min, alone, again))

    def _within_memory(self, whole: Configuration) -> tuple[Configuration, ...]:
        """Return it with the shortest slowest stage where some blocks must be recomputed."""
        c = without_recomputation(whole)
        if c.layers or c.virtual > 1 or c.pipeline == 1 or c.schedule not in FILLS:
            return ()
        if not self._helps(c, whole):
            return ()
        layers = layers_within_memory(stages_problem(self, c, (Recompute.NONE, whole.recompute)))
        return () if layers is None else (replace(c, layers=layers),)

    def variants(self, configuration: Configuration) -> tuple[Configuration, ...]:
        """Return the same with other blocks on stages.

        Blocks lie so that the slowest stage is the shortest, in the ways of
        :func:`.stages.balanced_layers`; none with virtual stages or where layers are fixed.
        """
        c = configuration
        if c.layers or c.virtual > 1 or c.pipeline == 1:
            return ()
        cluster, split = self.problem.cluster, c.schedule in SPLIT_BACKWARD
        groups = tuple(cluster.group_of(k * c.stage_devices) for k in range(c.pipeline))
        key = (width_of(c), groups, split)
        if key not in self._layers:
            made = [self.block_times(c, group) for group in groups]
            parts = (list(part) for part in zip(*made, strict=True))
            self._layers[key] = balanced_layers(*parts)
        even = c.chunk_layers(self.problem.architecture)
        return tuple(replace(c, layers=layers) for layers in self._layers[key] if layers != even)

    def _recomputing(self, full: Configuration) -> tuple[Configuration, ...]:
        """Bisect on the number of recomputed blocks: equal for all chunks, and by stage."""
        layers = full.chunk_layers(self.problem.architecture)
        found = []
        counts = self._least_recomputed(full, layers, apart=False)
        if counts[0] < max(layers):
            found.append(replace(full, recomputed=counts[0]))
        counts = self._least_recomputed(full, layers, apart=True)
        if len(set(counts)) > 1:
            found.append(_by_chunk(full, layers, counts))
        return tuple(found)

    def _least_recomputed(
        self, full: Configuration, layers: tuple[int, ...], *, apart: bool
    ) -> list[int]:
        """Return the least blocks of a chunk on each stage; ``apart``: stages may differ."""
        stages = range(full.pipeline)
        low, high = [0] * len(stages), [max(layers)] * len(stages)
        if apart:  # a stage that fits as it is needs no workspace for recomputation either
            none = without_recomputation(full)
            peaks = least_peaks(none, self.priced(none))
            fit = [peak <= self.problem.limit_bytes(full, s) for s, peak in enumerate(peaks)]
            high = [0 if fit[s] else most for s, most in enumerate(high)]
        while any(b - a > 1 for a, b in zip(low, high, strict=True)):
            middle = [(a + b + 1) // 2 for a, b in zip(low, high, strict=True)]
            some = _by_chunk(full, layers, middle)
            peaks = least_peaks(some, self.priced(some))
            over = [peak > self.problem.limit_bytes(full, s) for s, peak in enumerate(peaks)]
            for s in stages:
                if over[s] if apart else any(over):
                    low[s] = middle[s]
                else:
                    high[s] = middle[s]
        return high

    def _lacks(self, c: Configuration, *peaks: int) -> int:
        return excess_of(self.problem, c, peaks)[0]

    def block_times(self, c: Configuration, group: int) -> tuple[list[int], int, int]:
        """Time of each block on a device of a group, of the embedding, and of the head."""
        key = (width_of(c), group, c.schedule is Schedule.DUALPIPE_V)
        if key not in self._blocks:
            model, cluster = self.problem.architecture, self.problem.cluster
            alone = replace(cluster, groups=(cluster.groups[group],))
            single = chunks_apart(c, (1,) * len(model.blocks))
            stages = self.seconds(single, alone).stages
            times = [in_ns(sum(stage[:3])) for stage in stages]
            inner = {
                id(block): time for block, time in zip(model.blocks[1:-1], times[1:-1], strict=True)
            }
            first = inner.get(id(model.blocks[0]), times[0])
            last = inner.get(id(model.blocks[-1]), times[-1])
            blocks = [first, *times[1:-1], last][: len(times)]
            self._blocks[key] = (blocks, times[0] - first, times[-1] - last)
        return self._blocks[key]

    def first_peak(self, configuration: Configuration) -> int:
        """Memory that the first pipeline device takes at least, whatever the others do."""
        c, p = configuration, self.problem
        counts = c.recomputed_by_chunk
        if counts and not any(counts[chunk] for chunk in c.chunks_of(0)):
            c = without_recomputation(c)  # which takes no workspace there
        spans = c.spans(p.architecture, 0)
        parameters = self._first_parameters(c, p.architecture.kinds(spans))
        none = Traffic()
        numbers = (sum(parameters), sharded_parameters(c, *parameters))
        work = StageWork(Passes(), none, none, none, 0.0, 0.0, *numbers)
        meter = self.meter(c)
        use = meter.stage(0, work)
        kinds = (p.architecture.kinds((span,)) for span in spans)
        kept = [int(sum(n * meter.kept(block) for block, n in counts)) for counts in kinds]
        return use.total_bytes - use.activations_bytes + least_activations(c, 0, kept)

    def _first_parameters(self, c: Configuration, kinds: Kinds) -> tuple[float, float]:
        """Parameters of the first device, but for experts, and those of experts."""
        last = c.chunks - 1 in c.chunks_of(0)
        key = (c.tensor, c.expert, c.expert_tensor, id(kinds), last)
        if key not in self._first:
            p, software = self.problem, self.efficiency.software
            counter = Counter(p.architecture, Layout(c, 1), p.sequence, software)
            self._first[key] = counter.parameters(kinds, True, last)
        return self._first[key]

    def works(self, c: Configuration, cluster: TrainingCluster) -> tuple[StageWork, ...]:
        """Return what each pipeline device does, on any cluster."""
        p, software = self.problem, self.efficiency.software
        return stage_works(p.architecture, cluster, c, p.sequence, software, known=self._known)

    def seconds(self, c: Configuration, cluster: TrainingCluster) -> StepSeconds:
        """Return the parts of a step, on any cluster."""
        return step_seconds(self.works(c, cluster), cluster, c, self.efficiency)

    def step(self, configuration: Configuration) -> StepTime:
        """Time of a step by parts, with the closed form of the pipeline.

        Where only some blocks are computed again, what that adds counts by their part.
        """
        cluster = self.problem.cluster
        some = configuration.recomputed or sum(configuration.recomputed_by_chunk)
        if some:
            none = self.step(without_recomputation(configuration))
            full = self.step(_whole(configuration))
            layers = configuration.chunk_layers(self.problem.architecture)
            most = max(layers) if configuration.recomputed else sum(layers)
            parts = (_between(getattr(none, n), getattr(full, n), some, most) for n in PARTS)
            return StepTime(*parts)
        works = self.works(configuration, cluster)
        return step_time(works, cluster, configuration, self.efficiency)

    def overlapped(self, configuration: Configuration) -> dict[str, int]:
        """Nanoseconds of a step's traffic that computation hides, by kind of parallelism."""
        c, cluster = _at_least(configuration), self.problem.cluster
        works = self.works(c, cluster)
        found = overlapped_seconds(works, cluster, c, self.efficiency)
        return {name: in_ns(value) for name, value in found.items()}

    def memory(self, configuration: Configuration) -> tuple[MemoryUse, ...]:
        """Peak memory of each pipeline stage by parts, with the closed form of the pipeline."""
        works = self.works(configuration, self.problem.cluster)
        return self.meter(configuration).stages(works)

    def meter(self, c: Configuration) -> Meter:
        """Return what measures memory of a configuration."""
        p, software = self.problem, self.efficiency.software
        return Meter(p.architecture, c, p.sequence, software, known=self._known)

    def priced(self, configuration: Configuration) -> Priced:
        """Chunks, what follows the last pass, and memory without activations."""
        if configuration not in self._priced:
            if len(self._priced) > _REMEMBERED:
                self._priced.clear()
            some = configuration.recomputed or configuration.recomputed_by_chunk
            mixed = self._mixed if some else self._plain
            self._priced[configuration] = mixed(configuration)
        return self._priced[configuration]

    def _mixed(self, c: Configuration) -> Priced:
        """Between nothing and everything computed again, by the part of each chunk's blocks."""
        none, full = self.priced(without_recomputation(c)), self.priced(_whole(c))
        layers = c.chunk_layers(self.problem.architecture)
        counts = c.recomputed_by_chunk or tuple(min(c.recomputed, n) for n in layers)
        join = _beside if c.recompute is Recompute.OFFLOAD else _between
        chunks = tuple(
            ChunkCost(
                *(join(getattr(a, name), getattr(b, name), count, n) for name in _TIMES),
                *(_between(getattr(a, name), getattr(b, name), count, n) for name in _SIZES),
            )
            for a, b, count, n in zip(none.chunks, full.chunks, counts, layers, strict=True)
        )
        again = (any(counts[k] for k in c.chunks_of(stage)) for stage in range(c.pipeline))
        resident = zip(again, none.resident_bytes, full.resident_bytes, strict=True)
        there = tuple(b if some else a for some, a, b in resident)
        return Priced(chunks, none.after_ns, there, none.host_bytes, none.lag_ns)

    def _plain(self, configuration: Configuration) -> Priced:
        c, cluster = configuration, self.problem.cluster
        works = self.works(c, cluster)
        step = step_seconds(works, cluster, c, self.efficiency)
        one = replace(c, micro_batches=1)
        memory = self.meter(one).stages(works)  # equal for most stages
        resident = tuple(use.total_bytes - use.activations_bytes for use in memory)
        host = tuple(use.host_bytes for use in memory)
        stages = step.stages
        if c.virtual > 1:
            apart = chunks_apart(c, c.chunk_layers(self.problem.architecture))
            works = self.works(apart, cluster)
            stages = step_seconds(works, cluster, apart, self.efficiency).stages
            memory = self.meter(apart).stages(works)
        chunks = tuple(
            ChunkCost(
                in_ns(each.forward + each.transfer / 2),
                in_ns(each.backward + each.transfer / 2),
                in_ns(each.weight),
                use.activations_bytes,
                use.host_activations_bytes,
            )
            for each, use in zip(stages, memory, strict=True)
        )
        after, lag = in_ns(step.data) + in_ns(step.optimizer), max(each.lag for each in stages)
        return Priced(chunks, after, resident, host, in_ns(lag))


def operations_bound(problem: TrainingProblem) -> Bound:
    """Return the operations of a step over the rates of all devices.

    No configuration runs fewer, whatever its degrees; they are divided evenly here.
    """
    groups, fixed = problem.cluster.groups, problem.fixed.get("precision")
    narrow = all(group.device.fp8 for group in groups)
    precision = fixed or (Precision.FP8 if narrow else Precision.BF16)
    alone = Configuration(data=problem.cluster.devices, precision=precision)
    least = PlanCosts(problem).least_ns(alone)
    return Bound("operations", least, "operations of the model over the rates of all devices")


def _by_chunk(full: Configuration, layers: tuple[int, ...], counts: list[int]) -> Configuration:
    """Return as many recomputed blocks of each chunk as its stage's count says, or all it has."""
    some = (min(counts[full.device_of(k)], n) for k, n in enumerate(layers))
    return replace(full, recomputed_by_chunk=tuple(some))


def _at_least(c: Configuration) -> Configuration:
    """Return what costs no more: where only some blocks are computed again, none are."""
    return without_recomputation(c) if c.recomputed or c.recomputed_by_chunk else c


def _whole(c: Configuration) -> Configuration:
    return replace(c, recomputed=0, recomputed_by_chunk=())


_TIMES = ("forward_ns", "backward_ns", "weight_ns")
_SIZES = ("activation_bytes", "host_bytes")


def _beside(none: int, full: int, count: int, of: int) -> int:
    """Return the time of a pass where ``count`` of ``of`` equal blocks copy beside it."""
    return max(none, -(-full * count // of)) if of else none


def _between(none: int, full: int, count: int, of: int) -> int:
    """Return what ``count`` of ``of`` equal parts make of the difference, rounded up."""
    if count >= of:
        return full if count else none
    return none - (none - full) * count // of
