"""Limits under which operators must run again: the page and what contradicts it."""

import pytest

from .conftest import rows_of


def row(**changes):
    made = {
        "instance": "x", "scale": "0.5", "proof": "no room", "without": None, "value": 9,
        "bound": 8, "refuted": "", "first": 10, "checked": True, "limit_bytes": [5], "limit_s": 3,
    }  # fmt: skip
    return made | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"value": None, "checked": False}, []),
        ({"without": 9}, ["a plan and a proof without runs again"]),
        ({"checked": False}, ["the plan with runs again does not hold"]),
        ({"refuted": "no room"}, ["the plan with runs again does not hold"]),
        ({"bound": 10}, ["the bound is above the plan"]),
    ],
)
def test_contradictions_are_reported(script, changes, said):
    found = script("memory_floors").complaints([row(**changes)])
    assert found == [f"x at 0.5: {words}" for words in said]


def test_only_a_proof_with_a_checked_plan_is_counted(script):
    rows = [row(), row(proof=""), row(checked=False, value=None)]
    reported = script("memory_floors").present(rows)
    assert (reported["shown"], reported["count"]) == (1, 3)
    assert [one["value_ms"] for one in rows] == [9e-6, 9e-6, None]


@pytest.mark.slow
def test_a_limit_under_which_runs_again_do_not_help_is_not_counted(page):
    case = {"file": "gpt-tiny-training-2xA100.json", "scale": "1/2", "limit_s": 4, "seed": 0}
    code, text, folder = page("paper/memory-floors", "memory_floors", [case])
    (made,) = rows_of(folder)
    assert code == 0
    assert made["value"] is None
    assert "'loss.B' needs at least" in made["proof"]
    assert made["refuted"] == made["proof"]
    assert "0 of 1 have both" in text


def test_page_of_stored_rows(page_again):
    assert "while operator 'loss.B' runs" in page_again("paper/memory-floors")
