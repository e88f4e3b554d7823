"""What answers say they are about: options that would offer more, narrower runs, words of files."""

from __future__ import annotations

from dataclasses import replace

from milp_plan.core import Objective
from milp_plan.run import Settings, kind_of, solve
from milp_plan.run.scope import NotOffered, Scope, scope_of
from tests.report.plans import two_devices

from .cases import instance, quick, trap, weaken

FLAT = instance("gpt-tiny-training-2xA100")


def test_a_scope_is_one_line():
    scope = Scope(
        ("placement", "sharding", "order"), ("the cut",), (NotOffered("host", "--host X"),)
    )
    assert str(scope) == "placement, sharding and order; fixed: the cut; no host (--host X) offered"
    assert str(Scope(())) == "nothing to decide"
    assert str(Scope(("cuts",)).adding(["cuts", "order"], ["stages"])) == (
        "cuts and order; fixed: stages"
    )
    assert str(scope.with_options({"host": "--lane TIME"})).endswith(
        "no host (--lane TIME) offered"
    )


def test_options_are_named_until_they_are_taken():
    text = str(scope_of(FLAT))
    assert "no recomputation (--recompute), no host (--host SIZE@RATE)" in text
    again = str(scope_of(FLAT.with_recomputation()))
    assert "no recomputation" not in again
    assert "recomputation" in again
    hosted = str(scope_of(FLAT.with_host(2**40, 10**10)))
    assert "no host" not in hosted
    assert "a host" in hosted


def test_no_option_is_named_that_would_be_refused():
    """Under the static law nothing runs again: the option would end in an error."""
    static = replace(FLAT, memory_law="static", objective=Objective.BOTTLENECK)
    assert "--recompute" not in str(scope_of(static))
    assert "--host" not in str(scope_of(static))


def test_no_plan_exists_is_reported_with_what_was_not_offered():
    problem = two_devices().with_memory_scale(1, 4)
    outcome = solve(problem, Settings(time_limit_s=20.0))
    assert outcome.infeasible_reason is not None
    assert "no recomputation (--recompute)" in str(outcome.scope)
    assert outcome.record["scope"] in " ".join(str(outcome).split())


def test_what_has_no_choice_is_fixed():
    reasons, problem = kind_of(FLAT).reasons(), FLAT
    parts = reasons.parts(FLAT)
    for place, part in enumerate(parts, 1):
        problem = reasons.pinned(problem, part, "A100.0")
        decided = scope_of(problem).decided
        if place < len(parts):
            left = f"placement of {len(parts) - place} of {len(parts)} operators"
            assert left in decided
    assert "placement" in scope_of(problem).fixed
    assert not any("placement" in word for word in decided)


def test_files_say_what_was_decided_before():
    words = {"fixed": "the cut 3 | 1; weights tied", "decided": "micro-batches"}
    reported = replace(FLAT, provenance={**FLAT.provenance, **words})
    scope = scope_of(reported)
    assert {"the cut 3 | 1", "weights tied"} <= set(scope.fixed)
    assert "micro-batches" in scope.decided
    assert reported.fingerprint == FLAT.fingerprint


def test_a_run_of_a_formulation_alone_says_so():
    problem = trap("gang-beats-single").problem
    outcome = quick(problem, formulation="operator_schedule", only=True)
    assert "operator_schedule" in str(outcome.scope)
    assert "operator_schedule" not in str(quick(problem).scope)


def test_a_coarsened_run_says_so(monkeypatch):
    weaken(monkeypatch)
    outcome = quick(instance("two-tower-tiny-inference-2xH100"), target=3, node_limit=1, rounds=0)
    assert outcome.record["coarsening_exact"] is False
    assert "coarse operators" in str(outcome.scope)
