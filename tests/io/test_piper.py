from fractions import Fraction

import pytest

from milp_plan import run
from milp_plan.core import InputError
from milp_plan.io.files import write_document
from milp_plan.kinds.hybrid import piper
from milp_plan.kinds.hybrid.format import hybrid_plan_to_json, read_hybrid_plan
from milp_plan.kinds.hybrid.piper import read_hybrid
from milp_plan.kinds.hybrid.plan import Choice, HybridPlan, Stage
from milp_plan.kinds.hybrid.problem import Limits
from milp_plan.kinds.schedule.formats import read
from tests.support.public import PUBLIC, needs_public

from .samples import store

HOME = PUBLIC / "piper"


def way(name="vanilla", fw=(), bw=(), **fields):
    return {
        "id": name,
        "timePerSample": 0.1,
        "parameterSize": 8.0,
        "memoryUsageA": 1274019.8399999999,
        "memoryUsageB": 2.0,
        "syncTimeFw": dict.fromkeys(fw, 3.0),
        "syncTimeBw": dict.fromkeys(bw, 0.0),
        **fields,
    }


def sample():
    return {
        "maxDevices": 3,
        "maxMemoryPerDevice": 80000000000.0,
        "bandwidth": 2.5,
        "mbsInBatch": 12,
        "nodes": [
            {"id": 0, "name": "t", "TMPCs": {"1": [way(bw=("7",))], "2": [way(bw=("7",))]}},
            {
                "id": 7,
                "name": "t",
                "TMPCs": {"1": [way(fw=("0",)), way("activation recomp", fw=("0",))]},
            },
            {"id": 9, "name": "head", "TMPCs": {"1": [way()]}, "other": 1},
        ],
        "edges": [{"sourceId": 0, "destId": 7, "communicationCost": 4.5}],
    }


def test_sample(tmp_path):
    path = store(tmp_path, sample(), "small.json")
    problem = read_hybrid(path)
    assert run.read(path)[0].name == "hybrid"
    assert problem.name == "small"
    assert [layer.name for layer in problem.layers] == ["t#0", "t#7", "head"]
    assert problem.degrees == (1, 2)
    entry = problem.layers[1].configurations[1][1]
    assert (entry.name, entry.recomputes) == ("activation recomp", True)
    assert (entry.seconds, entry.parameter_bytes) == (Fraction(1, 10), 8)
    assert entry.flight_bytes == Fraction("1274019.8399999999")
    assert (entry.receive_bytes, entry.send_bytes) == ({"t#0": 3}, {})
    assert not problem.layers[1].configurations[1][0].recomputes
    assert (problem.flows[0].source, problem.flows[0].bytes) == ("t#0", Fraction(9, 2))
    assert problem.limits == Limits(3, Fraction(80_000_000_000), Fraction(5, 2), 12)


def test_every_defect_is_named(tmp_path):
    document = sample()
    document["nodes"][1]["id"] = 0
    document["nodes"][0]["TMPCs"]["two"] = [way(fw=("x",))]
    document["nodes"][2]["TMPCs"]["1"][0]["syncTimeBw"] = {"0": 1.0}
    document["edges"].append({"sourceId": 0, "destId": 5, "communicationCost": 1})
    path = store(tmp_path, document, "bad.json")
    with pytest.raises(InputError) as caught:
        read_hybrid(path)
    text = str(caught.value)
    for part in (
        "nodes[0].id: found 0 in 2 nodes",
        "nodes[0].TMPCs['two']: found 'two'",
        "nodes[0].TMPCs['two'][0].syncTimeFw: found 'x'",
        "nodes[2].TMPCs['1'][0].syncTimeBw: found '0'",
        "edges[1].destId: found unknown node 5",
        "bad.json",
    ):
        assert part in text


def test_types_circles_and_other_files(tmp_path):
    document = sample()
    document["nodes"][0]["TMPCs"]["1"][0]["timePerSample"] = -1
    del document["bandwidth"]
    with pytest.raises(InputError) as caught:
        read_hybrid(store(tmp_path, document, "types.json"))
    assert {"bandwidth", "nodes[0].TMPCs['1'][0].timePerSample"} <= {
        finding.where for finding in caught.value.findings
    }
    document = sample()
    document["edges"].append({"sourceId": 7, "destId": 0, "communicationCost": 1})
    with pytest.raises(InputError, match=r"circle\.json: edges: found a circle"):
        read_hybrid(store(tmp_path, document, "circle.json"))
    with pytest.raises(InputError, match="members maxDevices"):
        read_hybrid(store(tmp_path, {"nodes": []}, "other.json"))


def test_the_reader_of_schedule_problems_refuses_it(tmp_path):
    with pytest.raises(InputError, match="JSON with the members maxDevices"):
        read(store(tmp_path, sample(), "small.json"))


def test_plan_file_round_trip(tmp_path):
    limits = Limits(3, Fraction(1, 3), Fraction(5), 12, tensor=False)
    stages = (Stage((Choice("t#0", "vanilla"), Choice("t#7", "x")), 2, 1), Stage((), 1, 2))
    for plan in (
        HybridPlan("small", stages),
        HybridPlan("small", stages, limits, "f" * 64, 10**30, "hand", {"why": "test"}),
    ):
        path = tmp_path / "plan.json.gz"
        write_document(path, hybrid_plan_to_json(plan))
        assert read_hybrid_plan(path) == plan


def test_plan_file_defects(tmp_path):
    plan = {"format": "milp-plan-hybrid-plan", "version": 1, "problem": "p", "stages": []}
    limits = {"devices": 0, "memory_bytes": "many", "bandwidth_bytes_per_s": 1, "micro_batches": 1}
    with pytest.raises(InputError, match=r"limits\.memory_bytes: found 'many'"):
        read_hybrid_plan(store(tmp_path, plan | {"limits": limits}, "words.json"))
    limits["memory_bytes"] = 1
    with pytest.raises(InputError, match=r"limits\.devices: found 0"):
        read_hybrid_plan(store(tmp_path, plan | {"limits": limits}, "none.json"))
    with pytest.raises(InputError, match="milp-plan-hybrid-plan"):
        read_hybrid_plan(store(tmp_path, {"format": "milp-plan-plan"}, "plan.json"))
    path = store(tmp_path, plan, "plan.json")
    with pytest.raises(InputError, match="found a plan file"):
        read(path)


@needs_public("piper")
def test_public_files():
    sizes = {
        path.stem: (len(problem.layers), len(problem.flows), problem.degrees)
        for path in sorted(HOME.glob("*.json"))
        for problem in [read_hybrid(path)]
    }
    assert sizes == {
        "bert32a100": (37, 67, (1, 2, 4, 8)),
        "gnmt": (78, 104, (1,)),
        "resnet": (177, 193, (1,)),
    }


def test_what_is_written_is_read_again(tmp_path):
    problem = read_hybrid(store(tmp_path, sample(), "small.json"))
    again = tmp_path / "again" / "small.json"
    again.parent.mkdir()
    again.write_bytes(piper.to_json(problem))
    assert read_hybrid(again) == problem
    thirds = problem.with_limits(Limits(3, Fraction(1, 3), Fraction(1), 12))
    with pytest.raises(InputError, match="found 1/3, expected a decimal"):
        piper.to_json(thirds)
