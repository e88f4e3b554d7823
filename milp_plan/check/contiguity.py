"""Rule `contiguity`: no value of the forward pass goes round in a circle of devices."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import BACKWARD_KINDS, Contiguity, Violation

from .reading import Reading
from .serial import law_of

RULE = "contiguity"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield one violation with the devices of a circle, if there is one."""
    if law_of(reading).contiguity is Contiguity.FREE:
        return
    carried = _carried(reading)
    after: dict[str, set[str]] = {}
    for before, later in carried:
        after.setdefault(before, set()).add(later)
    circle = _circle(after)
    if circle:
        steps = [
            f"{value} from {before} to {later}"
            for before, later in zip(circle, (*circle[1:], circle[0]), strict=True)
            for value in (carried[before, later],)
        ]
        yield Violation(RULE, circle, "devices wait for each other: " + "; ".join(steps))


def _carried(reading: Reading) -> dict[tuple[str, str], str]:
    """(device before, device after) -> a value that says so."""
    facts = reading.facts
    backward_only = _backward_only(reading)
    found: dict[tuple[str, str], str] = {}
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
                found.setdefault((here, there), value.name)
            elif all(kinds) and any(end in backward_only for end in ends):
                found.setdefault((there, here), value.name)
    return found


def _backward_only(reading: Reading) -> set[str]:
    """Operators whose colocation group (or who themselves) have no forward part."""
    graph = reading.facts.problem.graph
    found = set()
    for operator in graph.operators:
        members = graph.groups[operator.group] if operator.group is not None else (operator.name,)
        if all(graph.operator(name).kind in BACKWARD_KINDS for name in members):
            found.add(operator.name)
    return found


def _circle(after: dict[str, set[str]]) -> tuple[str, ...]:
    """Devices of a circle in order; empty if there is none."""
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
