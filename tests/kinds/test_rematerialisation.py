"""Rematerialisation: law, files, bounds, planners and the way, against trying everything."""

import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from click.testing import CliRunner

import milp_plan as mp
from milp_plan.cli.main import main
from milp_plan.core import InputError, UnsupportedProblemError, UnusedOptionError
from milp_plan.draw.canvas import write_figure
from milp_plan.io.files import read_document
from milp_plan.kinds.rematerialisation.bounds import rematerialisation_obstacle
from milp_plan.kinds.rematerialisation.check import copies, usage, verify_rematerialisation
from milp_plan.kinds.rematerialisation.format import plan_to_csv, plan_to_json, to_json
from milp_plan.kinds.rematerialisation.kind import Share, budget
from milp_plan.kinds.rematerialisation.planners import Annealing, greedy, keys_of, once, plan_of
from milp_plan.kinds.rematerialisation.problem import (
    MAX_TOTAL,
    Computation,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.run.change import host as host_of
from milp_plan.run.kinds import kind_of, read
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from tests.support.public import PUBLIC, needs_public
from tests.support.rematerialisation import diamond, drawn, least

HOME = PUBLIC / "rematerialisation"
KNOWN = needs_public("rematerialisation")
SEEDS = range(60)


def plan(problem, *runs, **claims):
    return RematerialisationPlan(problem.name, runs, **claims)


def command(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout


# -- law -------------------------------------------------------------------------------------------


def test_value_by_hand():
    problem = diamond(24)
    assert problem.held == (10, 14, 26, 24, 12)
    assert (problem.peak, max(problem.floors), problem.total_cost) == (26, 16, 18)
    runs = ("wide", "b", "c", "d", "wide", "end")
    verdict = verify_rematerialisation(problem, plan(problem, *runs))
    assert (verdict.ok, verdict.objective, verdict.value) == (True, "added_time", 5)
    assert verdict.components == {"peak_memory": 16, "added_runs": 1, "total_time": 23}
    assert usage(problem, plan(problem, *runs)) == [10, 14, 16, 14, 12, 12]
    assert [(copy.made, copy.last) for copy in copies(problem, plan(problem, *runs))] == [
        *((0, 1), (1, 2), (2, 3), (3, 5), (4, 5), (5, 5))
    ]


def test_the_copy_completed_last_is_read():
    problem = diamond(24)
    early = plan(problem, "wide", "b", "wide", "c", "d", "end")
    assert [v.rule for v in verify_rematerialisation(problem, early).violations] == ["memory"]


RUNS = ("wide", "b", "c", "d", "wide", "end")
BROKEN = {
    "identity": RematerialisationPlan("other", RUNS),
    "assignment missing": plan(diamond(), *RUNS[:-1]),
    "assignment unknown": plan(diamond(), *RUNS, "wider"),
    "assignment empty": plan(diamond()),
    "order": plan(diamond(), "wide", "c", "b", "d", "wide", "end"),
    "memory": plan(diamond(), "wide", "b", "c", "d", "end"),
    "claim": plan(diamond(), *RUNS, value=4),
}


@pytest.mark.parametrize("case", BROKEN)
def test_rule_bites_and_nothing_else(case):
    verdict = verify_rematerialisation(diamond(24), BROKEN[case])
    assert {violation.rule for violation in verdict.violations} == {case.split()[0]}
    assert verify_rematerialisation(diamond(24), plan(diamond(), *RUNS)).ok


def test_what_may_not_run_again():
    problem = diamond(24, again=False)
    rules = [v.rule for v in verify_rematerialisation(problem, plan(problem, *RUNS)).violations]
    assert rules == ["again"]


def test_memory_is_reported_at_its_worst():
    problem = diamond(13)
    found = verify_rematerialisation(problem, plan(problem, *RUNS)).violations
    assert [(v.rule, v.needed, v.available) for v in found] == [("memory", 16, 13)]


def test_claims_of_another_budget_are_not_compared():
    problem, other = diamond(24), diamond(26)
    marks = {"fingerprint": other.fingerprint, "parent": other.parent, "value": 0}
    theirs = plan(other, "wide", "b", "c", "d", "end", **marks)
    rules = {v.rule for v in verify_rematerialisation(problem, theirs).violations}
    assert rules == {"memory"}
    theirs = plan(other, *RUNS, **marks)
    assert verify_rematerialisation(problem, theirs).ok


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_in_memory_is_read_later(seed):
    problem, rng = drawn(seed), random.Random(seed)
    names = [entry.name for entry in problem.computations]
    runs = []
    for place, name in enumerate(names):
        runs += [rng.choice(names[:place]) for _ in range(rng.randint(0, 2)) if place]
        runs.append(name)
    held = usage(problem, plan(problem, *runs))
    by_name = {entry.name: entry for entry in problem.computations}
    expected = [0] * len(runs)
    for made, name in enumerate(runs):
        following = [k for k in range(made + 1, len(runs)) if runs[k] == name]
        end = following[0] if following else len(runs) - 1
        readers = [k for k in range(made + 1, end + 1) if name in by_name[runs[k]].inputs]
        for now in range(made, max([made, *readers]) + 1):
            expected[now] += by_name[name].size
    assert held == expected


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "diamond.json"
    path.write_bytes(to_json(diamond(24)))
    return path


def test_written_and_read_again(example, tmp_path):
    kind, problem = read(example)
    assert (kind.name, problem) == ("rematerialisation", diamond(24))
    assert kind_of(problem) is kind
    assert problem.fingerprint == diamond(24).fingerprint != diamond(25).fingerprint
    theirs = plan(problem, *RUNS, value=5, planner="me")
    for number, text in enumerate((plan_to_json(theirs), plan_to_csv(theirs))):
        path = tmp_path / f"plan{number}"
        path.write_bytes(text)
        assert kind.is_plan(read_document(path))
        again = kind.read_plan(path, problem, example)
        assert again.runs == RUNS
    assert not kind.is_plan(read_document(example))
    assert kind.read_plan(tmp_path / "plan0", problem, example) == theirs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.9", Share(Fraction(9, 10), True)),
        ("4/5", Share(Fraction(4, 5), True)),
        ("1", Share(Fraction(1), True)),
        ("24", Share(Fraction(24), False)),
        ("11GiB", Share(Fraction(11 * 2**30), False)),
        ("1B", Share(Fraction(1), False)),
    ],
)
def test_budget_text(text, expected):
    assert budget(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "much", "1XB"])
def test_no_budget(text):
    with pytest.raises(ValueError, match="part of the peak such as 0"):
        budget(text)


def test_budget_is_a_part_of_the_peak(example):
    for asked, expected in (
        (0.9, 24),
        ("1/2", 13),
        (Share(Fraction(47, 2), False), 23),
        (None, 24),
    ):
        changes = {} if asked is None else {"memory_budget": asked}
        assert read(example, changes)[1].budget == expected == math.floor(expected)
    with pytest.raises(InputError, match="memory_budget"):
        read(example, {"memory_budget": "much"})


def test_all_defects_at_once():
    rows = (
        Computation("a", -1, 1),
        Computation("a", 1, -1, ("b", "c", "c")),
        Computation("b", MAX_TOTAL, 0, ("b",)),
    )
    with pytest.raises(InputError) as caught:
        RematerialisationProblem("bad", rows, -1)
    places = [finding.where for finding in caught.value.findings]
    assert sorted(places) == [
        "budget",
        "operator 'a'",
        "operator 'a', bytes",
        "operator 'a', cost",
        "operator 'a', inputs",
        "operator 'a', inputs",
        "operator 'a', inputs",
        "operator 'b', inputs",
    ]
    with pytest.raises(InputError, match="at least one"):
        RematerialisationProblem("none", ())


def graph(nodes, links, **facts):
    return {"directed": True, "multigraph": False, "graph": facts, "nodes": nodes, "links": links}


def trained(
    tmp_path, nodes=((0, 1, 5), (1, 2.5, 6), (2, 0, 7)), links=((0, 1), (1, 2), (0, 2)), **facts
):
    rows = [{"id": i, "name": f"n{i}", "cost_cpu": c, "cost_ram": b} for i, c, b in nodes]
    pairs = [{"source": s, "target": t} for s, t in links]
    path = tmp_path / "net_train.json"
    path.write_text(json.dumps(graph(rows, pairs, **facts)))
    return path


def test_training_graph(tmp_path):
    kind, problem = read(trained(tmp_path, name="a net"))
    assert (kind.name, problem.name, problem.budget) == ("rematerialisation", "net_train", None)
    assert [(c.name, c.cost, c.size) for c in problem.computations] == [
        *(("n0", 2, 5), ("n1", 5, 6), ("n2", 0, 7))
    ]
    assert problem.units.time_scale == 2  # 2.5 is five halves
    assert problem.inputs == ((), (0,), (0, 1))
    assert problem.provenance["graph"] == "a net"
    same = [(0, 1, 5), (1, 2, 6)]
    path = trained(tmp_path, same, [(0, 1)])
    path.write_text(path.read_text().replace('"n1"', '"n0"'))
    assert [c.name for c in read(path)[1].computations] == ["n0#0", "n0#1"]


def test_orders(tmp_path):
    turned = [(2, 1, 1), (1, 1, 1), (0, 1, 1)]
    assert [c.name for c in read(trained(tmp_path, turned))[1].computations] == ["n0", "n1", "n2"]
    path = trained(tmp_path, links=[(0, 2)], order=[1, 0, 2])
    assert [c.name for c in read(path)[1].computations] == ["n1", "n0", "n2"]


def test_layered_graph(tmp_path):
    nodes = [{"name": i, "duration": i, "out_cost": 10 * i, "param_cost": 0} for i in range(3)]
    links = [{"0": 0, "1": 2}, {"0": 2, "1": 1}]
    path = tmp_path / "random_n3.json"
    path.write_text(json.dumps(graph(nodes, links, order=[0, 2, 1])))
    problem = read(path)[1]
    assert [(c.name, c.cost, c.size, c.inputs) for c in problem.computations] == [
        *(("0", 0, 0, ()), ("2", 2, 20, ("0",)), ("1", 1, 10, ("2",)))
    ]


@pytest.mark.parametrize(
    ("nodes", "links", "order", "where"),
    [
        (((0, 1, 1), (0, 1, 1)), (), None, "node 0"),
        (((0, 1, 1.5),), (), None, "nodes[0].cost_ram"),
        (((0, -1, 1),), (), None, "nodes[0].cost_cpu"),
        (((0, 1, 1),), ((0, 5),), None, "links[0].target"),
        (((0, 1, 1),), ((0, 0),), None, "links[0]"),
        (((0, 1, 1), (1, 1, 1)), ((0, 1), (0, 1)), None, "link 0 to 1"),
        (((0, 1, 1), (1, 1, 1)), ((0, 1), (1, 0)), None, "links"),
        (((0, 1, 1), (1, 1, 1)), ((0, 1),), [0], "graph.order"),
        (((0, 1, 1), (1, 1, 1)), ((0, 1),), [1, 0], "node 'n1', links"),
    ],
)
def test_defect_of_a_graph(tmp_path, nodes, links, order, where):
    facts = {} if order is None else {"order": order}
    path = trained(tmp_path, nodes, links, **facts)
    with pytest.raises(InputError) as caught:
        read(path)
    found = caught.value.findings
    assert {(finding.where, finding.file) for finding in found} == {(where, str(path))}


def test_defects_of_native_files(example):
    example.write_text(example.read_text().replace('"cost_ticks": 5', '"cost_ticks": -5'))
    with pytest.raises(InputError, match=r"operators\[0\]\.cost_ticks"):
        read(example)


def test_defects_of_plans(example, tmp_path):
    kind, problem = read(example)
    path = tmp_path / "plan"
    for text, where in (
        ("run\na,b\n", "line 2"),
        ('{"format": "milp-plan-rematerialisation-plan", "version": 1}', "problem"),
        (plan_to_json(replace(plan(problem, *RUNS), problem="other")).decode(), "problem"),
    ):
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            kind.read_plan(path, problem, example)
        assert caught.value.findings[0].where == where


# -- bounds and planners ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_obstacle_optimum_greedy(seed):
    problem = drawn(seed, once=0.2)
    optimum = least(problem)
    if rematerialisation_obstacle(problem) is not None:
        assert optimum is None
        return
    found = greedy(problem)
    if found is not None:
        verdict = verify_rematerialisation(problem, found)
        assert verdict.ok
        assert optimum is not None
        assert verdict.value >= optimum
    if not any(entry.again for entry in problem.computations):
        assert optimum == (0 if problem.peak <= problem.budget else None)


def test_obstacle_names_the_operator():
    assert rematerialisation_obstacle(diamond(15)) == (
        "operator 'c' holds 16 bytes with its output and its inputs, the budget is 15"
    )
    rows = tuple(replace(entry, again=False) for entry in diamond().computations)
    assert "26 bytes are allocated while 'c' runs" in rematerialisation_obstacle(
        RematerialisationProblem("once", rows, 24)
    )
    assert rematerialisation_obstacle(diamond(16)) is None
    assert rematerialisation_obstacle(diamond()) is None


@pytest.mark.parametrize("seed", range(60))
def test_annealing_finds_the_optimum(seed):
    problem = drawn(seed, once=0.1)
    optimum = least(problem)
    search = Annealing(problem, once(problem), seed)
    looks = iter([True] * 3)
    values = []
    search.cool(lambda: next(looks, False), lambda: values.append(search.value), 6_000)
    assert values == sorted(values, reverse=True)
    if search.value is None:
        assert optimum is None or problem.budget < problem.peak
        return
    verdict = verify_rematerialisation(problem, plan_of(problem, search.best, "annealing"))
    assert verdict.ok
    assert verdict.value == search.value >= optimum


def test_annealing_is_mostly_right_and_goes_on_from_what_it_is_given():
    right = 0
    for seed in range(60):
        problem = drawn(seed)
        optimum = least(problem)
        if not optimum:
            continue
        search = Annealing(problem, once(problem), seed)
        looks = iter([True] * 3)
        search.cool(lambda: next(looks, False), lambda: None, 6_000)  # noqa: B023
        right += search.value == optimum
    assert right >= 10
    problem = diamond(24)
    keys = keys_of(problem, plan(problem, "wide", "b", "c", "b", "d", "wide", "end"))
    search = Annealing(problem, once(problem))
    assert search.value is None
    search.adopt(keys)
    assert search.value == 8
    search.cool(iter((True, False)).__next__, lambda: None)
    assert search.value == 5


# -- run -------------------------------------------------------------------------------------------


def test_a_budget_that_is_never_reached():
    for budget_bytes in (None, 26):
        outcome = solve(diamond(budget_bytes), Settings(time_limit_s=60))
        assert (outcome.value, outcome.proved, outcome.plan.runs) == (
            0,
            True,
            ("wide", "b", "c", "d", "end"),
        )


def test_every_verb_knows_it(example, tmp_path):
    answers, drawing = tmp_path / "plan.json", tmp_path / "plan.png"
    quiet = ("--record-folder", tmp_path / "records", "--quiet")
    code, stated = command("solve", example, "--plan-output", answers, *quiet, "--json")
    reported = json.loads(stated)
    assert (code, reported["value"], reported["about"]["peak_bytes"]) == (0, 5, 26)
    assert reported["added_time_percent"] == pytest.approx(500 / 18)
    code, stated = command("solve", example, "--memory-budget", "0.5", *quiet)
    assert (code, "operator 'c' holds 16 bytes" in stated) == (4, True)
    code, stated = command("explain", example, answers)
    assert (code, "'wide' runs 2 times" in stated) == (0, True)
    code, stated = command("info", example, "--memory-budget", "24B")
    assert (code, "92.31 % of the peak" in stated) == (0, True)
    rows = tmp_path / "runs.csv"
    assert command("export", example, "--plan", answers, "--format", "runs", "-o", rows)[0] == 0
    code, stated = command("check", example, rows, "--json")
    assert (code, json.loads(stated)["value"]) == (0, 5)
    assert command("plot", example, answers, "-o", drawing)[0] == 0
    assert drawing.stat().st_size > 5_000


@pytest.mark.parametrize("name", ["remat_staged", "remat_retention", "remat_backbone"])
def test_a_formulation_that_is_named_is_asked(example, tmp_path, name):
    quiet = ("--record-folder", tmp_path / "records", "--quiet", "--json")
    code, stated = command("solve", example, "--formulation", name, "--only", *quiet)
    reported = json.loads(stated)
    assert (code, reported["value"], reported["planner"], reported["bound"]) == (0, 5, name, None)
    outcome = solve(diamond(24), Settings(time_limit_s=60, formulation=name))
    assert (outcome.value, outcome.proved, outcome.defects) == (5, True, ())
    assert outcome.record["formulation"] is None, "greedy plan and bound meet before it runs"


MINE = """
from formulations.remat_backbone import FORMULATION as THEIRS, RematBackbone, _Builder

class Builder(_Builder):
    def decode(self, values):
        {decode}

class Mine(RematBackbone):
    pass

FORMULATION = Mine(Builder)
"""


@pytest.mark.parametrize(
    ("decode", "value", "words"),
    [
        ("return super().decode(values)", 5, ""),
        ("import os; os._exit(3)", None, "code 3"),
        pytest.param("return super().decode({})", None, "", marks=pytest.mark.slow),
        pytest.param("return 7", None, "returned a int", marks=pytest.mark.slow),
    ],
)
def test_a_formulation_of_another_author_runs_in_a_process_of_its_own(
    tmp_path, decode, value, words
):
    path = tmp_path / "mine.py"
    path.write_text(MINE.format(decode=decode))
    settings = Settings(time_limit_s=60, formulation=str(path), only=True)
    outcome = solve(diamond(24), settings)
    assert outcome.value == value
    assert words in " ".join(outcome.defects)
    assert bool(outcome.disputed) == (not words and value is None)
    with pytest.raises(UnsupportedProblemError, match="it is for a PlanningProblem"):
        solve(diamond(24), Settings(formulation="operator_schedule"))


def test_a_budget_below_the_floor_is_refused_at_every_door(example, tmp_path):
    answers = tmp_path / "plan.json"
    answers.write_bytes(plan_to_json(plan(diamond(), *RUNS)))
    quiet = ("--record-folder", tmp_path / "records", "--quiet")
    for verb in (
        ("solve", example, *quiet),
        ("solve", example, "--formulation", "remat_staged", "--only", *quiet),
        ("bound", example),
    ):
        code, stated = command(*verb, "--memory-budget", "15B")
        assert (code, "operator 'c' holds 16 bytes" in stated) == (4, True), verb
    code, stated = command("check", example, answers, "--memory-budget", "15B")
    assert (code, "'c') holds more than the budget, and so does every plan" in stated) == (7, True)
    assert "below the floor" in command("info", example, "--memory-budget", "15B")[1]
    outcome = mp.solve(diamond(15), time_limit=30, display=False)
    assert outcome.plan is None
    assert "operator 'c' holds 16 bytes" in outcome.infeasible_reason
    assert mp.bound(diamond(15), 30, display=False) is None
    settings = Settings(time_limit_s=30, only=True)
    with pytest.raises(UnusedOptionError, match=r"no formulation is solved unless .* name a form"):
        solve(diamond(24), settings)


def test_a_host_that_is_asked_for(example, tmp_path):
    """A file whose unit is milliseconds: 2 bytes per tick are 2 kB per second."""
    problem = read(example, {})[1]
    text = json.loads(example.read_text())
    for unit, rate, ticks in (("ms", "2kB/s", 10**3), ("unspecified", "2", 1)):
        example.write_text(json.dumps(text | {"time_unit": unit}))
        host = read(example, {"host": host_of(f"100B@{rate}")})[1].host
        assert (host.memory, host.latency) == (100, 0)
        assert host.amount == (2000 if unit == "ms" else 2)
        assert host.ticks == ticks * problem.units.time_scale
        asked = ("--memory-budget", "16B", "--host", f"100B@{rate}")
        code, stated = command(
            "solve", example, *asked, "--record-folder", tmp_path / "records", "--json", "--quiet"
        )
        assert code == 0, stated
        reported = json.loads(stated)
        assert reported["proved"]
        code, stated = command("check", example, reported["plan_file"], *asked)
        assert code == 0, stated
    alone = json.loads(
        command(
            "solve",
            example,
            "--memory-budget",
            "16B",
            "--json",
            "--quiet",
            "--record-folder",
            tmp_path / "records",
        )[1]
    )
    assert reported["value"] <= alone["value"]


def test_picture(tmp_path):
    problem = diamond(24)
    for runs in (RUNS, ("wide", "b", "c", "d", "end")):
        path = write_figure(
            kind_of(problem).draw(problem, plan(problem, *runs)), tmp_path / "a.png"
        )
        assert path.stat().st_size > 5_000
    with pytest.raises(InputError, match="other runs"):
        kind_of(problem).draw(problem, plan(problem, "b"))


def test_the_title_says_what_counts_in_its_unit():
    """Bytes of a peak were called added time."""
    timed = diamond(24)
    least = timed.least_memory()
    for problem, stated in ((timed, "added time"), (least, "peak memory")):
        figure = kind_of(problem).draw(problem, plan(problem, *RUNS))
        value = verify_rematerialisation(problem, plan(problem, *RUNS)).value
        text = kind_of(problem).measure(problem).text(value)
        assert figure.axes[0].get_title(loc="left").startswith(f"{problem.name}: {stated} {text}")
    once = kind_of(timed).draw(timed, plan(timed, "wide", "b", "c", "d", "end"))
    assert once.get_supxlabel() == "No operator runs again."


# -- public graphs ---------------------------------------------------------------------------------


@KNOWN
@pytest.mark.parametrize(
    ("name", "part", "expected"),
    [
        ("random_n1000", "0.9", 547_758),
        ("random_n1000", "0.8", 486_896),
        ("resnet50_train", "0.9", 34_253_420_544),
    ],
)
def test_published_budgets(name, part, expected):
    assert read(HOME / f"{name}.json", {"memory_budget": part})[1].budget == expected


@KNOWN
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "part", "percent"),
    [
        ("vgg16_train", "0.9", 1.968),
        ("vgg19_train", "0.9", 0.104),
        ("vgg19_train", "0.8", 2.756),
        ("fcn8_train", "0.9", 0.029),
        ("fcn8_train", "0.8", 0.136),
        ("fcn8_train", "0.7", 0.892),
        ("fcn8_train", "0.63", 1.617),
        ("unet_train", "0.9", 1.129),
        ("unet_train", "0.8", 1.984),
        ("unet_train", "0.6", 4.451),
        ("random_n100", "0.9", 0.789),
        ("random_n100", "0.8", 2.296),
        ("resnet50_train", "0.9", 0.1085),
    ],
)
def test_reference_optima_are_proved(name, part, percent):
    problem = read(HOME / f"{name}.json", {"memory_budget": part})[1]
    outcome = solve(problem, Settings(time_limit_s=600))
    assert outcome.proved
    assert not outcome.defects
    found = outcome.record["added_time_percent"]
    assert found == pytest.approx(percent, abs=0.0006)
