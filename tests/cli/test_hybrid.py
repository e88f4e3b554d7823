"""Files of hybrid parallelism on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from tests.io.samples import store
from tests.io.test_piper import way

from .cases import call


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    amounts = {"memoryUsageA": 10.0, "memoryUsageB": 1.0}
    names = ("a", "b", "c")
    nodes = [
        {
            "id": i,
            "name": name,
            "TMPCs": {
                "1": [
                    way(timePerSample=1.0, parameterSize=0.0, **amounts),
                    way("activation recomp", timePerSample=1.5, memoryUsageA=1.0),
                ]
            },
        }
        for i, name in enumerate(names)
    ]
    edges = [{"sourceId": i, "destId": i + 1, "communicationCost": 0.0} for i in range(2)]
    document = {"maxDevices": 3, "maxMemoryPerDevice": 100.0, "bandwidth": 1.0, "mbsInBatch": 6}
    return store(tmp_path, document | {"nodes": nodes, "edges": edges}, "three.json")


def test_json_and_limits(instance: Path, tmp_path: Path) -> None:
    limits = ["--devices", "1", "--memory", "0.03kB", "--micro-batches", "4", "--bandwidth", "2B/s"]
    asked = ["--json", "--quiet", "--record-folder", tmp_path / "runs"]
    result = call("solve", instance, *limits, *asked)
    assert (result.exit_code, result.stderr) == (Exit.DONE, "")
    reported = json.loads(result.stdout)
    assert reported["value"] == 3.5 * reported["ticks_per_unit"]  # one layer of three recomputes
    assert reported["about"]["limits"]["memory_bytes"] == 30
    assert reported["about"]["limits"]["micro_batches"] == 4
    assert call("check", instance, reported["plan_file"]).exit_code == Exit.DONE  # its own limits
    switched = call("solve", instance, *limits, *asked, "--no-recomputation")
    assert switched.exit_code == Exit.INFEASIBLE
    assert json.loads(switched.stdout)["infeasible_because"]


def test_broken_plan_fails_the_check(instance: Path, tmp_path: Path) -> None:
    plan = {
        "format": "milp-plan-hybrid-plan",
        "version": 1,
        "problem": "three",
        "stages": [{"data": 4, "tensor": 1, "layers": [["a", "vanilla"], ["b", "vanilla"]]}],
    }
    path = store(tmp_path, plan, "plan.json")
    result = call("check", instance, path)
    assert result.exit_code == Exit.NOT_VALID
    assert "three: not valid, 3 violations" in result.stdout
    reported = json.loads(call("check", instance, path, "--json").stdout)
    assert {entry["rule"] for entry in reported["violations"]} == {
        "degrees",
        "devices",
        "assignment",
    }
    other = store(tmp_path, plan | {"problem": "four"}, "other.json")
    assert call("check", instance, other).exit_code == Exit.BAD_INPUT


def test_wrong_use(instance: Path, tmp_path: Path) -> None:
    for arguments, code in (
        (["solve", instance, "--memory", "8 apples"], Exit.USAGE),
        (["solve", instance, "--bandwidth", "1/0"], Exit.USAGE),
        (["solve", instance, "--plan-output", tmp_path / "none" / "plan.json"], Exit.USAGE),
        (["solve", tmp_path / "none.json"], Exit.BAD_INPUT),
        (["solve", instance, "--memory-scale", "2"], Exit.USAGE),
        (["solve", instance, "--rounds", "3"], Exit.USAGE),
    ):
        result = call(*arguments, "--record-folder", tmp_path / "runs")
        assert result.exit_code == code, result.stderr


def test_amounts_of_variants_are_in_units(instance: Path, tmp_path: Path) -> None:
    """Ticks change with the bandwidth: numbers of them were compared, and printed without unit."""
    document = json.loads(instance.read_text())
    for edge in document["edges"]:
        edge["communicationCost"] = 0.7
    for node in document["nodes"]:
        for entry in node["TMPCs"]["1"]:
            entry["parameterSize"] = 1.0
    instance.write_text(json.dumps(document))
    store, plan = tmp_path / "swept", tmp_path / "plan.json"
    asked = ("--bandwidth", "1,3,7", "--time-limit", "20", "--quiet", "--store-folder", store)
    swept = json.loads(call("sweep", instance, *asked, "--json").stdout)
    points = {p["settings"]["bandwidth"]: p for p in swept["points"]}
    values = [float(points[step]["value_in_unit"]) for step in ("1", "3", "7")]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[2]
    reported = call("sweep", instance, *asked).stdout
    assert all(f"{value:.6g} s" in reported for value in values)
    runs = ("--record-folder", tmp_path / "runs")
    assert call("solve", instance, "--plan-output", plan, *runs).exit_code == Exit.DONE
    explained = call("explain", instance, plan, "--what-if", "link", "--time-limit", "20")
    lines = [line.split() for line in explained.stdout.splitlines()]
    assert {words[-1] for words in lines if words[:1] == ["seconds"]} == {"s"}
    faster = json.loads(call("explain", instance, plan, "--what-if", "link", "--json").stdout)
    (effect,) = faster["what_if"]
    change = float(effect["value_in_unit"]) - values[0]
    assert float(effect["change_in_unit"]) == pytest.approx(change)
    assert change < 0
