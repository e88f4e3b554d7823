"""Layers on stages: the page and what contradicts it."""

import pytest


def row(**changes):
    made = {
        "model": "x", "pipeline": 4, "schedule": "1f1b", "limit_s": 10, "even": 12 * 10**9,
        "value": 9 * 10**9, "bound": 8 * 10**9, "proved": False, "even_replay": 12 * 10**9,
        "replay": 10**10, "checked": True, "layers": [4, 3], "recomputed": [1, 0],
    }  # fmt: skip
    return made | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"even": None, "even_replay": None}, []),
        ({"value": None, "replay": None, "even": None, "even_replay": None}, []),
        ({"reason": "80 heads"}, ["80 heads"]),
        ({"checked": False}, ["no configuration that the checker accepts"]),
        ({"replay": 13 * 10**9}, ["the even split is faster"]),
        ({"value": None}, ["the even split is faster"]),
        ({"bound": 10**10}, ["the bound is above the plan"]),
    ],
)
def test_contradictions_are_reported(script, changes, said):
    found = script("training_stages").complaints([row(**changes)])
    assert found == [f"x on 4 stages, 1f1b: {words}" for words in said]


def test_gains_and_gaps_are_shown(script):
    rows = [row(), row(proved=True, even_replay=None, even=None)]
    reported = script("training_stages").present(rows)
    assert (reported["better"], reported["proved"], reported["count"]) == (1, 1, 2)
    assert [one["gain"] for one in rows] == [0.25, None]
    assert [one["proof"] for one in rows] == ["11.11 %", "proved"]
    assert rows[0]["layers_text"] == "4 3"


def test_page_of_stored_rows(page_again):
    assert "deepseek-v3" in page_again("paper/training-stages")
