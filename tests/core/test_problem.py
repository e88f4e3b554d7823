from dataclasses import replace

import pytest

from milp_plan.core import MemoryLaw, Objective, Option, PlanningProblem, Units

from .builders import cluster, graph, operator, value

CHANGE = {("full", "half"): 3, ("half", "full"): 4}


def _problem(**changes):
    option = Option("o", {"c": 1, "k": 2}, reads={"v": "half", "w": "full"}, gang=2)
    classes = cluster().device_classes
    g = graph(
        [operator("a"), operator("b", option)],
        value("v", "a", "b", bytes={"full": 8, "half": 4}, reshard_ticks=CHANGE),
        value("w", None, "b"),
    )
    c = cluster(device_classes=(*classes, replace(classes[0], name="k")))
    return PlanningProblem("p", g, c, **changes)


def _with_option(p, **changes):
    first, second = p.graph.operators
    second = replace(second, options=(replace(second.options[0], **changes),))
    return replace(p, graph=replace(p.graph, operators=(first, second)))


def _with_value(p, **changes):
    first, second = p.graph.values
    return replace(p, graph=replace(p.graph, values=(replace(first, **changes), second)))


def test_the_order_of_mappings_does_not_count():
    p = _problem()
    turned = _with_option(p, duration_ticks={"k": 2, "c": 1}, reads={"w": "full", "v": "half"})
    turned = _with_value(turned, reshard_ticks=dict(reversed(CHANGE.items())))
    assert turned.fingerprint == p.fingerprint


def test_name_and_provenance_do_not_count():
    p = _problem()
    assert replace(p, name="q", provenance={"source": "here"}).fingerprint == p.fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        _with_option(_problem(), duration_ticks={"c": 1, "k": 3}),
        _with_option(_problem(), workspace_bytes=1),
        _with_option(_problem(), name="other"),
        _with_value(_problem(), bytes={"full": 9, "half": 4}),
        _with_value(_problem(), reshard_ticks={**CHANGE, ("full", "half"): 5}),
        _with_value(_problem(), messages=2),
        replace(_problem(), objective=Objective.PEAK_MEMORY),
        replace(_problem(), memory_law=MemoryLaw.STATIC),
        replace(_problem(), units=Units(time_scale=10)),
        replace(_problem(), cluster=_problem().cluster.with_memory({"d0": 99})),
        replace(_problem(), cluster=replace(_problem().cluster, communication="delay")),
        replace(_problem(), graph=replace(_problem().graph, values=_problem().graph.values[::-1])),
    ],
)
def test_everything_else_counts(changed):
    assert changed.fingerprint != _problem().fingerprint


def test_fingerprints_are_the_same_everywhere():
    """SHA-256 of plain content: no process, platform or hash seed in it."""
    p = PlanningProblem("p", graph("a"), cluster())
    assert p.fingerprint == PlanningProblem("p", graph("a"), cluster()).fingerprint
    assert len(p.fingerprint) == 64
    assert int(p.fingerprint, 16) > 0


@pytest.mark.parametrize(
    ("objective", "law", "needed"),
    [
        (Objective.MAKESPAN, MemoryLaw.INSTANT, True),
        (Objective.MAKESPAN, MemoryLaw.STATIC, True),
        (Objective.PEAK_MEMORY, MemoryLaw.STATIC, True),
        (Objective.BOTTLENECK, MemoryLaw.INSTANT, True),
        (Objective.BOTTLENECK, MemoryLaw.STATIC, False),
    ],
)
def test_who_needs_a_schedule(objective, law, needed):
    assert _problem(objective=objective, memory_law=law).needs_schedule is needed
