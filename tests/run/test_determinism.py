"""Two runs with one seed and a node limit build the same model and find the same plan."""

import json

import pytest

from milp_plan.io.plan_file import plan_to_json
from milp_plan.run import Settings, solve
from tests.support.processes import finish, start

from .cases import INSTANCES, instance, weaken
from .driver import DRIVER

COARSE, EXACT = "unet-inference-2xH100", "gpt-tiny-training-2xA100"
"""Planned through heuristic coarsening and with annealing; and by a model that meets its limit."""

LIMITS = {"node_limit": 1, "rounds": 2, "target": 12, "seed": 3}


def planned(name):
    outcome = solve(instance(name), Settings(**LIMITS))
    return outcome.record, plan_to_json(outcome.plan)


@pytest.mark.untraced
@pytest.mark.parametrize("name", [COARSE, pytest.param(EXACT, marks=pytest.mark.slow)])
def test_same_model_and_same_plan_within_one_process(monkeypatch, name):
    weaken(monkeypatch)
    (first, one), (second, two) = planned(name), planned(name)
    assert first["model_hash"] == second["model_hash"] is not None
    assert one == two
    assert first["key"] == second["key"]
    assert first["model"] == second["model"]
    steps = [[(p["phase"], p["incumbent"]) for p in r["trace"]] for r in (first, second)]
    assert list(dict.fromkeys(steps[0])) == list(dict.fromkeys(steps[1]))
    # no stage is left out, and a model meets its limit
    assert first["phases"]["anneal"] > 0
    assert first["window_search"]["rounds"] == 2
    assert first["coarsening_exact"] == (name == EXACT)
    assert first["model"]["stop"] == ("node_limit" if name == EXACT else "proved")


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("heuristics", "names"),
    [
        ("one", [EXACT]),
        pytest.param("one", [COARSE], marks=pytest.mark.slow),
        pytest.param("all", [COARSE], marks=pytest.mark.slow),
    ],
)
def test_the_order_of_sets_does_not_leak_into_models_and_plans(tmp_path, heuristics, names):
    files = [INSTANCES / f"{name}.json" for name in names]
    limits = [f"--{key.replace('_', '-')}={number}" for key, number in LIMITS.items()]
    reported = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        process = start(
            *(folder, DRIVER, "none" if heuristics == "one" else "strong"),
            *("solve", *files, *limits, "--json", "--quiet"),
            PYTHONHASHSEED=hash_seed,
        )
        code, out, err = finish(process)
        assert code == 0, err
        lines = [json.loads(line) for line in out.splitlines()]
        plans = [(folder / line["plan_file"]).read_bytes() for line in lines]
        reported.append((plans, [(line["model_hash"], line["baselines"]) for line in lines]))
    assert len(reported[0][0]) == len(names)
    assert reported[0] == reported[1]
