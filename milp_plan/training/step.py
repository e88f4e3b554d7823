"""The step of a configuration: what it costs, and its time and memory as the law says."""

from __future__ import annotations

from dataclasses import dataclass

from .configuration import Configuration, Schedule
from .replay import Chunk, Replay, replay


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
    """

    chunks: tuple[Chunk, ...]
    after_ns: int
    resident_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was derived from a configuration.

    Parameters
    ----------
    played
        Its passes, replayed.
    after_ns
        What follows the last backward pass.
    peaks
        Most memory at any instant on the devices of each pipeline stage.
    """

    played: Replay
    after_ns: int
    peaks: tuple[int, ...]

    @property
    def step_ns(self) -> int:
        """Time of the step."""
        return self.played.makespan_ns + self.after_ns


def derive(configuration: Configuration, priced: Priced) -> Step:
    """Replay the step of a configuration that can run.

    Raises
    ------
    NoScheduleError
        The schedule is not defined for it.
    """
    played = replay(configuration, priced.chunks)
    resident = priced.resident_bytes
    peaks = tuple(a + b for a, b in zip(resident, played.activation_peaks, strict=True))
    return Step(played, priced.after_ns, peaks)


def micro_batches_ahead(configuration: Configuration) -> tuple[tuple[int, ...], ...]:
    """Return how many micro-batches of each chunk of a stage wait for their backward pass at once.

    1F1B and ZB-H1 as published; interleaved 1F1B at the end of its warm-up; V-shaped schedules hold
    as many as 1F1B on its first device, but for those that take less by design, where one is
    counted.
    """
    p, m, v = configuration.pipeline, configuration.micro_batches, configuration.virtual
    schedule = configuration.schedule
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
