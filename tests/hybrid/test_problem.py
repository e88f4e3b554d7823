from dataclasses import replace
from fractions import Fraction

import pytest

from milp_plan.core import InputError
from milp_plan.kinds.hybrid.problem import Configuration, Flow, HybridProblem, Layer, Limits
from tests.support.hybrid import chain, random_problem

PLAIN = Configuration("plain", Fraction(1), Fraction(0), Fraction(0), Fraction(0))


def test_all_findings_come_at_once():
    bad = replace(PLAIN, seconds=Fraction(-1), send_bytes={"nobody": Fraction(1)})
    layers = (Layer("a", {1: (PLAIN, PLAIN)}), Layer("b", {0: (bad,)}), Layer("b", {}))
    flows = (
        Flow("a", "b", Fraction(-2)),
        Flow("a", "b", Fraction(0)),
        Flow("b", "a", Fraction(0)),
        Flow("a", "z", Fraction(0)),
    )
    with pytest.raises(InputError) as caught:
        HybridProblem("bad", layers, flows, Limits(0, Fraction(-1), Fraction(0), 0))
    text = str(caught.value)
    for part in (
        "devices: found 0",
        "micro_batches: found 0",
        "memory_bytes: found -1",
        "bandwidth_bytes_per_s: found 0",
        "layer 'b': found the name 2 times",
        "2 configurations 'plain' at degree 1",
        "tensor degree 0",
        "seconds: found -1",
        "'nobody', to which there is no flow",
        "no configuration",
        "-2 bytes",
        "a second flow",
        "unknown layer 'z'",
        "a circle",
    ):
        assert part in text
    with pytest.raises(InputError, match="layers: found none"):
        HybridProblem("empty", (), (), chain(1).limits)


def test_fingerprint_follows_what_plans_depend_on():
    problem = random_problem(3)
    assert problem.fingerprint == replace(problem, name="other").fingerprint
    limits = replace(problem.limits, tensor=not problem.limits.tensor)
    assert problem.fingerprint != problem.with_limits(limits).fingerprint
    slower = replace(PLAIN, seconds=Fraction(2))
    one, other = (
        HybridProblem("x", (Layer("a", {1: (entry,)}),), (), problem.limits)
        for entry in (PLAIN, slower)
    )
    assert one.fingerprint != other.fingerprint


def test_order_keeps_flows():
    problem = random_problem(6, layers=6)
    place = {name: i for i, name in enumerate(problem.order)}
    assert problem.flows
    assert all(place[flow.source] < place[flow.target] for flow in problem.flows)


@pytest.mark.parametrize("name", ["devices", "micro_batches"])
def test_counts_beyond_machine_words_are_findings(name):
    with pytest.raises(InputError, match=f"{name}: found 9{{40}}, expected 1 to 1000000000"):
        chain(1, 2, **{name: int("9" * 40)})
