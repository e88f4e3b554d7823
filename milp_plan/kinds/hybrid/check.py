"""Checks plans of hybrid parallelism against their law (docs/laws.md), in exact fractions.

Source of the law: Tarnawski, Narayanan, Phanishayee (Piper, NeurIPS 2021).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from types import NoneType

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Counts, Verdict, Violation, ceil_div

from .plan import Choice, HybridPlan, Stage
from .problem import Configuration, HybridProblem, Limits

OBJECTIVE = "time_per_sample"
"""Seconds between two micro-batches that leave the slowest stage."""


@dataclass(frozen=True)
class _Reading:
    problem: HybridProblem
    plan: HybridPlan

    @cached_property
    def place(self) -> dict[str, int]:
        """Layer -> the first stage that contains it."""
        places: dict[str, int] = {}
        for position, stage in enumerate(self.plan.stages):
            for choice in stage.choices:
                places.setdefault(choice.layer, position)
        return places

    def chosen(self, stage: Stage) -> Iterator[tuple[str, Configuration]]:
        """Yield layers of a stage with their configurations, if the problem has them."""
        for choice in stage.choices:
            layer = self.problem.by_name.get(choice.layer)
            known = layer and layer.configuration(stage.tensor, choice.configuration)
            if known:
                yield choice.layer, known

    def in_flight(self, position: int) -> int:
        """Return the micro-batches whose activations a replica of a stage holds at a time."""
        data = self.plan.stages[position].data
        return ceil_div(sum(stage.data for stage in self.plan.stages[position:]), data)

    def memory_bytes(self, position: int) -> Fraction:
        """Return the memory of each device of a stage."""
        flight = self.in_flight(position)
        chosen = self.chosen(self.plan.stages[position])
        return sum((flight * c.flight_bytes + c.fixed_bytes for _, c in chosen), Fraction(0))

    def seconds(self, position: int) -> Fraction:
        """Return the time per sample of a stage: work, boundary transfers, gradient exchange."""
        stage, limits = self.plan.stages[position], self.problem.limits
        chosen = dict(self.chosen(stage))
        work = sum((entry.seconds for entry in chosen.values()), Fraction(0))
        sent = Fraction(0)
        for flow in self.problem.flows:
            if (self.place[flow.source] == position) == (self.place[flow.target] == position):
                continue
            if self.place[flow.source] == position:
                extra = chosen[flow.source].send_bytes.get(flow.target, Fraction(0))
            else:
                extra = chosen[flow.target].receive_bytes.get(flow.source, Fraction(0))
            sent += 2 * (flow.bytes + extra)
        weights = sum((entry.parameter_bytes for entry in chosen.values()), Fraction(0))
        exchanged = 4 * (stage.data - 1) * weights / limits.micro_batches
        return (work + (sent + exchanged) / limits.bandwidth_bytes_per_s) / stage.data


def verify_hybrid(problem: HybridProblem, plan: HybridPlan) -> Verdict:
    """Check a plan against every rule and recompute its value; never raises.

    Returns
    -------
    Verdict
        ``value``: time per sample in ticks (``problem.units``). Components: ``devices``, and of
        stage i its ``seconds i`` in ticks, ``memory i`` in bytes (rounded up) and
        ``in flight i`` in micro-batches. Value and components are absent where the plan names
        what the problem does not have, or leaves out a layer.
    """
    broken = tuple(_form(plan))
    if broken:  # the other rules cannot be evaluated
        return Verdict(broken, OBJECTIVE, None, {})
    reading = _Reading(problem, plan)
    violations = [*_degrees(reading), *_assignment(reading)]
    whole = not violations
    violations = [*_identity(reading), *violations]
    violations += [*_switches(reading), *_order(reading), *_totals(reading)]
    value: int | None = None
    components: dict[str, int] = {}
    if whole:
        violations += _memory(reading)
        components = _components(reading)
        value = max(components[f"seconds {i}"] for i in range(len(plan.stages)))
    violations += overclaimed(problem, plan, value, f"a {OBJECTIVE}", Counts.TIME)
    return Verdict(tuple(violations), OBJECTIVE, value, components)


def _form(plan: HybridPlan) -> Iterator[Violation]:
    """Check the types of all entries: the other rules rely on them."""
    for name, entry, kinds in (
        ("problem", plan.problem, (str,)),
        ("value", plan.value, (int, NoneType)),
        ("fingerprint", plan.fingerprint, (str, NoneType)),
        ("limits", plan.limits, (Limits, NoneType)),
    ):
        if type(entry) not in kinds:
            yield Violation("form", (name,), f"{name} is {type(entry).__name__}")
    stages: object = plan.stages
    for position, stage in enumerate(stages if isinstance(stages, tuple | list) else (stages,)):
        if wrong := _formless(stage):
            yield Violation("form", (f"stage {position}",), f"stage {position}: {wrong}")


def _formless(stage: object) -> str:
    """Explain why a stage is malformed; empty if it is not."""
    if not isinstance(stage, Stage):
        return f"a {type(stage).__name__} is no stage"
    if type(stage.data) is not int or type(stage.tensor) is not int:
        return "a degree is no integer"
    choices: object = stage.choices
    if not isinstance(choices, tuple | list):
        return "it has no list of choices"
    for choice in choices:
        known = isinstance(choice, Choice)
        if not known or type(choice.layer) is not str or type(choice.configuration) is not str:
            return "a choice does not name a layer and a configuration"
    return ""


def _identity(reading: _Reading) -> Iterator[Violation]:
    problem, plan = reading.problem, reading.plan
    yield from misattributed(problem, plan)
    if plan.limits is not None and plan.limits != problem.limits:
        text = "the plan was made under other limits"
        yield Violation("identity", (problem.name,), text)


def _degrees(reading: _Reading) -> Iterator[Violation]:
    batch = reading.problem.limits.micro_batches
    for position, stage in enumerate(reading.plan.stages):
        for label, degree in (("data", stage.data), ("tensor", stage.tensor)):
            if degree < 1:
                text = f"stage {position} has {label} degree {degree}"
                yield Violation("degrees", (f"stage {position}",), text, 1, degree)
        if stage.data >= 1 and batch % stage.data:
            text = f"stage {position}: data degree {stage.data} does not divide the {batch} "
            text += "micro-batches of a batch"
            yield Violation("degrees", (f"stage {position}",), text)


def _assignment(reading: _Reading) -> Iterator[Violation]:
    counts = Counter(choice.layer for stage in reading.plan.stages for choice in stage.choices)
    for name in reading.problem.by_name:
        if counts[name] != 1:
            text = f"layer {name!r} is in {counts[name]} places, expected one"
            yield Violation("assignment", (name,), text, 1, counts[name])
    for position, stage in enumerate(reading.plan.stages):
        if not stage.choices:
            text = f"stage {position} has no layer"
            yield Violation("assignment", (f"stage {position}",), text)
        for choice in stage.choices:
            layer = reading.problem.by_name.get(choice.layer)
            if layer is None:
                text = f"unknown layer {choice.layer!r} in stage {position}"
                yield Violation("identity", (choice.layer,), text)
            elif layer.configuration(stage.tensor, choice.configuration) is None:
                text = f"layer {choice.layer!r} has no configuration {choice.configuration!r} "
                text += f"at tensor degree {stage.tensor} (stage {position})"
                yield Violation("configuration", (choice.layer,), text)


def _switches(reading: _Reading) -> Iterator[Violation]:
    limits = reading.problem.limits
    for position, stage in enumerate(reading.plan.stages):
        subject = (f"stage {position}",)
        if stage.data > 1 and not limits.data:
            text = f"stage {position}: data degree {stage.data}, data parallelism is off"
            yield Violation("switches", subject, text, stage.data, 1)
        if stage.tensor > 1 and not limits.tensor:
            text = f"stage {position}: tensor degree {stage.tensor}, tensor parallelism is off"
            yield Violation("switches", subject, text, stage.tensor, 1)
        for name, entry in reading.chosen(stage):
            if entry.recomputes and not limits.recomputation:
                text = f"layer {name!r} recomputes ({entry.name!r}), recomputation is off"
                yield Violation("switches", (name,), text)


def _order(reading: _Reading) -> Iterator[Violation]:
    for flow in reading.problem.flows:
        source, target = (reading.place.get(name) for name in (flow.source, flow.target))
        if source is not None and target is not None and source > target:
            text = f"{flow.source!r} in stage {source} feeds {flow.target!r} in stage {target}"
            yield Violation("order", (flow.source, flow.target), f"{text}, which is earlier")


def _totals(reading: _Reading) -> Iterator[Violation]:
    problem, stages = reading.problem, reading.plan.stages
    for label, used, most in (
        ("devices", sum(stage.devices for stage in stages), problem.limits.devices),
        ("micro-batches", sum(stage.data for stage in stages), problem.limits.micro_batches),
    ):
        if used > most:
            text = "the stages take more devices than there are"
            if label == "micro-batches":
                text = "the data degrees add up to more than the micro-batches of a batch"
            yield Violation(label, (problem.name,), text, used, most)


def _memory(reading: _Reading) -> Iterator[Violation]:
    most = reading.problem.limits.memory_bytes
    for position in range(len(reading.plan.stages)):
        need = reading.memory_bytes(position)
        if need > most:
            flight = reading.in_flight(position)
            text = f"a device of stage {position} holds {flight} micro-batches in flight and more "
            text += "than its memory"
            yield Violation(
                "memory", (f"stage {position}",), text, ceil(need), int(most), Counts.SIZE
            )


def _components(reading: _Reading) -> dict[str, int]:
    stages, scale = reading.plan.stages, reading.problem.units.time_scale
    components = {"devices": sum(stage.devices for stage in stages)}
    for position in range(len(stages)):
        ticks = reading.seconds(position) * scale
        assert ticks.denominator == 1, "units.time_scale is too small"
        components[f"seconds {position}"] = ticks.numerator
        components[f"memory {position}"] = ceil(reading.memory_bytes(position))
        components[f"in flight {position}"] = reading.in_flight(position)
    return components
