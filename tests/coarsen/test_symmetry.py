"""Twins among devices and operators: swapping them maps optimal plans to optimal plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    Channel,
    Cluster,
    Device,
    DeviceClass,
    Operator,
    Option,
    Plan,
    PlanningProblem,
)
from milp_plan.kinds.schedule.coarsen.symmetry import interchangeable_devices
from tests.support.problems import random_problem_with_plan

from .drafts import problem_of, single, small_cluster


def devices_of(cluster: Cluster, gang: int = 1) -> tuple[tuple[str, ...], ...]:
    options = (*single(1), Option("wide", {"fast": 1}, gang=gang)) if gang > 1 else single(1)
    return interchangeable_devices(problem_of([Operator("a", options)], [], cluster))


def test_equal_devices_are_one_class():
    assert devices_of(small_cluster(3)) == (("d0", "d1", "d2"),)


def test_memory_class_and_channels_tell_devices_apart():
    cluster = small_cluster(3)
    assert devices_of(cluster.with_memory({"d2": 5})) == (("d0", "d1"),)
    classes = (*cluster.device_classes, DeviceClass("slow", None))
    other = (*cluster.devices[:2], Device("d2", "slow", None))
    assert devices_of(replace(cluster, device_classes=classes, devices=other)) == (("d0", "d1"),)
    assert devices_of(replace(cluster, channels=cluster.channels[1:])) == ()
    slower = [
        replace_channel(c, 9) if "d2" in (c.source, c.target) else c for c in cluster.channels
    ]
    assert devices_of(replace(cluster, channels=tuple(slower))) == (("d0", "d1"),)
    one_way = [replace_channel(c, 9) if c.target == "d0" else c for c in cluster.channels]
    assert devices_of(replace(cluster, channels=tuple(one_way))) == (("d1", "d2"),)


def replace_channel(channel: Channel, latency: int) -> Channel:
    return replace(channel, latency_ticks=latency)


def test_groups_must_be_kept():
    cluster = small_cluster(4)
    pairs = replace(cluster, groups=(("d0", "d1"), ("d2", "d3")))
    assert devices_of(pairs, gang=2) == (("d0", "d1"), ("d2", "d3"))
    crossed = replace(cluster, groups=(("d0", "d1"), ("d2", "d1")))
    assert devices_of(crossed, gang=2) == (("d0", "d2"),)


def test_groups_that_no_option_holds_do_not_count():
    pairs = replace(small_cluster(4), groups=(("d0", "d1"), ("d2", "d3")))
    assert devices_of(pairs) == (("d0", "d1", "d2", "d3"),)


@pytest.mark.untraced
def test_swapping_twin_devices_keeps_any_plan():
    swapped = 0
    for seed in range(60):
        problem, plan = random_problem_with_plan(seed)
        for first, second, *_ in interchangeable_devices(problem):
            swap = {first: second, second: first}
            other = _moved(problem, plan, swap)
            assert verify(problem, other).value == verify(problem, plan).value
            assert verify(problem, other).ok, (seed, verify(problem, other).violations)
            swapped += 1
    assert swapped > 2


def _moved(problem: PlanningProblem, plan: Plan, swap: dict[str, str]) -> Plan:
    """The plan with two devices exchanged; a group that holds both keeps its order."""

    def site(devices: tuple[str, ...]) -> tuple[str, ...]:
        image = tuple(swap.get(d, d) for d in devices)
        sites = problem.cluster.sites(len(devices))
        return image if image in sites else next(s for s in sites if set(s) == set(image))

    runs = tuple(replace(run, devices=site(run.devices)) for run in plan.runs)
    moved = tuple(replace(t, source=site(t.source), target=site(t.target)) for t in plan.transfers)
    return replace(plan, runs=runs, transfers=moved)
