"""Simple costs for tests: operations over half the peak rate, 16 bytes a parameter."""

from __future__ import annotations

from milp_plan.kinds.training.configuration import Configuration, Recompute
from milp_plan.kinds.training.problem import TrainingProblem
from milp_plan.kinds.training.replay import ChunkCost
from milp_plan.kinds.training.step import Priced

NANO = 10**9

AGAIN = dict(zip(Recompute, (0, 2, 5, 100, 0), strict=True))
"""Percent of a forward pass that is computed again."""

KEPT = dict(zip(Recompute, (34, 31, 30, 2, 0), strict=True))
"""Bytes of an element that wait."""


class Roofline:
    """Costs without communication but for one term that grows with the tensor degree."""

    def __init__(self, problem: TrainingProblem) -> None:
        self.problem = problem

    def _chunk_flops(self, c: Configuration) -> list[int]:
        model, sequence = self.problem.architecture, self.problem.sequence
        counts, flops, at = c.chunk_layers(model), [], 0
        for chunk, count in enumerate(counts):
            blocks = model.blocks[at : at + count]
            total = sum(block.flops(sequence) for block in blocks)
            flops.append(total + (model.head_flops(sequence) if chunk == len(counts) - 1 else 0))
            at += count
        return [c.micro_batch * f for f in flops]

    def _rate(self, c: Configuration) -> int:
        return c.tensor * c.context * self.problem.cluster.groups[0].device.peak_flops_per_s // 2

    def least_ns(self, c: Configuration) -> int:
        total = 3 * sum(self._chunk_flops(c)) * c.micro_batches * NANO
        return total // (self._rate(c) * c.pipeline)

    def evenly_ns(self, c: Configuration) -> int:
        return self.least_ns(c)

    def saving_ns(self, c: Configuration) -> int:
        return self.least_ns(c) * (300 + AGAIN[c.recompute]) // 300

    def variants(self, _c: Configuration) -> tuple[Configuration, ...]:
        return ()

    def lighter(self, _c: Configuration, _cutoff: float) -> tuple[Configuration, ...]:
        return ()

    def first_peak(self, c: Configuration) -> int:
        return self.resident_bytes(c)[0]

    def priced(self, c: Configuration) -> Priced:
        resident = self.resident_bytes(c)
        return Priced(self.chunks(c), self.after_ns(c), resident, (0,) * len(resident))

    def chunks(self, c: Configuration) -> tuple[ChunkCost, ...]:
        slow = 100 + 4 * (c.tensor - 1) + (1 if c.micro_batch == 1 else 0)
        again, kept = AGAIN[c.recompute], KEPT[c.recompute]
        tokens = c.micro_batch * self.problem.sequence * self.problem.architecture.hidden
        counts = c.chunk_layers(self.problem.architecture)
        made = []
        for flops, count in zip(self._chunk_flops(c), counts, strict=True):
            once = -(-flops * NANO * slow // (100 * self._rate(c)))
            activations = kept * tokens * count // (c.tensor * c.context)
            made.append(ChunkCost(once, once + once * again // 100, once, activations))
        return tuple(made)

    def after_ns(self, c: Configuration) -> int:
        return 10**6 * c.zero

    def resident_bytes(self, c: Configuration) -> tuple[int, ...]:
        model = self.problem.architecture
        share = model.parameters // (c.tensor * c.pipeline)
        sharded = 4 + 12 // (c.data * c.context) if c.zero < 3 else 16 // c.data
        return (share * sharded,) * c.pipeline
