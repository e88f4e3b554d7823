"""Traps: the optimum worked out by hand is the one enumeration finds."""

import pytest

from milp_plan.check import verify
from milp_plan.zoo import TRAPS
from tests.support.brute import brute_force


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_optimum(trap):
    found = brute_force(trap.problem)
    assert found is not None
    value, plan = found
    verdict = verify(trap.problem, plan)
    assert verdict.ok
    assert value == verdict.value == trap.optimum


def test_tiny_and_explained():
    assert len({trap.name for trap in TRAPS}) == len(TRAPS) >= 10
    for trap in TRAPS:
        assert len(trap.problem.graph.operators) <= 8
        assert trap.problem.provenance["optimum"] == str(trap.optimum)
