"""The studies of PaSE's networks and of folding, small; elimination against HiGHS."""

from __future__ import annotations

import json

import pytest

from milp_plan.cost.pase import pase_tables
from milp_plan.planners.sharding.elimination import eliminate
from milp_plan.planners.sharding.folding import tie
from milp_plan.planners.sharding.folding.tied import model_columns
from milp_plan.zoo.pase import network, transformer

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
def test_the_page_of_pase(script, tmp_path, monkeypatch):
    pase = script("pase")
    rows = [pase.measure(name, 4, 5000, 20.0) for name in ("alexnet", "inception3")]
    monkeypatch.setattr(pase, "measured", lambda tasks: rows[: len(list(tasks))])
    asked = ["--networks", "alexnet", "inception3", "--devices", "4", "--out", str(tmp_path)]
    assert pase.main(asked) == 0
    record = json.loads((tmp_path / "table.json").read_text())
    assert [row["network"] for row in record["rows"]] == ["alexnet", "inception3"]
    assert all(row["checked"] for row in record["rows"])
    page = (tmp_path / "table.md").read_text()
    assert "148,215,719,552" in page
    assert "equal, integral" in page
    assert "not tried" in page
    assert "refused: 10^11.6 entries" in page
    assert "0.226" in page, "the paper's seconds, from published.csv"


@pytest.mark.untraced
def test_the_page_of_folding(script, tmp_path):
    tap = script("tap")
    rows = [tap.searches(layers, 4, 1) for layers in (2, 4)]
    models = [tap.models(2, 4, 60.0)]
    record = {"repeats": 1, "versions": {}, "machine": {}}
    page = tap.page(models, rows, record)
    assert "| 2 | 72 | 15 (rounds 0) |" in page
    assert "0.0000%" in page
    assert "NO" not in page
    assert "depth to the power" in page
    tap.draw(models, rows, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000
