from dataclasses import replace

from milp_plan.check import verify
from milp_plan.core import Objective

from .cases import broken, cluster, messages, plan, problem, run, send, value

P = problem("a b", [value("v", "a", "b")])
GOOD = plan(run("a", "d0", 0), run("b", "d0", 10))


def test_a_plan_for_this_problem():
    assert broken(P, GOOD) == []
    assert broken(P, replace(GOOD, fingerprint=P.fingerprint)) == []


def test_a_plan_for_another_problem():
    assert broken(P, replace(GOOD, problem="q")) == ["identity"]


def test_a_plan_for_an_older_version_of_this_problem():
    assert broken(P, replace(GOOD, fingerprint="ab" * 32)) == ["identity"]
    assert "abababababab" in messages(P, replace(GOOD, fingerprint="ab" * 32))


LIMITED = problem("a b", [value("v", "a", "b")], cluster(memory=80))
SCALED = LIMITED.with_memory_scale(6, 5)


def test_a_plan_of_the_parent_and_of_a_sibling():
    peak = LIMITED.variant(objective=Objective.PEAK_MEMORY)
    mine = replace(GOOD, fingerprint=SCALED.fingerprint, parent=SCALED.parent)
    assert SCALED.parent == peak.parent == LIMITED.fingerprint != SCALED.fingerprint
    assert SCALED.variant(objective=Objective.PEAK_MEMORY).parent == LIMITED.fingerprint
    for related in (LIMITED, SCALED, peak):
        assert broken(related, mine) == []
        assert broken(related, replace(GOOD, fingerprint=LIMITED.fingerprint)) == []


def test_a_plan_of_another_authors_variant():
    other = replace(GOOD, fingerprint="ab" * 32, parent="cd" * 32)
    assert broken(LIMITED, other) == broken(SCALED, other) == ["identity"]


def test_a_relative_is_checked_against_the_laws_of_the_problem():
    tiny = LIMITED.with_memory_scale(1, 80)
    assert broken(tiny, replace(GOOD, fingerprint=LIMITED.fingerprint)) == ["memory"]


def test_claims_about_a_relative_are_not_compared():
    claimed = GOOD.claimed("peak_memory", 1)
    assert broken(SCALED, replace(claimed, fingerprint=LIMITED.fingerprint)) == []
    for own in (SCALED.fingerprint, None):
        assert broken(SCALED, replace(claimed, fingerprint=own)) == ["claim", "claim"]


def test_every_unknown_name_is_reported_once():
    bad = replace(
        GOOD,
        runs=(*GOOD.runs, run("x", "d9", 20), run("x", "d9", 30)),
        transfers=(send("y", "d0", "d8", 0), send("v", "d0", "d1", 10, layout="z")),
    )
    found = [v for v in verify(P, bad).violations if v.rule == "identity"]
    assert [v.subjects for v in found] == [("x",), ("d9",), ("y",), ("d8",), ("v", "z")]


def test_an_unknown_option_names_its_operator():
    bad = plan(run("a", "d0", 0, option="fast"), run("b", "d0", 10))
    assert messages(P, bad).startswith("identity: operator 'a' has no option 'fast'")
