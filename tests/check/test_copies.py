"""Runs again and hosts: who reads which copy, and how long it is held."""

import random
from dataclasses import replace
from math import inf
from unittest import mock

import pytest

from milp_plan.check import replay, verify
from milp_plan.check.chain import critical_chain
from milp_plan.check.reading import Reading
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    CommunicationModel,
    Device,
    DeviceClass,
    MemoryLaw,
    Violation,
)
from tests.support.damage import DAMAGES
from tests.support.memory_saving import HOST, planted_memory_saving
from tests.support.plans import planted

from .cases import broken, messages, op, plan, problem, run, send, value


def hosted(names="d0", *, memory=None, host=None):
    """Return a cluster with a host beside the devices; 8 bytes travel for 10 ticks."""
    devices = names.split()
    every = [*devices, "h"]
    return Cluster(
        (DeviceClass("c", memory), DeviceClass("store", host, host=True)),
        (*(Device(name, "c", memory) for name in devices), Device("h", "store", host)),
        tuple(Channel(a, b, 2, 10**9) for a in every for b in every if a != b),
    )


def chain(**where):
    """Return a, then b, then c, which reads what a and b make; a may run again."""
    return problem(
        [op("a", recomputable=True), op("b"), op("c")],
        [value("v", "a", "b c"), value("w", "b", "c")],
        hosted(**where),
    )


KEPT = plan(run("a", "d0", 0), run("b", "d0", 10), run("c", "d0", 20))
AGAIN = plan(run("a", "d0", 0), run("b", "d0", 10), run("a", "d0", 20), run("c", "d0", 30))
AWAY = plan(
    run("a", "d0", 0),
    send("v", "d0", "h", 10),
    run("b", "d0", 10),
    send("v", "h", "d0", 20),
    run("c", "d0", 30),
)


def steps(a_problem, a_plan, device="d0"):
    return replay(a_problem, a_plan).devices[device].steps


def test_a_kept_copy_stays_until_its_last_reader_stops():
    assert broken(chain(), KEPT) == []
    assert steps(chain(), KEPT) == ((0, 8), (10, 16), (30, 0))


def test_a_run_again_lets_go_of_the_copy_before():
    assert broken(chain(), AGAIN) == []
    assert verify(chain(), AGAIN).value == 40
    # From 0 the first copy, from 10 also w, from 20 the first copy is gone and the second there.
    assert steps(chain(), AGAIN) == ((0, 8), (10, 16), (40, 0))
    longer = plan(*AGAIN.runs[:2], run("a", "d0", 25), run("c", "d0", 35))
    assert steps(chain(), longer) == ((0, 8), (10, 16), (20, 8), (25, 16), (45, 0))


def test_a_value_on_a_host_is_counted_there_and_not_here():
    assert broken(chain(), AWAY) == []
    slow = plan(*AWAY.runs[:2], *AWAY.transfers[:1], send("v", "h", "d0", 40), run("c", "d0", 50))
    assert broken(chain(), slow) == []
    assert steps(chain(), slow) == ((0, 8), (10, 16), (20, 8), (40, 16), (60, 0))
    assert steps(chain(), slow, "h") == ((0, 0), (10, 8), (50, 0))


def kept_chain(**where):
    """Return a, whose v stays though b reads it; a may run again."""
    return problem(
        [op("a", recomputable=True), op("b")],
        [value("v", "a", "b", kept=True), value("w", "b", "", kept=False)],
        hosted(**where),
    )


def test_the_copy_of_the_last_run_is_the_result():
    once = plan(run("a", "d0", 0), run("b", "d0", 10))
    assert broken(kept_chain(), once) == []
    assert steps(kept_chain(), once) == ((0, 8), (10, 16), (20, 8))
    # b reads the first copy, which is gone when b stops; the second stays and counts as read.
    twice = plan(run("a", "d0", 0), run("b", "d0", 10), run("a", "d0", 30))
    assert broken(kept_chain(), twice) == []
    assert steps(kept_chain(), twice) == ((0, 8), (10, 16), (20, 0), (30, 8))
    away = plan(run("a", "d0", 0), run("b", "d0", 10), run("a", "d1", 30))
    assert broken(kept_chain(names="d0 d1"), away) == []
    assert steps(kept_chain(names="d0 d1"), away) == ((0, 8), (10, 16), (20, 0))
    assert steps(kept_chain(names="d0 d1"), away, "d1") == ((0, 0), (30, 8))
    # The first of three is read by b, the last is the result, the one between is for nobody.
    thrice = plan(*twice.runs, run("a", "d0", 50))
    assert broken(kept_chain(), thrice) == ["supply"]


def test_a_copy_on_a_host_is_no_result():
    sent = plan(
        run("a", "d0", 0),
        send("v", "d0", "h", 10),
        send("v", "h", "d0", 20),
        run("b", "d0", 30),
    )
    assert broken(kept_chain(), sent) == []
    assert steps(kept_chain(), sent) == ((0, 8), (20, 16), (30, 24), (40, 8))
    unread = plan(run("a", "d0", 0), run("b", "d0", 10), send("v", "d0", "h", 10))
    assert broken(kept_chain(), unread) == ["supply"]  # nobody reads it there


def test_the_critical_chain_goes_over_the_host():
    slow = plan(*AWAY.runs[:2], *AWAY.transfers[:1], send("v", "h", "d0", 40), run("c", "d0", 50))
    names = [(link.name, link.resources) for link in critical_chain(chain(), slow)]
    assert names[-2:] == [("v", ("h->d0",)), ("c", ("d0",))]


def test_memory_of_a_host_counts():
    assert broken(chain(host=8), AWAY) == []
    assert broken(chain(host=7), AWAY) == ["memory"]


def test_no_reader_waits_for_the_newest_copy():
    """One that is not complete when the reader starts is none for it, and then for nobody."""
    late = plan(run("a", "d0", 0), run("b", "d0", 10), run("c", "d0", 20), run("a", "d0", 30))
    assert "run 2 of 'a', at 30 ns on d0, is needless" in messages(chain(), late)
    back = plan(*AWAY.runs[:2], *AWAY.transfers[:1], send("v", "h", "d0", 21), run("c", "d0", 30))
    assert "from h to d0 is needless: nothing reads" in messages(chain(), back)


def test_operators_never_run_on_hosts():
    alone = problem("a", [], hosted())
    assert broken(alone, plan(run("a", "d0", 0))) == []
    (violation,) = verify(alone, plan(run("a", "h", 0))).violations
    assert violation.rule == "assignment"
    assert "cannot run on 'h' of class 'store'" in violation.message


def test_colocated_operators_run_on_one_site_each_time():
    p = problem(
        [op("a", recomputable=True, group="g"), op("b", group="g"), op("c")],
        [value("v", "a", "b c")],
        hosted("d0 d1"),
    )
    elsewhere = plan(run("a", "d0", 0), run("b", "d0", 10), run("a", "d1", 0), run("c", "d1", 10))
    assert broken(p, elsewhere) == ["colocation"]


def test_a_run_elsewhere_takes_the_place_of_a_transfer():
    p = problem(
        [op("a", recomputable=True), op("b"), op("c")],
        [value("v", "a", "b c")],
        hosted("d0 d1"),
    )
    twice = plan(run("a", "d0", 0), run("b", "d0", 10), run("a", "d1", 0), run("c", "d1", 10))
    assert broken(p, twice) == []
    assert verify(p, twice).value == 20


@pytest.mark.parametrize("model", CommunicationModel)
def test_the_way_back_holds_its_channel(model):
    where = replace(hosted("d0 d1"), communication=model)
    p = problem([op("a"), op("b"), op("c")], [value("v", "a", "b"), value("w", "a", "b c")], where)
    away = plan(
        run("a", "d0", 0),
        send("v", "d0", "h", 10),
        send("w", "d0", "h", 20),
        send("v", "h", "d1", 30),
        send("w", "h", "d1", 39),
        run("b", "d1", 49),
        run("c", "d0", 10),
    )
    found = {"channel": ["exclusion"], "endpoint": ["exclusion"] * 2, "delay": []}[model]
    assert broken(p, away) == found


def test_without_memory_saving_is_the_same_problem():
    p = chain()
    plain = p.without_memory_saving
    assert not plain.allows_memory_saving
    assert plain.cluster.device_names == ("d0",)
    assert plain.without_memory_saving is plain
    assert broken(plain, KEPT) == []
    assert broken(plain, AGAIN) == ["assignment"]


def _law(case, device, instant):
    """Bytes on a device at one instant, word for word as the law has it."""
    graph, tasks = case.problem.graph, (*case.plan.runs, *case.plan.transfers)
    total = sum(
        tensor.bytes[FULL]
        for tensor in graph.values
        if tensor.persistent
        and any(r.operator in tensor.consumers and device in r.devices for r in case.plan.runs)
    )
    for entry in case.plan.runs:
        if device in entry.devices and entry.start_ticks <= instant < entry.stop_ticks:
            total += graph.operator(entry.operator).options[0].workspace_bytes
    for tensor in graph.values:
        if tensor.persistent:
            continue
        makers = [
            task
            for task in tasks
            if (getattr(task, "operator", None) == tensor.producer and device in task.devices)
            or (getattr(task, "value", None) == tensor.name and device in task.target)
        ]
        readers = [
            task
            for task in tasks
            if (getattr(task, "operator", None) in tensor.consumers and device in task.devices)
            or (getattr(task, "value", None) == tensor.name and device in task.source)
        ]
        held = {id(maker): maker.stop_ticks for maker in makers}
        for reader in readers:
            sends = hasattr(reader, "value") and device != HOST
            mine = [m for m in makers if m.stop_ticks <= reader.start_ticks]
            mine = [m for m in mine if not sends or hasattr(m, "operator")]
            newest = max(mine, key=lambda m: (m.stop_ticks, m.start_ticks, -tasks.index(m)))
            held[id(newest)] = max(held[id(newest)], reader.stop_ticks)
        runs = [task for task in tasks if getattr(task, "operator", None) == tensor.producer]
        last = max(runs, key=lambda m: (m.stop_ticks, m.start_ticks, -tasks.index(m)))
        if tensor.kept and last in makers:
            held[id(last)] = inf
        total += tensor.bytes[FULL] * sum(m.start_ticks <= instant < held[id(m)] for m in makers)
    return total


@pytest.mark.parametrize("seed", range(60))
def test_replay_is_the_law_at_every_event(seed):
    case = planted_memory_saving(seed)
    tasks = (*case.plan.runs, *case.plan.transfers)
    instants = sorted({time for task in tasks for time in (task.start_ticks, task.stop_ticks)})
    for device, memory in replay(case.problem, case.plan).devices.items():
        found = [max(s for s in memory.steps if s[0] <= instant)[1] for instant in instants]
        assert found == [_law(case, device, instant) for instant in instants]


def _traced(a_problem, a_plan):
    """Verdict and memory where every value is read as one that is made again."""
    with mock.patch.object(Reading, "_has_trail", return_value=True):
        verdict = verify(a_problem, a_plan)
        return verdict, replay(a_problem, a_plan).devices


def _timed(seeds):
    cases = [planted(seed) for seed in seeds]
    return [c for c in cases if c.problem.memory_law is MemoryLaw.INSTANT and c.plan.has_schedule]


@pytest.mark.parametrize("case", _timed(range(80)), ids=lambda case: case.problem.name)
def test_one_law(case):
    """What is said of values that one run makes is what the general words say of them."""
    verdict, devices = _traced(case.problem, case.plan)
    assert verdict == verify(case.problem, case.plan)
    assert devices == replay(case.problem, case.plan).devices


@pytest.mark.parametrize("name", [name for name, (rule, _) in DAMAGES.items() if rule == "supply"])
def test_one_law_for_broken_plans(name):
    done = 0
    for number, case in enumerate(_timed(range(40))):
        damaged = DAMAGES[name][1](case.problem, case.plan, random.Random(number))
        if damaged is not None and damaged.plan.has_schedule:
            found: tuple[Violation, ...] = _traced(damaged.problem, damaged.plan)[0].violations
            assert "supply" in {violation.rule for violation in found}
            done += 1
    assert done >= 5 or name in {"persistent_value_sent", "transfer_without_times"}
