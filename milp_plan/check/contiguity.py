"""Rule `contiguity`: values of the forward pass form no cycle of devices."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import BACKWARD_KINDS, Contiguity, Violation

from .reading import Reading
from .serial import law_of

RULE = "contiguity"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield one violation with the devices of a cycle, if there is one."""
    if law_of(reading).contiguity is Contiguity.FREE:
        return
    carried = _carried(reading)
    after: dict[str, set[str]] = {}
    for before, later in carried:
        after.setdefault(before, set()).add(later)
    cycle = _cycle(after)
    if cycle:
        steps = [
            f"{value} from {before} to {later}"
            for before, later in zip(cycle, (*cycle[1:], cycle[0]), strict=True)
            for value in (carried[before, later],)
        ]
        yield Violation(RULE, cycle, "devices wait for each other: " + "; ".join(steps))


def _carried(reading: Reading) -> dict[tuple[str, str], str]:
    """Return (device before, device after) -> a value that orders them so."""
    facts = reading.facts
    backward_only = _backward_only(reading)
    edges: dict[tuple[str, str], str] = {}
    for value in facts.made:
        producer = reading.runs.get(value.producer or "")
        for name in value.consumers:
            reader = reading.runs.get(name)
            if producer is None or reader is None or reader.site == producer.site:
                continue
            ends = (producer.operator, name)
            kinds = [facts.operators[end].kind in BACKWARD_KINDS for end in ends]
            here, there = producer.site[0], reader.site[0]
            if not any(kinds):
                edges.setdefault((here, there), value.name)
            elif all(kinds) and any(end in backward_only for end in ends):
                edges.setdefault((there, here), value.name)
    return edges


def _backward_only(reading: Reading) -> set[str]:
    """Return operators without a forward operator in their colocation group, if they have one."""
    graph = reading.facts.problem.graph
    names = set()
    for operator in graph.operators:
        members = graph.groups[operator.group] if operator.group is not None else (operator.name,)
        if all(graph.operator(name).kind in BACKWARD_KINDS for name in members):
            names.add(operator.name)
    return names


def _cycle(after: dict[str, set[str]]) -> tuple[str, ...]:
    """Return the devices of a cycle in order; empty if there is none."""
    done: set[str] = set()
    for start, first in after.items():
        path: list[str] = []
        stack = [(start, iter(sorted(first)))] if start not in done else []
        while stack:
            device, rest = stack[-1]
            if not path or path[-1] != device:
                path.append(device)
            following = next((d for d in rest if d not in done), None)
            if following is None:
                done.add(device)
                path.pop()
                stack.pop()
            elif following in path:
                return tuple(path[path.index(following) :])
            else:
                stack.append((following, iter(sorted(after.get(following, ())))))
    return ()
