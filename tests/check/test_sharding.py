"""Rules of sharding plans, on tables small enough to add up by hand."""

from dataclasses import replace

import numpy as np
import pytest

from milp_plan.core import InputError
from milp_plan.core.sharding import MAX_COST, ShardingPlan, sharding_problem
from milp_plan.kinds.sharding.check import verify_sharding


def small(limit=None):
    return sharding_problem(
        "small",
        [[5, 1], [2, None, 4], [7]],
        usages=[[10, 30], [5, 5, 25], [8]],
        intervals=[(0, 4), (2, 6), (6, 9)],
        edges={(0, 1): [[0, 1, None], [9, 9, 3]], (2, 1): [[1, 2, 3]]},
        limit=limit,
    )


def plan(*chosen, **fields):
    return ShardingPlan("small", chosen, **fields)


def rules(verdict):
    return [violation.rule for violation in verdict.violations]


def test_costs_of_strategies_and_pairs_add_up():
    verdict = verify_sharding(small(), plan(1, 2, 0))
    assert verdict.ok
    assert verdict.value == (1 + 4 + 7) + (3 + 3)
    assert verdict.components == {"strategies": 12, "transitions": 6, "peak_usage": 55}


def test_intervals_are_half_open():
    verdict = verify_sharding(small(), plan(0, 0, 0))
    assert verdict.components["peak_usage"] == 15


def test_a_limit_holds_at_every_instant():
    assert verify_sharding(small(limit=55), plan(1, 2, 0)).ok
    over = verify_sharding(small(limit=54), plan(1, 2, 0))
    assert rules(over) == ["memory"]
    assert (over.violations[0].needed, over.violations[0].available) == (55, 54)
    assert over.value == 18


def test_masks_are_rules():
    pair = verify_sharding(small(), plan(0, 2, 0))
    assert rules(pair) == ["transition"]
    assert pair.value is None
    assert rules(verify_sharding(small(), plan(0, 1, 0))) == ["strategy"]


@pytest.mark.parametrize("chosen", [(0, 0), (0, 0, 1), (0, -1, 0), (0, 3, 0), (0, 0, 0, 0)])
def test_every_operator_has_one_of_its_strategies(chosen):
    verdict = verify_sharding(small(), plan(*chosen))
    assert "assignment" in rules(verdict)
    assert verdict.value is None


def test_claims_and_names_are_checked():
    assert verify_sharding(small(), plan(1, 2, 0, value=18)).ok
    assert rules(verify_sharding(small(), plan(1, 2, 0, value=17))) == ["claim"]
    assert rules(verify_sharding(small(), replace(plan(1, 2, 0), problem="other"))) == ["identity"]
    stale = plan(1, 2, 0, fingerprint=small(limit=9).fingerprint)
    assert rules(verify_sharding(small(), stale)) == ["identity"]
    assert verify_sharding(small(), plan(1, 2, 0, fingerprint=small().fingerprint)).ok


def test_sums_beyond_64_bits_are_exact():
    huge = sharding_problem("huge", [[MAX_COST]] * 40, usages=[[MAX_COST]] * 40)
    verdict = verify_sharding(huge, ShardingPlan("huge", (0,) * 40))
    assert verdict.value == verdict.components["peak_usage"] == 40 * MAX_COST


def test_tables_of_edges_are_matrices():
    cost, allowed = small().table(0)
    assert cost.tolist()[1] == [9, 9, 3]
    assert allowed.tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"costs": [[1], []]}, "no strategies"),
        ({"costs": [[1], [2]], "usages": [[1], [-2]]}, "at least 0"),
        ({"costs": [[1], [2]], "limit": -1}, "usage_limit"),
        ({"costs": [[1], [MAX_COST + 1]]}, "scale all costs down"),
        ({"costs": [[1], [2]], "edges": {(0, 0): [[1]]}}, "two different operators"),
        ({"costs": [[1], [2]], "edges": {(0, 5): [[1]]}}, "two different operators"),
        ({"costs": [[1], [2]], "edges": {(0, 1): [[1, 2]]}}, "one for each pair"),
        ({"costs": [[1], [2]], "usages": [[1]]}, "usages"),
    ],
)
def test_defects_are_named(change, words):
    with pytest.raises(InputError, match=words):
        sharding_problem("broken", **change)


def test_all_defects_are_named_at_once():
    good = small()
    with pytest.raises(InputError) as caught:
        replace(good, limit=-1, operators=("a", "a", "b"), intervals=np.zeros((2, 2), dtype=int))
    assert "intervals" in str(caught.value)
    assert "unique names" in str(caught.value)


@pytest.mark.parametrize("chosen", [None, 3, "abc", 1.5, {}, (None, "x", 1.5), ([], {}, b"")])
def test_choices_that_are_none_are_refused(chosen):
    verdict = verify_sharding(small(), ShardingPlan("small", chosen))
    assert set(rules(verdict)) == {"assignment"}
    assert verdict.value is None
