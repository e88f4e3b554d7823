"""Goals: which problem a file is read as."""

import pytest

from milp_plan.core import Contiguity, InputError, MemoryLaw, Objective, Passes
from milp_plan.io.goal import Goal
from milp_plan.kinds.schedule.formats import read, write

from .samples import full_problem, store
from .test_dnn_partitioning import sample


@pytest.fixture
def instance(tmp_path):
    return store(tmp_path, sample(), "small.json")


def test_without_a_goal_the_makespan_counts(instance):
    problem = read(instance)
    assert (problem.objective, problem.serial) == (Objective.MAKESPAN, None)


@pytest.mark.parametrize(
    ("goal", "law"),
    [
        (Goal(Objective.BOTTLENECK), (Contiguity.FREE, Passes.JOINT, None)),
        (Goal(contiguous=True), (Contiguity.CHAIN, Passes.JOINT, None)),
        (Goal(separate_passes=True), (Contiguity.FREE, Passes.SEPARATE, None)),
        (Goal(Objective.LATENCY), (Contiguity.FREE, Passes.JOINT, 1)),
        (Goal(Objective.LATENCY, calls=2), (Contiguity.FREE, Passes.JOINT, 2)),
    ],
)
def test_a_goal_is_a_serial_law(instance, goal, law):
    problem = read(instance, goal)
    found = problem.serial
    assert (found.contiguity, found.passes, found.calls) == law
    assert found.payers == ("accelerator",)
    assert problem.memory_law is MemoryLaw.STATIC
    assert problem.fingerprint != read(instance).fingerprint


def test_latency_has_one_host(tmp_path):
    instance = store(tmp_path, sample() | {"maxCPUs": 8}, "many.json")
    assert read(instance, Goal(Objective.LATENCY)).cluster.device_names[2:] == ("cpu0",)
    assert len(read(instance, Goal(Objective.BOTTLENECK)).cluster.devices) == 10


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (Goal(calls=2), "--calls.*objective latency"),
        (Goal(Objective.BOTTLENECK, calls=2), "--calls"),
        (Goal(Objective.LATENCY, contiguous=True), "--contiguous"),
        (Goal(Objective.MAKESPAN, separate_passes=True), "--separate-passes"),
    ],
)
def test_wishes_that_do_not_go_together(instance, goal, words):
    with pytest.raises(InputError, match=words) as caught:
        read(instance, goal)
    assert "small.json" in str(caught.value)


def test_a_native_file_keeps_its_law_or_takes_another(tmp_path, instance):
    native = tmp_path / "native.json"
    problem = read(instance, Goal(Objective.LATENCY, calls=3))
    write(problem, native)
    assert read(native) == problem
    chain = read(native, Goal(Objective.BOTTLENECK, contiguous=True))
    assert chain.serial.contiguity is Contiguity.CHAIN
    assert chain.serial.calls is None
    assert read(native, Goal(Objective.MAKESPAN)).serial is None


def test_a_native_file_without_the_law_says_so(tmp_path):
    native = tmp_path / "native.json"
    write(full_problem(), native)
    with pytest.raises(InputError, match="does not say which devices pay for transfers"):
        read(native, Goal(contiguous=True))
    assert read(native, Goal(Objective.MAKESPAN)).objective is Objective.MAKESPAN
