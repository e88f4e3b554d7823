import json
import math

import pytest

from milp_plan.report import median_gap, median_line, overview, to_json, to_markdown

FULL = {
    "instance": "gpt|4",
    "operators": 1342,
    "coarse_operators": 40,
    "objective": "makespan",
    "unit": "ns",
    "ticks_per_unit": 1,
    "value": 9_000_000,
    "best_baseline": 10_000_000,
    "baseline_name": "heft",
    "bound": 8_100_000,
    "bound_name": "load",
    "gap": 0.1,
    "stop": "TIME_LIMIT",
    "verdict": "ok",
    "planner": "search",
    "seconds": 60.04,
    "phases": {"solve": 50.0, "read": 0.012, "extra": 1.5},
}
EMPTY = {"instance": "none", "operators": 3, "value": None, "gap": math.inf, "phases": None}


def cells(markdown, row):
    heading, _, *lines = [line for line in markdown.splitlines() if line.startswith("|")]
    split = [
        [cell.strip() for cell in line.replace("\\|", "/").strip("| ").split(" | ")]
        for line in (heading, lines[row])
    ]
    return dict(zip(*split, strict=True))


def test_markdown_of_a_full_row():
    found = cells(to_markdown([FULL]), 0)
    assert found == {
        "instance": "gpt/4",
        "operators": "1,342",
        "coarse": "40",
        "objective": "makespan",
        "value": "9 ms",
        "best baseline": "10 ms",
        "baseline": "heft",
        "better by": "10.00%",
        "bound": "8.1 ms",
        "bound by": "load",
        "gap": "10.00%",
        "stop": "TIME_LIMIT",
        "verdict": "ok",
        "planner": "search",
        "seconds": "60.0",
        "read s": "0.01",
        "solve s": "50.0",
        "extra s": "1.50",
    }


def test_what_is_not_known_is_a_dash():
    found = cells(to_markdown([FULL, EMPTY]), 1)
    known = {"instance": "none", "operators": "3"}
    assert found == {key: known.get(key, "—") for key in found}


def test_median_counts_rows_without_a_gap():
    rows = [{"gap": 0.0}, {"gap": 0.2}, {"gap": 0.5}, EMPTY]
    assert median_gap(rows) == (0.2, 3, 4)
    assert median_line(rows) == "Median gap: 20.00% (4 instances, 1 without a gap)"
    assert median_line([EMPTY]) == "Median gap: — (1 instance, 1 without a gap)"
    assert median_line([{"gap": 0.25}]) == "Median gap: 25.00% (1 instance)"
    assert "Median gap: 20.00%" in to_markdown(rows)


def test_json_is_exact_and_has_no_infinity():
    big = {**FULL, "value": 10**25, "best_baseline": 10**25 + 1}
    found = json.loads(to_json([big, EMPTY]))
    assert found["rows"][0]["value"] == 10**25
    assert found["rows"][0]["solve_s"] == 50.0
    assert found["rows"][1]["gap"] is None
    assert (found["median_gap"], found["rows_with_gap"], found["num_rows"]) == (0.1, 1, 2)


@pytest.mark.parametrize("missing", ["value", "best_baseline"])
def test_improvement_needs_both_figures(missing):
    assert overview([{**FULL, missing: None}])["improvement"][0] is None
    assert overview([FULL])["improvement"][0] == pytest.approx(0.1)


def test_an_empty_overview_has_its_columns():
    assert len(overview([])) == 0
    assert to_markdown([]).startswith("| instance |")
    assert median_gap([]) == (None, 0, 0)


def test_amounts_are_in_the_unit_of_their_row():
    rows = [
        {**FULL, "value": 189_142 * 10**17, "unit": "ms", "ticks_per_unit": 10**20},
        {**FULL, "value": 3 * 2**30, "objective": "peak_memory", "unit": "bytes"},
        {**FULL, "value": 12_345_678, "unit": "cost"},
        {**FULL, "value": 12_345_678, "unit": None},
    ]
    values = [cells(to_markdown(rows), place)["value"] for place in range(len(rows))]
    assert values == ["189.142 ms", "3 GiB", "12,345,678", "12,345,678"]
