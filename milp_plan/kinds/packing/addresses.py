"""Addresses of a plan: every copy in a memory becomes a buffer, every memory is packed.

The checker's replay determines sizes and lifetimes, so everything that holds memory by the law
gets an address, including copies that were recomputed or came from a host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from milp_plan.backends import Stop
from milp_plan.check import Holding, replay
from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.run.outcome import Outcome
from milp_plan.run.settings import ProgressHook, Settings
from milp_plan.run.solving import solve

from .problem import Buffer, PackingPlan, PackingProblem

Shown = Callable[[PackingProblem], AbstractContextManager[ProgressHook]]

MIN_S = 0.1
"""Time for a memory when the whole limit is over, seconds: enough for first fits."""


@dataclass(frozen=True)
class Memory:
    """Copies in the memory of a device, as buffers.

    Parameters
    ----------
    device, limit_bytes
        The device and its memory; ``None`` is without limit.
    load_bytes
        Most bytes at one instant: no packing is lower.
    buffers
        A packing problem without a capacity.
    holdings
        Name of a buffer -> the copy.
    """

    device: str
    limit_bytes: int | None
    load_bytes: int
    buffers: PackingProblem
    holdings: Mapping[str, Holding]


@dataclass(frozen=True)
class PackedMemory:
    """A memory with its best packing."""

    memory: Memory
    outcome: Outcome[PackingProblem, PackingPlan]

    @property
    def height(self) -> int | None:
        """Addresses in use; ``None`` where there was no time for a packing."""
        return self.outcome.value

    @property
    def fragmentation(self) -> float | None:
        """Relative excess of the height over the load."""
        if self.height is None:
            return None
        return float((self.height - self.memory.load_bytes) / self.memory.load_bytes)

    @property
    def fits(self) -> bool:
        """Whether there is a packing within the device's memory."""
        limit = self.memory.limit_bytes
        return self.height is not None and (limit is None or self.height <= limit)

    @property
    def never_fits(self) -> bool:
        """Whether it is proved that no packing is within the device's memory."""
        limit, bound = self.memory.limit_bytes, self.outcome.bound
        return limit is not None and bound is not None and bound > limit


def memories(problem: PlanningProblem, plan: Plan, alignment: int = 1) -> tuple[Memory, ...]:
    """Return every memory that holds anything, in device order.

    Parameters
    ----------
    problem, plan
        A valid plan. Copies without a clock (persistent values; everything, under the static law
        and the serial one) exist from the first instant to after the last; kept values to after it.
    alignment
        Alignment of every offset, bytes.
    """
    replayed = replay(problem, plan)
    by_device: dict[str, list[Holding]] = {}
    for holding in replayed.holdings:
        if holding.num_bytes > 0:
            by_device.setdefault(holding.device, []).append(holding)
    times = [
        time
        for h in replayed.holdings
        for time in (h.start_ticks, h.stop_ticks)
        if time is not None
    ]
    persistent = [
        h.start_ticks
        for h in replayed.holdings
        if h.start_ticks is not None and h.stop_ticks is None
    ]
    first, last = min([0, *times]), max([0, replayed.makespan_ticks, *times])
    whole = first, max([last, first + 1, *(start + 1 for start in persistent)])
    result = []
    for device, memory in replayed.devices.items():
        holdings = dict(_named(by_device.get(device, ())))
        if holdings:
            buffers = tuple(_buffer(n, h, whole, alignment) for n, h in holdings.items())
            packing = PackingProblem(f"{problem.name} on {device}", buffers)
            load = memory.peak_bytes
            result.append(Memory(device, memory.limit_bytes, load, packing, holdings))
    return tuple(result)


def pack(
    contents: Iterable[Memory], settings: Settings, began: float, shown: Shown
) -> Iterator[PackedMemory]:
    """Pack one memory after the other, each in its share of the time that is left.

    Parameters
    ----------
    contents
        Memories to pack.
    settings
        The time limit is for all together, a node limit for each.
    began
        Start of the time limit, as in :func:`~.solving.solve`.
    shown
        Returns a context in which progress on a memory is shown.
    """
    budget, waiting = Budget(settings.time_limit_s, began=began), list(contents)
    for done, memory in enumerate(waiting):
        share = budget.left_s / (len(waiting) - done)
        limits = replace(settings, time_limit_s=max(share, MIN_S))
        with shown(memory.buffers) as show:
            outcome = solve(memory.buffers, limits, show)
        yield PackedMemory(memory, outcome)
        if outcome.stop is Stop.INTERRUPTED:
            return


def _named(holdings: Iterable[Holding]) -> Iterator[tuple[str, Holding]]:
    """Give each holding a unique name."""
    seen: Counter[str] = Counter()
    for holding in holdings:
        name = f"{holding.kind} {holding.name}"
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), holding


def _buffer(name: str, holding: Holding, whole: tuple[int, int], alignment: int) -> Buffer:
    start = whole[0] if holding.start_ticks is None else holding.start_ticks
    stop = whole[1] if holding.stop_ticks is None else holding.stop_ticks
    return Buffer(name, start, stop, holding.num_bytes, alignment)
