"""The step of a configuration: what it costs, and its time and memory as the law says."""

from __future__ import annotations

from dataclasses import dataclass

from .configuration import Configuration
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
