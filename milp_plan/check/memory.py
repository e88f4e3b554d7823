"""Rule `memory`: no device uses more than its memory at any instant."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import Counts, Units, Violation
from milp_plan.core.amounts import size_text, time_text

from .replay import DeviceMemory, Replay, Tape

RULE = "memory"
_NAMED = 4
"""Number of largest values that a message names."""


def check(tape: Tape, memories: dict[str, DeviceMemory], units: Units) -> Iterator[Violation]:
    """Yield a violation for each device that is too full, with the largest values at the peak."""
    for memory in memories.values():
        if memory.limit_bytes is not None and memory.peak_bytes > memory.limit_bytes:
            holders = Replay(memories, tape.holdings(), 0).holders(memory.device, memory.peak_ticks)
            listed = [
                f"{h.name} ({h.kind}) {size_text(units, h.num_bytes)}" for h in holders[:_NAMED]
            ]
            more = "" if len(holders) <= _NAMED else f" and {len(holders) - _NAMED} more"
            when = "in all" if tape.static else f"at {time_text(units, memory.peak_ticks)}"
            yield Violation(
                RULE,
                (memory.device, *dict.fromkeys(h.name for h in holders[:_NAMED])),
                f"device {memory.device!r} holds {size_text(units, memory.peak_bytes)} {when}: "
                f"{', '.join(listed)}{more}",
                memory.peak_bytes,
                memory.limit_bytes,
                Counts.SIZE,
            )
