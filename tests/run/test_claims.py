"""What a formulation claims is held against plans: a claim that one refutes is caught by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from milp_plan.backends import Stop
from milp_plan.cli.exits import Exit
from milp_plan.core.bound import Bound
from milp_plan.kinds.packing.problem import Buffer, PackingProblem
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import kind_of
from milp_plan.run.ledger import Ledger
from milp_plan.run.record import write_record
from tests.cli.cases import call, instance_file

from .cases import quick, trap
from .test_dispute import pair

LIAR = """
from dataclasses import replace

from milp_plan.models.registry import get

INNER = get("operator_schedule").formulation


class Liar:
    card = replace(INNER.card, name="liar", exact=True)
    handles = INNER.handles
    Options = INNER.Options

    def restricts(self, options):
        return False

    def unsupported(self, problem, options):
        return None

    def build(self, problem, options, guide):
        return INNER.build(problem, options, type(guide)(cutoff=3))

    def scale(self, problem, options, guide):
        return INNER.scale(problem, options, type(guide)(cutoff=3))

    def encode(self, problem, options, model, plan):
        return None

    def decode(self, problem, options, guide, values):
        raise AssertionError


FORMULATION = Liar()
"""
"""Says that it is exact, and leaves out every plan of more than 3 ticks."""


def liar(folder):
    """Write the formulation; return its path."""
    path = folder / "liar.py"
    path.write_text(LIAR)
    return str(path)


def test_a_false_infeasibility_is_refuted_by_a_cheap_plan(tmp_path):
    """Alone it was believed: exit 4, "no plan exists"."""
    outcome = quick(pair(), formulation=liar(tmp_path), only=True, time_limit_s=120.0)
    assert outcome.infeasible_reason is None
    assert outcome.stop is not Stop.INFEASIBLE
    stated = outcome.disputed_reason
    assert stated.startswith("the formulation's claim is refuted by ")
    cutoff = "liar: its model has no solution up to the cutoff, 10 ns; a checked plan has 10 ns"
    assert cutoff in stated, "a list schedule was its start"
    assert stated in outcome.defects
    assert outcome.plan is None, "it was made for the test alone"
    assert outcome.record["verdict"] == "DISPUTED"


def test_a_false_infeasibility_is_refuted_by_the_start(tmp_path):
    problem = pair()
    start = quick(problem).plan
    path = liar(tmp_path)
    outcome = quick(problem, formulation=path, only=True, start=start, time_limit_s=120.0)
    assert outcome.disputed_reason.startswith("the formulation's claim is refuted by ")
    assert "has no solution up to the cutoff, 10 ns" in outcome.disputed_reason
    assert (outcome.value, outcome.bound, outcome.proved) == (10, None, False)


def test_the_command_line_says_so_once_and_not_that_it_is_proved(tmp_path):
    file = instance_file(tmp_path, pair())
    more = ["--only", "--time-limit", "120", "--record-folder", tmp_path / "runs", "--json"]
    result = call("solve", file, "--formulation", liar(tmp_path), *more)
    assert result.exit_code == Exit.NOT_VALID
    reported = json.loads(result.stdout)
    assert (reported["proved"], reported["infeasible_because"], reported["bound"]) == (
        False,
        None,
        None,
    )
    assert result.stderr.count("the formulation's claim is refuted by") == 1


def ledger_of(problem):
    return Ledger(kind_of(problem), problem, Settings())


def packing():
    problem = PackingProblem("two", (Buffer("a", 0, 2, 3), Buffer("b", 1, 3, 4)))
    outcome = solve(problem, Settings(time_limit_s=20.0))
    assert outcome.value == 7
    return problem, outcome.plan


@pytest.mark.parametrize("first", ["bound", "plan"])
def test_whichever_comes_first_a_bound_above_a_plan_does_not_count(first):
    problem, plan = packing()
    ledger = ledger_of(problem)
    steps = [
        lambda: ledger.prove(Bound("mine", 8, "too much")),
        lambda: ledger.offer(plan, "somebody", "test"),
    ]
    ledger.prove(Bound("right", 6, "less"))
    for step in steps if first == "bound" else steps[::-1]:
        step()
    assert (ledger.value, ledger.lower) == (7, 6)
    assert ledger.disputed == (
        "a proof of ours is refuted by somebody: mine: no plan is below 8 B; a checked plan has 7 B"
    )
    ledger.prove(Bound("mine", 7, "not believed any more"))
    assert ledger.lower == 6
    ledger.prove(Bound("right", 7, "it is"))
    assert ledger.lower == 7
    assert not ledger.proved or ledger.disputed


def test_a_proof_that_there_is_no_plan_falls_with_the_first_plan():
    problem, plan = packing()
    ledger = ledger_of(problem)
    ledger.refute("nothing fits")
    ledger.offer(plan, "somebody", "test")
    assert ledger.infeasible_reason is None
    assert "refuted by somebody: nothing fits; a checked plan has 7 B" in ledger.disputed
    ledger.refute("nothing fits")
    assert ledger.infeasible_reason is None


@pytest.mark.parametrize("only", [False, True])
def test_what_formulations_of_ours_prove_is_not_refuted(only):
    problem = trap("gang-beats-single").problem
    outcome = quick(problem, formulation="operator_schedule", only=only)
    assert outcome.proved
    assert (outcome.disputed_reason, outcome.defects) == ("", ())


def test_a_dispute_about_a_model_is_shown_with_its_file(tmp_path, monkeypatch):
    from milp_plan.run import model

    monkeypatch.setattr(model, "_dispute", lambda *_: "it is not so")
    problem, _ = packing()
    outcome = solve(problem, Settings(time_limit_s=20.0, formulation="packing_order", only=True))
    assert outcome.disputed_reason == "it is not so"
    path = write_record(outcome, tmp_path)
    assert path.with_suffix(".mps").read_text().startswith("NAME")


def test_a_record_names_a_formulation_only_where_it_ran():
    problem, _ = packing()
    asked = Settings(time_limit_s=20.0, formulation="packing_order")
    assert solve(problem, asked).record["formulation"] is None  # the search proves it at once
    alone = solve(problem, replace(asked, only=True))
    assert alone.record["formulation"]["name"] == "packing_order"


@pytest.mark.parametrize("name", ["remat_staged", "pipeline_period"])
def test_a_formulation_alone_that_proves_nothing_says_why(name):
    from tests.support.named import case

    outcome = solve(case(name, 1).problem, Settings(30.0, formulation=name, only=True))
    assert outcome.bound is None
    assert outcome.unproved_reason == f"{name} may leave out plans, so its bounds prove nothing"
