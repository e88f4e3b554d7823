"""The studies of PaSE's networks and of folding, small; elimination against HiGHS."""

from __future__ import annotations

import pytest
from folding import tie
from folding.tied import model_columns
from pase_costs import pase_tables
from pase_networks import network, transformer

from milp_plan.elimination.search import eliminate

from .conftest import rows_of

AGREEING = [("alexnet", 4), ("alexnet", 8), ("rnnlm", 4), ("rnnlm", 8)]
SLOWLY = [("inception3", 4), ("alexnet", 16), ("rnnlm", 16), ("resnet101", 4), ("transformer", 4)]
CASES = [*AGREEING, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOWLY)]


@pytest.mark.parametrize(("name", "devices"), CASES)
def test_relaxation_and_model_agree_with_elimination(script, name, devices):
    polytope = script("polytope")
    problem = pase_tables(network(name), devices)
    best = eliminate(problem).value
    relaxed = polytope.solve(problem, integral=False)
    assert relaxed.value == pytest.approx(best, rel=1e-7)
    whole = polytope.solve(problem, integral=True)
    assert whole.value == pytest.approx(best, rel=1e-7)
    assert problem.cost(whole.chosen) == best
    assert whole.columns == model_columns(problem)


def test_the_tied_model_has_the_optimum_of_the_unfolded_problem(script):
    problem = pase_tables(transformer(layers=3), 4)
    tied = tie(problem, work=model_columns)
    solved = script("polytope").solve(tied.problem, integral=True)
    assert problem.cost(tied.expand(solved.chosen)) == eliminate(problem).value
    assert solved.columns < model_columns(problem) / 3


def test_a_limit_of_no_time_leaves_no_value(script):
    solved = script("polytope").solve(
        pase_tables(network("resnet101"), 4), integral=True, limit_s=0
    )
    assert solved.value is None
    assert solved.chosen is None


@pytest.mark.untraced
def test_the_page_of_pase(page):
    cases = [
        {"network": name, "devices": 4, "columns": 5000, "limit_s": 20}
        for name in ("alexnet", "inception3")
    ]
    code, text, folder = page("paper/pase", "pase", cases)
    assert code == 0
    assert all(row["checked"] for row in rows_of(folder))
    assert "148,215,719,552" in text
    assert "equal, integral" in text
    assert "not tried" in text
    assert "refused: 10^11.6 entries" in text
    assert "0.226" in text, "the paper's seconds, from published.csv"


@pytest.mark.untraced
def test_the_page_of_folding(page):
    cases = [
        {"by": "elimination", "layers": layers, "devices": 4, "repeats": 1} for layers in (2, 4)
    ]
    cases.append({"by": "models", "layers": 2, "devices": 4, "limit_s": 60})
    code, text, folder = page("paper/tap", "tap", cases)
    assert code == 0
    assert "| 2 | 72 | 15 (rounds 0) |" in text
    assert "0.0000%" in text
    assert "NO" not in text
    assert "depth to the power" in text
    assert (folder / "growth.png").stat().st_size > 1000


@pytest.mark.parametrize("name", ["pase", "tap"])
def test_pages_of_stored_rows(name, page_again):
    assert page_again(f"paper/{name}")
