from milp_plan.cli.exits import Exit

from .conftest import rows_of

NO_LOOPS = "solve instances/gang-beats-single.json"
"""A critical path proves this one: nothing is compiled, warm or cold."""


def test_page_and_numbers(page):
    case = {"name": "gang", "command": NO_LOOPS, "limit": 60}
    code, text, folder = page("cold-start", "cold_start", [case])
    assert code is Exit.DONE
    (row,) = rows_of(folder)
    assert (row["warm"], row["cold"], row["change"]) == ("110", "110", 0.0)
    assert "| gang | 60 s | 110 | 110 | ns | +0.000% |" in text


def test_what_a_first_run_loses_is_said(script):
    study = script("cold_start")
    row = {"name": "n", "limit": 60, "change": 0.01, "warm_s": 9.0, "cold_s": 61.0}
    assert study.complaints([row]) == []
    assert study.complaints([{**row, "change": 0.03}]) == ["n: 3.00% worse without compiled loops"]
    assert study.complaints([{**row, "cold_s": 63.0}]) == ["n: 63.0 s cold under a limit of 60 s"]
