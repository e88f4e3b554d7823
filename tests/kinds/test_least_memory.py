"""Least peak memory within a limit of added time, against trying everything."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from click.testing import CliRunner

from milp_plan.cli.main import main
from milp_plan.core import InputError
from milp_plan.io.files import read_document
from milp_plan.kinds.rematerialisation.check import verify_rematerialisation
from milp_plan.kinds.rematerialisation.format import read as read_native
from milp_plan.kinds.rematerialisation.format import to_json
from milp_plan.kinds.rematerialisation.planners import enumeration
from milp_plan.kinds.rematerialisation.problem import (
    Computation,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.run.kinds import read
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from tests.support.rematerialisation import ask_scipy, diamond, drawn, least_peak
from tests.support.seeds import few

RUNS = ("wide", "b", "c", "d", "wide", "end")


def aimed(problem, limit):
    return replace(problem.least_memory(), added_limit=limit)


def test_value_and_limit_by_hand():
    runs = RematerialisationPlan("diamond", RUNS)
    verdict = verify_rematerialisation(aimed(diamond(), 5), runs)
    assert (verdict.ok, verdict.objective, verdict.value) == (True, "peak_memory", 16)
    broken = verify_rematerialisation(aimed(diamond(), 4), runs).violations
    assert [(entry.rule, entry.needed, entry.available) for entry in broken] == [("time", 5, 4)]
    claimed = verify_rematerialisation(aimed(diamond(), 5), replace(runs, value=5))
    assert [entry.rule for entry in claimed.violations] == ["claim"]
    both = verify_rematerialisation(replace(aimed(diamond(), 5), budget=15), runs).violations
    assert {entry.rule for entry in both} == {"memory"}


def test_a_limit_belongs_to_the_objective():
    with pytest.raises(InputError, match="limit of added time"):
        replace(diamond(24), added_limit=5)
    with pytest.raises(InputError, match="at least 0"):
        aimed(diamond(24), -1)
    prints = {diamond().fingerprint, aimed(diamond(), None).fingerprint}
    assert len(prints | {aimed(diamond(), 5).fingerprint}) == 3


def test_written_read_and_asked_for(tmp_path):
    path = tmp_path / "diamond.json"
    problem = aimed(diamond(), 5)
    path.write_bytes(to_json(problem))
    assert read_native(read_document(path)) == problem == read(path)[1]
    path.write_bytes(to_json(diamond()))
    changes = {"objective": "peak_memory", "added_time": "0.3"}
    assert read(path, changes)[1] == aimed(diamond(), 5) == diamond().least_memory(Fraction(3, 10))
    for wrong, words in (
        ({"objective": "makespan"}, "one of added_time, peak_memory"),
        ({"added_time": "0.3"}, "leave the limit out"),
    ):
        with pytest.raises(InputError, match=words):
            read(path, wrong)


def test_the_command_line(tmp_path):
    path = tmp_path / "diamond.json"
    path.write_bytes(to_json(diamond()))
    ask = ("--objective", "peak_memory", "--added-time")
    quiet = ("--record-folder", tmp_path / "records", "--quiet", "--json")
    for part, value in (("0", 26), ("0.3", 16)):
        words = [str(word) for word in ("solve", path, *ask, part, *quiet)]
        reported = json.loads(CliRunner().invoke(main, words).stdout)
        assert (reported["value"], reported["bound"], reported["objective"]) == (
            value,
            value,
            "peak_memory",
        )
        assert reported["unit"] == "bytes"


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_least_peak_is_what_trying_everything_finds(seed, monkeypatch):
    monkeypatch.setattr("milp_plan.run.model.backend", lambda _: ask_scipy)
    monkeypatch.setattr(enumeration, "LARGEST", 0)  # budgets are what is tested here
    problem = drawn(seed, once=0.1)
    if seed % 3:
        problem = replace(problem, budget=None)
    limit = (None, 0, problem.total_cost // 10, problem.total_cost // 3)[seed % 4]
    problem = aimed(problem, limit)
    optimum = least_peak(problem)
    outcome = solve(problem, Settings(time_limit_s=4, gap=0.0, threads=1))
    assert not outcome.defects
    assert outcome.value is None or outcome.verdict.ok
    if optimum is None:
        assert outcome.value is None
        return
    assert outcome.bound is None or outcome.bound <= optimum
    assert outcome.value is None or outcome.value >= optimum
    if outcome.proved:
        assert outcome.value == optimum


def test_a_chain_needs_two_of_its_links():
    names = [f"o{i}" for i in range(6)]
    rows = [Computation(n, 1, 10, tuple(names[i - 1 : i])) for i, n in enumerate(names)]
    rows.append(Computation("end", 1, 10, ("o0", "o5")))
    problem = RematerialisationProblem("chain", tuple(rows))
    outcome = solve(aimed(problem, 0), Settings(time_limit_s=60))
    assert (outcome.value, outcome.proved) == (30, True)
