from dataclasses import replace

from milp_plan.check import verify

from .cases import broken, messages, plan, problem, run, send, value

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


def test_every_unknown_name_is_said_once():
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
