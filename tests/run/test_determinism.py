"""Two runs with one seed and a node limit build the same model and find the same plan."""

import json

import pytest

from milp_plan.io import plan_to_json
from milp_plan.run import Settings, solve

from .cases import INSTANCES, instance, weaken
from .processes import finish, start

COARSE, EXACT = "unet-inference-2xH100", "moe-tiny-inference-4xA100"
"""Planned through heuristic coarsening and with annealing; and by a model that meets its limit."""

LIMITS = {"node_limit": 1, "rounds": 2, "target": 12, "seed": 3}


def planned(name):
    outcome = solve(instance(name), Settings(**LIMITS))
    return outcome.record, plan_to_json(outcome.plan)


def test_the_runs_compared_here_go_through_every_stage(monkeypatch):
    weaken(monkeypatch)
    coarse, _ = planned(COARSE)
    assert coarse["coarsening_exact"] is False
    assert coarse["phases"]["anneal"] > 0
    assert coarse["polish"]["rounds"] == 2
    exact, _ = planned(EXACT)
    assert exact["coarsening_exact"] is True
    assert exact["model"]["stop"] == "node_limit"
    assert exact["polish"]["rounds"] == 2


def test_another_seed_takes_another_way(monkeypatch):
    weaken(monkeypatch)
    ways = set()
    for seed in range(4):
        outcome = solve(instance(EXACT), Settings(**LIMITS | {"seed": seed, "rounds": 0}))
        ways.add((plan_to_json(outcome.plan), outcome.record["model"]["bound"]))
    assert len(ways) > 1


@pytest.mark.parametrize("name", [COARSE, EXACT])
def test_same_model_and_same_plan_within_one_process(monkeypatch, name):
    weaken(monkeypatch)
    (first, one), (second, two) = planned(name), planned(name)
    assert first["model_hash"] == second["model_hash"]
    assert one == two
    assert first["key"] == second["key"]
    assert first["model"] == second["model"]
    notes = [[(p["phase"], p["incumbent"]) for p in r["trace"]] for r in (first, second)]
    assert list(dict.fromkeys(notes[0])) == list(dict.fromkeys(notes[1]))


def test_the_order_of_sets_does_not_leak_into_models_and_plans(tmp_path):
    files = [INSTANCES / f"{name}.json" for name in (COARSE, EXACT)]
    limits = [f"--{key.replace('_', '-')}={number}" for key, number in LIMITS.items()]
    told = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        process = start(
            *(folder, "none", "solve", *files, *limits, "--json", "--quiet"),
            PYTHONHASHSEED=hash_seed,
        )
        code, out, err = finish(process)
        assert code == 0, err
        lines = [json.loads(line) for line in out.splitlines()]
        plans = [(folder / line["plan_file"]).read_bytes() for line in lines]
        told.append([[line["model_hash"] for line in lines], plans])
    assert told[0][0] == told[1][0]
    assert None not in told[0][0]
    assert told[0][1] == told[1][1]
