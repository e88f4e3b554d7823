"""The study of model building on a tiny instance."""

from pathlib import Path

import numpy as np
import pytest

from .conftest import rows_of

INSTANCES = Path(__file__).resolve().parents[2] / "instances"


@pytest.mark.untraced
def test_page_and_numbers(page):
    case = {"file": "memory-forces-delay.json", "repeats": 1}
    _, text, folder = page("model-building", "model_building", [case])
    (found,) = rows_of(folder)
    assert found["columns"] > 10
    steps = ("build", "compile", "send to the process", "hand over")
    assert found["ours"] == sum(found["seconds"][step] for step in steps)
    assert 0.5 < sum(share for _, share in found["parts"]) <= 1.0 + 1e-9
    assert "The ratio is" in text


def test_bisection_finds_the_size(script, tmp_path):
    model_building = script("model_building")
    problem = model_building.read(INSTANCES / "gpt-tiny-training-2xA100.json")
    coarse, target = model_building.coarse_of_size(problem, 60)
    assert 2 <= target <= len(problem.graph.operators)
    assert len(coarse.graph.operators) <= len(problem.graph.operators)


def test_lists_give_the_same_matrix_and_solve(script):
    model_building = script("model_building")
    problem = model_building.read(INSTANCES / "two-sends-one-port.json")
    formulation = model_building.get("operator_schedule").formulation
    source = formulation.build(problem, formulation.Options(), model_building.Guide())
    model = model_building.compile_pyomo(source)
    copy = model_building.from_lists(model_building.as_lists(model))
    assert (copy.matrix != model.matrix).nnz == 0
    highs = model_building.pass_arrays(copy)
    highs.run()
    assert np.isfinite(highs.getInfo().objective_function_value)


def test_a_small_ratio_is_reported_as_kept(script):
    model_building = script("model_building")
    assert "within the 3 asked for" in model_building.verdict({"ours": 2.0, "from_lists": 1.0})


def test_page_of_stored_rows(page_again):
    assert page_again("model-building")
