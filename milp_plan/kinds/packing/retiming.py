"""Adapts packings to changed buffers: each is as low as those below it allow."""

from __future__ import annotations

from .problem import PackingPlan, PackingProblem, Place


def lowered(problem: PackingProblem, plan: PackingPlan) -> PackingPlan:
    """Return the packing in which each buffer is just above those that were below it."""
    offsets = {place.buffer.name: place.offset for place in plan.places}
    done: list[Place] = []
    for buffer in sorted(problem.buffers, key=lambda b: (offsets[b.name], b.lower, b.name)):
        tops = [
            place.offset + place.buffer.size
            for place in done
            if place.buffer.lower < buffer.upper and buffer.lower < place.buffer.upper
        ]
        least = max(tops, default=0)
        done.append(Place(buffer, -(-least // buffer.alignment) * buffer.alignment))
    return PackingPlan(problem.name, tuple(done), planner=plan.planner)
