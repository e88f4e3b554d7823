"""Results that wait on a host, and energy: law, files, bound and way, against trying everything."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from milp_plan.backends import Stop
from milp_plan.cli.main import main
from milp_plan.core import InputError
from milp_plan.io.files import read_document
from milp_plan.kinds.rematerialisation.bounds import absent_bound, rematerialisation_obstacle
from milp_plan.kinds.rematerialisation.check import usage, verify_rematerialisation
from milp_plan.kinds.rematerialisation.format import plan_to_json, to_json
from milp_plan.kinds.rematerialisation.format import read as read_native
from milp_plan.kinds.rematerialisation.planners import enumeration
from milp_plan.kinds.rematerialisation.problem import (
    Computation,
    Host,
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.run.kinds import kind_of, read
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from tests.support.rematerialisation import diamond, drawn, least, least_paged, powered
from tests.support.seeds import few

RUNS = ("wide", "b", "c", "d", "wide", "end")
ENERGY = RematerialisationObjective.ADDED_ENERGY


def paged(budget=24, memory=None):
    """The diamond with a host: 10 bytes go over in 1 + 1 ticks, a way of ``wide``."""
    return replace(diamond(budget), host=Host(memory, 1, 10, 1, power=3))


def plan(*runs, reloads=(4,), **claims):
    return RematerialisationPlan("diamond", runs or RUNS, reloads=reloads, **claims)


def test_value_by_hand():
    verdict = verify_rematerialisation(paged(), plan())
    assert (verdict.ok, verdict.value) == (True, 4)  # there and back
    assert verdict.components == {
        **{"peak_memory": 16, "added_runs": 1, "total_time": 22},
        **{"host_memory": 10, "energy": 12},
    }
    assert verify_rematerialisation(paged(), plan(reloads=())).value == 5
    twice = plan("wide", "b", "c", "wide", "d", "wide", "end", reloads=(3, 5))
    assert verify_rematerialisation(paged(30), twice).value == 6  # written once, read twice
    energy = replace(paged(), objective=ENERGY)
    assert verify_rematerialisation(energy, plan()).value == 12


def test_a_reload_reads_nothing_on_the_device():
    runs = ("wide", "b", "c", "b", "d", "end")
    freed = usage(paged(), RematerialisationPlan("diamond", runs, reloads=(3,)))
    kept = usage(paged(), RematerialisationPlan("diamond", runs))
    assert freed == kept == [10, 14, 26, 26, 24, 12]  # "end" reads wide: it waits anyway
    chain = replace(
        paged(),
        computations=(
            *paged().computations[:4],
            replace(diamond().computations[4], inputs=("b", "d")),
        ),
    )
    runs = ("wide", "b", "c", "d", "b", "end")
    assert usage(chain, RematerialisationPlan("diamond", runs)) == [10, 14, 26, 24, 16, 6]
    assert usage(chain, RematerialisationPlan("diamond", runs, reloads=(4,)))[2:4] == [16, 14]


BROKEN = {
    "reload without a host": (diamond(24), plan()),
    "reload of no run": (paged(), plan(reloads=(9,))),
    "reload of what has not run": (paged(), plan(reloads=(0,))),
    "host": (paged(memory=9), plan()),
    "time": (replace(paged(), objective=ENERGY, added_limit=3), plan()),
    "claim": (paged(), plan(value=5)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_rule_bites_and_nothing_else(case):
    problem, broken = BROKEN[case]
    found = {violation.rule for violation in verify_rematerialisation(problem, broken).violations}
    assert found == {case.split()[0]}


def test_what_may_not_run_again_may_be_read_back():
    problem = replace(diamond(24, again=False), host=paged().host)
    assert verify_rematerialisation(problem, plan()).ok
    rules = [v.rule for v in verify_rematerialisation(problem, plan(reloads=())).violations]
    assert rules == ["again"]
    assert rematerialisation_obstacle(problem) is None


def test_written_and_read_again(tmp_path):
    path = tmp_path / "diamond.json"
    problem = replace(paged(memory=20), objective=ENERGY, added_limit=7)
    path.write_bytes(to_json(problem))
    assert read_native(read_document(path)) == problem == read(path)[1]
    asked = read(path, {"objective": "added_energy", "added_time": "0.5"})[1]
    assert asked == replace(problem, added_limit=9)
    answer = tmp_path / "plan.json"
    answer.write_bytes(plan_to_json(plan()))
    assert kind_of(problem).read_plan(answer, problem, path) == plan()
    prints = {diamond(24).fingerprint, paged().fingerprint, problem.fingerprint}
    assert len(prints | {paged(memory=20).fingerprint}) == 4
    rows = [str(word) for word in ("export", path, "--plan", answer, "--format", "runs")]
    result = CliRunner().invoke(main, [*rows, "-o", str(tmp_path / "runs.csv")])
    assert "1 reloads" in result.stderr


def test_defects_of_hosts():
    with pytest.raises(InputError, match="host, amount"):
        replace(diamond(), host=Host(-1, 0, 0, 1))
    with pytest.raises(InputError, match="peak_memory with a host"):
        paged().least_memory()


def test_the_way_reads_back_where_that_is_cheaper(tmp_path):
    path = tmp_path / "diamond.json"
    for problem, value in ((paged(), 4), (replace(paged(), objective=ENERGY), 0)):
        path.write_bytes(to_json(problem))
        words = ["solve", path, "--record-folder", tmp_path, "--quiet", "--json"]
        reported = json.loads(CliRunner().invoke(main, [str(word) for word in words]).stdout)
        assert (reported["value"], reported["proved"], reported["verdict"]) == (value, True, "ok")
    best = solve(paged(), Settings(time_limit_s=60))
    assert "read back: 1 times" in kind_of(paged()).explain(paged(), best.plan, best.verdict)


@pytest.mark.parametrize("seed", few(range(150), 30))
def test_bounds_are_below_what_trying_everything_finds(seed):
    problem = drawn(seed, 4, once=0.2)
    if rematerialisation_obstacle(problem) is not None:
        return
    for number, variant in enumerate(
        (problem, powered(problem, seed, energy=False), powered(problem, seed))
    ):
        optimum = least_paged(variant)
        if number == 0:
            assert optimum == least(problem)
        if optimum is not None:
            assert 0 <= absent_bound(variant).value <= optimum


def test_the_bound_is_mostly_worth_something():
    problems = [powered(drawn(seed, 4), seed, energy=False) for seed in range(80)]
    pairs = [(absent_bound(p).value, least_paged(p)) for p in problems]
    there = [(bound, optimum) for bound, optimum in pairs if optimum]
    assert len(there) >= 10
    assert sum(bound > 0 for bound, _ in there) >= 0.7 * len(there)
    assert sum(bound == optimum for bound, optimum in there) >= 3


def crossing(memory, count=8):
    """Return a chain whose first outputs are read at its end, when there is no room for them."""
    rows = [Computation(f"a{n}", n, 3 + n, ()) for n in range(count // 2)]
    rows += [Computation(f"b{n}", 0, 5, (f"a{n}",), False) for n in range(count - count // 2)]
    rows.append(Computation("end", 1, 0, tuple(f"b{n}" for n in range(2)), False))
    budget = max(RematerialisationProblem("crossing", tuple(rows)).floors)
    host = Host(memory, 1, 1, 2)
    return RematerialisationProblem("crossing", tuple(rows), budget, host=host)


@pytest.mark.parametrize("memory", [0, 10, None])
def test_more_operators_are_proved_or_refuted(memory):
    problem = crossing(memory)
    assert len(problem.computations) > 7
    outcome, best = solve(problem, Settings(time_limit_s=60)), least_paged(problem)
    assert (outcome.value, best is None) == (best, outcome.infeasible_reason is not None)
    assert outcome.proved == (best is not None)


def test_it_goes_on_until_the_time_is_over(monkeypatch):
    """What the model cannot prove is searched on, up to the limit."""
    monkeypatch.setattr(enumeration, "LARGEST", 0)
    problem = powered(drawn(5, 7), 5, energy=False)
    outcome = solve(problem, Settings(time_limit_s=2))
    assert outcome.proved or outcome.stop is Stop.TIME_LIMIT
