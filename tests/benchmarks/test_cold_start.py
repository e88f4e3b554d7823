from milp_plan.cli.exits import Exit

from .conftest import rows_of

NO_LOOPS = "gang-beats-single.json"
"""A critical path proves this one: nothing is compiled, warm or cold."""

ROW = {
    "name": "n",
    "limit": 60,
    "change": 0.01,
    "warm_value": 100,
    "cold_value": 101,
    "warm_proved": False,
    "cold_proved": False,
    "warm_first_s": 0.5,
    "cold_first_s": 0.5,
    "warm_s": 9.0,
    "cold_s": 61.0,
    "shipped": True,
}


def row_is_late(folder):
    """Whether every value and proof is the same, and a first plan came after 3 s."""
    rows = rows_of(folder)
    same = all(row["change"] == 0 and row["cold_proved"] for row in rows)
    return same and any(row["cold_first_s"] > 3 for row in rows)


def test_page_and_numbers(page):
    cases = [
        {"file": NO_LOOPS, "limit": 60},
        {"name": "two stages", "command": "pipeline --stages 2 --micro-batches 2", "limit": 60},
    ]
    code, text, folder = page("cold-start", "cold_start", cases)
    if code is Exit.NOT_VALID:  # a busy machine may be late, and nothing else
        assert row_is_late(folder), text
    row, pipeline = rows_of(folder)
    assert (row["warm_value"], row["cold_value"], row["change"]) == (110, 110, 0.0)
    assert row["cold_proved"]
    assert row["cold_first_s"] > 0
    assert pipeline["cold_value"] == pipeline["warm_value"]
    assert "| gang-beats-single | 2 | 60 s | 110 | 110 | ns | +0.000% |" in text
    assert "| two stages | 60 s |" in text
    assert "2 of the 2 cold values are at most 3% above the warm ones" in text


def test_what_a_first_run_loses_is_reported(script):
    study = script("cold_start")
    assert study.complaints([ROW]) == []
    for change, stated in (
        ({"change": 0.04}, "n: 4.00% worse without compiled loops"),
        ({"cold_s": 63.0}, "n: 63.0 s cold under a limit of 60 s"),
        ({"cold_value": None, "change": None}, "n: no plan without compiled loops"),
        ({"warm_proved": True}, "n: no proof without compiled loops"),
        ({"cold_first_s": 4.0}, "n: the first plan after 4.0 s"),
    ):
        assert study.complaints([ROW | change]) == [stated]


def test_figures_count_what_was_compared(script):
    found = script("cold_start").present([ROW, ROW | {"change": None, "cold_first_s": None}])
    assert (found["count"], found["compared"], found["within"]) == (2, 1, 1)
    assert (found["planned"], found["soon"]) == (1, 1)
