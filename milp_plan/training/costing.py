"""What a search and the checker ask of costs: chunks, what follows the last pass, memory.

The times and sizes are those of :mod:`.costs` and :mod:`.memory`, chunk by chunk.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from .architecture import Architecture
from .cluster import TrainingCluster
from .configuration import SPLIT_BACKWARD, Configuration, Precision, Recompute, Schedule
from .costs import NANO, StepSeconds, StepTime, step_seconds, timed
from .efficiency import Efficiency
from .memory import MemoryUse, Meter
from .problem import TrainingProblem
from .replay import Chunk
from .step import Priced
from .work import Known, StageWork, stage_works, width_of


class PlanCosts:
    """Costs of the configurations of one problem.

    Parameters
    ----------
    problem
        What is planned.
    efficiency
        Rates that devices and framework reach.
    """

    def __init__(self, problem: TrainingProblem, efficiency: Efficiency) -> None:
        self.problem, self.efficiency = problem, efficiency
        self._known: Known = {}
        self._whole: dict[object, float] = {}

    @cached_property
    def _fastest(self) -> float:
        """Most operations per second of one device."""
        return max(
            max(rates.matrix, rates.attention) * group.device.peak_flops_per_s
            for group in self.problem.cluster.groups
            for rates in [self.efficiency.rates(group.device.name)]
        )

    @cached_property
    def _flops(self) -> dict[Recompute, int]:
        """Operations of a sample, with what is computed again."""
        model, sequence = self.problem.architecture, self.problem.sequence
        plain = model.model_flops(sequence)
        trained = [(block, n) for block, n in model.runs if block.backward_flops(sequence)]
        again = sum(block.flops(sequence) * n for block, n in trained)
        core = sum(block.attention.core_flops(block.length(sequence)) * n for block, n in trained)
        return {
            Recompute.NONE: plain,
            Recompute.ATTENTION: plain + core,
            Recompute.FULL: plain + again,
        }

    def least_ns(self, configuration: Configuration) -> int:
        """Operations of a step over the rate of all devices, evenly divided."""
        work = self._flops[configuration.recompute] * self.problem.global_batch
        if configuration.precision is Precision.FP8:
            work //= 2
        return int(work * NANO / (self._fastest * configuration.devices))

    def evenly_ns(self, configuration: Configuration) -> int:
        """All passes of the model on the fastest stage, evenly divided over the pipeline.

        A pass takes the larger of its kernels' time and that of their launches; for the whole
        model at once this is at most the sum over chunks, so it is a bound.
        """
        c = configuration
        width = width_of(c)
        if width not in self._whole:
            alone = replace(
                c,
                pipeline=1,
                virtual=1,
                micro_batches=1,
                schedule=Schedule.ONE_F_ONE_B,
                layers=(),
                zero=1,
            )
            groups = self.problem.cluster.groups
            clusters = [replace(self.problem.cluster, groups=(group,)) for group in groups]
            self._whole[width] = min(
                sum(self._seconds(alone, cluster).stages[0][:3]) for cluster in clusters
            )
        return int(c.micro_batches * self._whole[width] * NANO) // c.pipeline

    def _works(self, c: Configuration, cluster: TrainingCluster) -> tuple[StageWork, ...]:
        p, software = self.problem, self.efficiency.software
        return stage_works(p.architecture, cluster, c, p.sequence, software, known=self._known)

    def _seconds(self, c: Configuration, cluster: TrainingCluster) -> StepSeconds:
        return step_seconds(self._works(c, cluster), cluster, c, self.efficiency)

    def step(self, configuration: Configuration) -> StepTime:
        """Time of a step by parts, with the closed form of the pipeline."""
        cluster = self.problem.cluster
        works = self._works(configuration, cluster)
        return timed(works, cluster, configuration, self.efficiency)

    def memory(self, configuration: Configuration) -> tuple[MemoryUse, ...]:
        """Peak memory of each pipeline stage by parts, with the closed form of the pipeline."""
        return self._memory(configuration, self._works(configuration, self.problem.cluster))

    def _memory(self, c: Configuration, works: tuple[StageWork, ...]) -> tuple[MemoryUse, ...]:
        p, software = self.problem, self.efficiency.software
        return Meter(p.architecture, c, p.sequence, software, known=self._known).stages(works)

    def priced(self, configuration: Configuration) -> Priced:
        """Chunks, what follows the last pass, and memory without activations."""
        c, cluster = configuration, self.problem.cluster
        works = self._works(c, cluster)
        step = step_seconds(works, cluster, c, self.efficiency)
        resident = tuple(use.total_bytes - use.activations_bytes for use in self._memory(c, works))
        stages = step.stages
        apart = _chunks_apart(c, self.problem.architecture)
        if c.virtual > 1:
            works = self._works(apart, cluster)
            stages = step_seconds(works, cluster, apart, self.efficiency).stages
        chunks = tuple(
            Chunk(
                _ns(each.forward + each.transfer / 2),
                _ns(each.backward + each.transfer / 2),
                _ns(each.weight),
                use.activations_bytes,
            )
            for each, use in zip(stages, self._memory(apart, works), strict=True)
        )
        return Priced(chunks, _ns(step.data) + _ns(step.optimizer), resident)


def _chunks_apart(c: Configuration, architecture: Architecture) -> Configuration:
    """Return one micro-batch of a pipeline that has a device for every chunk."""
    split = c.schedule in SPLIT_BACKWARD
    return replace(
        c,
        pipeline=c.chunks,
        virtual=1,
        micro_batches=1,
        schedule=Schedule.ZB_H1 if split else Schedule.ONE_F_ONE_B,
        layers=c.chunk_layers(architecture),
    )


def _ns(seconds: float) -> int:
    return round(seconds * NANO)
