"""The step of a configuration: what it costs, and its time and memory as the law says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from .configuration import V_SHAPED, Configuration, Schedule
from .replay import ChunkCost, Replay, replay, schedule_bound


@dataclass(frozen=True, slots=True)
class Priced:
    """What a configuration costs.

    Parameters
    ----------
    chunks
        Times and activations of every chunk, in the order of the model.
    after_ns
        What follows the last backward pass: traffic that nothing hides, optimizer.
    resident_bytes
        Memory of each pipeline stage's devices without activations of micro-batches.
    host_bytes
        Memory of the host for each of these devices, without activations of micro-batches.
    lag_ns
        Time until the next pipeline device has what a pass sends, beside other passes.
    """

    chunks: tuple[ChunkCost, ...]
    after_ns: int
    resident_bytes: tuple[int, ...]
    host_bytes: tuple[int, ...]
    lag_ns: int = 0

    @property
    def offloads(self) -> bool:
        """Whether anything is on the host."""
        return any(self.host_bytes) or any(chunk.host_bytes for chunk in self.chunks)

    def on_host(self) -> Priced:
        """Return what is on the host in the place of what is on the devices."""
        chunks = (replace(each, activation_bytes=each.host_bytes) for each in self.chunks)
        return replace(self, chunks=tuple(chunks), resident_bytes=self.host_bytes)


class Costs(Protocol):
    """What a search and the checker need of costs; times in nanoseconds, sizes in bytes."""

    def least_ns(self, configuration: Configuration) -> int:
        """Return a lower bound on a step that costs next to nothing to compute."""

    def evenly_ns(self, configuration: Configuration) -> int:
        """Return a lower bound from all passes of the model, evenly divided over the pipeline."""

    def variants(self, configuration: Configuration) -> Iterable[Configuration]:
        """Return the same with other blocks on stages."""

    def lighter(self, configuration: Configuration, cutoff: float) -> Iterable[Configuration]:
        """Return those that recompute as few blocks as fit, and may take less than a cutoff."""

    def saving_ns(self, configuration: Configuration) -> int | None:
        """Return a bound where as few blocks as fit are recomputed; ``None`` if none fits."""

    def first_peak(self, configuration: Configuration) -> int:
        """Return memory that the devices of the first pipeline stage take at least."""

    def priced(self, configuration: Configuration) -> Priced:
        """Return what a configuration costs."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A step that was derived from a configuration.

    Parameters
    ----------
    played
        Its passes, replayed.
    after_ns
        What follows the last backward pass.
    peaks
        Most memory at any instant on the devices of each pipeline stage.
    host_peaks
        Most memory of the host for each of these devices; empty where nothing is there.
    """

    played: Replay
    after_ns: int
    peaks: tuple[int, ...]
    host_peaks: tuple[int, ...] = ()

    @property
    def step_ns(self) -> int:
        """Time of the step."""
        return self.played.makespan_ns + self.after_ns


def derive(configuration: Configuration, priced: Priced) -> TrainingStep:
    """Replay the step of a configuration that can run.

    Raises
    ------
    NoScheduleError
        The schedule is not defined for it.
    """
    played = replay(configuration, priced.chunks, priced.lag_ns)
    host_peaks = _peaks(configuration, priced.on_host()) if priced.offloads else ()
    peaks = _all_bytes(priced, played)
    return TrainingStep(played, priced.after_ns, peaks, host_peaks)


def _peaks(configuration: Configuration, priced: Priced) -> tuple[int, ...]:
    return _all_bytes(priced, replay(configuration, priced.chunks, priced.lag_ns))


def _all_bytes(priced: Priced, played: Replay) -> tuple[int, ...]:
    resident = priced.resident_bytes
    return tuple(a + b for a, b in zip(resident, played.activation_peaks, strict=True))


def least_step(configuration: Configuration, priced: Priced) -> int:
    """Return a lower bound on the time of a step under any order of its schedule's kind."""
    return schedule_bound(configuration, priced.chunks) + priced.after_ns


def excess_of(problem: Any, configuration: Any, peaks: Iterable[int]) -> tuple[int, int]:
    """Return how many bytes the worst stage lacks on a device, at most 0 if it fits; that stage."""
    over = [
        (peak - problem.limit_bytes(configuration, stage), -stage)
        for stage, peak in enumerate(peaks)
    ]
    excess, stage = max(over)
    return excess, -stage


def host_excess(problem: Any, configuration: Any, peaks: Iterable[int]) -> int:
    """Return how many bytes the host of the worst stage lacks, at most 0 if it fits."""
    limits = (peak - problem.host_limit(configuration, s) for s, peak in enumerate(peaks))
    return max(limits, default=0)


def least_peaks(configuration: Configuration, priced: Priced) -> tuple[int, ...]:
    """Return memory of each stage that the schedule takes at least; most schedules take just that.

    Forward passes ahead of the first backward pass have no choice; their number follows from the
    schedule's definition.
    """
    kept = [chunk.activation_bytes for chunk in priced.chunks]
    return tuple(
        fixed
        + least_activations(configuration, stage, [kept[k] for k in configuration.chunks_of(stage)])
        for stage, fixed in enumerate(priced.resident_bytes)
    )


def least_activations(configuration: Configuration, stage: int, kept: Sequence[int]) -> int:
    """Return bytes of activations that a stage has at once at least, of ``kept`` for each chunk.

    Schedules in the shape of a V say how many chunks wait, but not which of the two; with fewer
    than two micro-batches a stage, at least one of the two chunks of each waits.
    """
    counts = micro_batches_ahead(configuration)[stage]
    if configuration.schedule in V_SHAPED:
        many = configuration.micro_batches >= 2 * configuration.pipeline
        return (max(1, sum(counts) - 1) if many else max(counts)) * min(kept)
    return sum(count * one for count, one in zip(counts, kept, strict=True))


def micro_batches_ahead(configuration: Configuration) -> tuple[tuple[int, ...], ...]:
    """Return how many micro-batches of each chunk of a stage wait for their backward pass at once.

    1F1B and ZB-H1 as published; interleaved 1F1B at the end of its warm-up; V-shaped schedules have
    as many as 1F1B on its first device, but for those that take less by design, where one is
    counted.
    """
    c = configuration
    return _ahead(c.pipeline, c.micro_batches, c.virtual, c.schedule)


@lru_cache(maxsize=1024)
def _ahead(p: int, m: int, v: int, schedule: Schedule) -> tuple[tuple[int, ...], ...]:
    if p == 1:
        return ((1,) * v,)
    if schedule is Schedule.GPIPE:
        return ((m,) * v,) * p
    if schedule is Schedule.ONE_F_ONE_B:
        return tuple((min(m, p - stage),) for stage in range(p))
    if schedule is Schedule.INTERLEAVED:
        return tuple(_turns(p, v, m, stage) for stage in range(p))
    if schedule in (Schedule.ZB_H1, Schedule.ZB_V):
        return ((min(m, p),) * v,) * p
    return ((1,) * v,) * p


def _turns(p: int, v: int, m: int, stage: int) -> tuple[int, ...]:
    """Micro-batches of each chunk after the warm-up and one more forward pass."""
    passes = min(2 * (p - 1 - stage) + (v - 1) * p + 1, m * v)
    rounds, rest = divmod(passes, p * v)
    return tuple(rounds * p + max(0, min(p, rest - k * p)) for k in range(v))
