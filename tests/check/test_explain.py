import re
from dataclasses import replace

from milp_plan.check import verify
from milp_plan.check.chain import critical_chain
from milp_plan.check.explain import explain
from milp_plan.core import MemoryLaw, Objective, Units
from tests.support.memory_saving import planted_memory_saving

from .cases import cluster, op, plan, problem, run, send, value

P = problem(
    [op("a"), op("b", 15), op("c", 4)],
    [value("v", "a", "b", 8), value("u", "b", "c", 20)],
    cluster(memory=28),
)
PLAN = plan(
    run("a", "d0", 0),
    send("v", "d0", "d1", 10),
    run("b", "d1", 20, 35),
    send("u", "d1", "d0", 35, 57),
    run("c", "d0", 60, 64),  # it could start at 57
)


def test_a_valid_plan_in_words():
    assert explain(P, PLAN).splitlines() == [
        "valid: makespan 64 ns",
        "devices",
        "  d0: busy 14 ns (21 %), peak memory 20 B (limit 28 B) at 35 ns",
        "  d1: busy 15 ns (23 %), peak memory 28 B (limit 28 B) at 20 ns",
        "busiest channels or ports",
        "  d1->d0: busy 22 ns (34 %)",
        "  d0->d1: busy 10 ns (15 %)",
        "critical chain: 5 tasks",
        "  time on it: d1->d0 22 ns (34 %), d1 15 ns (23 %), d0 14 ns (21 %), "
        "d0->d1 10 ns (15 %), waiting 3 ns (4 %)",
        "  0 ns to 10 ns: a on d0",
        "  10 ns to 20 ns: v on d0->d1, needs the output of a",
        "  20 ns to 35 ns: b on d1, needs the output of v",
        "  35 ns to 57 ns: u on d1->d0, needs the output of b",
        "  60 ns to 64 ns: c on d0, after a wait of 3 ns",
    ]


def test_what_the_chain_waits_for():
    """c needs room that v takes until it has left; then a device that is busy, then a value."""
    tight = problem(
        [op("a"), op("b"), op("c"), op("d"), op("e")],
        [value("v", "a", "b", 20), value("w", "c", "e", 20)],
        cluster(memory=28),
    )
    made = plan(
        run("a", "d0", 0),
        send("v", "d0", "d1", 10, 32),
        run("b", "d1", 32),
        run("c", "d0", 32),
        run("d", "d0", 42),
        run("e", "d0", 52),
    )
    assert verify(tight, made).ok
    links = critical_chain(tight, made)
    reported = [(link.name, link.cause, link.behind, link.waited_ticks) for link in links]
    assert reported == [
        ("a", "start", "", 0),
        ("c", "memory", "a", 22),
        ("d", "device", "c", 0),
        ("e", "device", "d", 0),
    ]
    roomy = replace(tight, cluster=cluster(memory=100))
    assert [link.cause for link in critical_chain(roomy, made)][1] == "unknown"


def test_a_broken_plan_in_words():
    bad = plan(run("a", "d0", 0), run("b", "d0", 9, 24), run("c", "d0", 24, 29))
    lines = explain(P, bad).splitlines()
    assert lines[0] == "not valid: 3 violations of assignment, exclusion, supply"
    assert "assignment (1)" in lines
    assert "  operator 'c' has the wrong duration on d0" in lines
    assert "    needed 4 ns, available 5 ns, off by 1 ns" in lines
    missing = explain(P, plan(run("a", "d0", 0), run("b", "d0", 10, 25)))
    assert missing.splitlines()[0] == "not valid: 1 violation of assignment"


def test_amounts_are_in_the_units_of_the_source():
    ms = Units("ms", "bytes", 10**20)
    p = problem([op("a", 189_142 * 10**17)], units=ms, where=cluster(memory=2**31))
    text = explain(p, plan(run("a", "d0", 0, 189_142 * 10**17)))
    assert "valid: makespan 189.142 ms" in text
    assert "limit 2 GiB" in text
    late = explain(p, plan(run("a", "d0", 0, 189_142 * 10**17 + 10**19)))
    assert "needed 189.142 ms, available 189.242 ms, off by 0.1 ms" in late
    assert not re.search(r"\d{7}", text + late)


def test_a_verdict_at_hand_is_used():
    assert explain(P, PLAN, verify(P, PLAN)) == explain(P, PLAN)
    other = verify(P, plan())
    assert explain(P, PLAN, other).startswith("not valid: 3 violations of assignment")


def test_a_violation_without_amounts():
    text = explain(P, plan(*PLAN.runs, *PLAN.transfers, fingerprint="x"))
    assert "its contents have changed" in text
    assert "needed" not in text


def test_the_chain_goes_through_the_task_that_held_the_device():
    """b waits for a though nothing flows between them."""
    p = problem("a b c")
    links = critical_chain(p, plan(run("a", "d0", 0), run("b", "d0", 10), run("c", "d1", 0)))
    assert [(link.name, link.waited_ticks) for link in links] == [("a", 0), ("b", 0)]


def test_the_chain_passes_tasks_of_no_length_once():
    p = problem([op("a", 0), op("b", 0), op("c")])
    links = critical_chain(p, plan(run("a", "d0", 0, 0), run("b", "d0", 0, 0), run("c", "d0", 0)))
    assert sorted(link.name for link in links) == ["a", "b", "c"]


def test_a_transfer_in_flight_holds_nothing():
    p = problem("a b", [value("v", "a", "b")], cluster(model="delay"))
    moved = plan(run("a", "d0", 0), send("v", "d0", "d1", 10), run("b", "d1", 20))
    text = explain(p, moved)
    assert "  10 ns to 20 ns: v in flight" in text
    assert "time on it: d0 10 ns (33 %), in flight 10 ns (33 %), d1 10 ns (33 %)" in text
    assert "channels" not in text


def test_a_plan_without_schedule_has_no_chain():
    p = problem(
        "a b",
        [value("v", "a", "b")],
        objective=Objective.BOTTLENECK,
        memory_law=MemoryLaw.STATIC,
    )
    text = explain(p, plan(run("a", "d0"), send("v", "d0", "d1"), run("b", "d1")))
    assert text.splitlines() == [
        "valid: bottleneck 10 ns",
        "devices",
        "  d0: busy 10 ns, peak memory 8 B (no limit) at 0 ns",
        "  d1: busy 10 ns, peak memory 8 B (no limit) at 0 ns",
        "busiest channels or ports",
        "  d0->d1: busy 10 ns",
    ]


def test_a_chain_of_a_broken_plan_skips_what_has_no_times():
    assert critical_chain(P, plan(run("a", "d0"), run("b", "d0", 10, 25))) != ()
    partly = plan(run("a", "d0", 0), send("v", "d0", "d1"), run("b", "d1"), run("c", "d0"))
    assert [link.name for link in critical_chain(P, partly)] == ["a"]
    assert critical_chain(P, plan()) == ()


def test_long_chains_show_their_end():
    names = [f"op{i}" for i in range(30)]
    p = problem(" ".join(names))
    text = explain(p, plan(*(run(name, "d0", 10 * i) for i, name in enumerate(names))))
    assert "critical chain: 30 tasks, the last 20" in text
    assert "290 ns to 300 ns: op29 on d0" in text
    assert "90 ns to 100 ns: op9 on d0" not in text


def test_runs_again_and_hosts_are_reported():
    case = next(
        case
        for case in map(planted_memory_saving, range(50))
        if len(case.plan.runs) == len(case.problem.graph.operators) + 1
        and any(trip.source == ("host",) for trip in case.plan.transfers)
    )
    text = explain(case.problem, case.plan)
    assert "\nruns again: 1, " in text
    assert "\non hosts: " in text
