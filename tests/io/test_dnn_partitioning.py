import json
from decimal import Decimal

import pytest

from milp_plan.core import InputError
from milp_plan.kinds.schedule.formats import read
from tests.support.public import public_file

from .samples import store


def node(number, **fields):
    return {
        "id": number,
        "name": f"node{number}",
        "supportedOnFpga": 1,
        "cpuLatency": 28.699999999999996,
        "fpgaLatency": 2.8699999999999997,
        "isBackwardNode": 0,
        "size": 100.0,
        **fields,
    }


def sample():
    return {
        "maxFPGAs": 2,
        "maxCPUs": 1,
        "maxSizePerFPGA": 1000.0,
        "nodes": [
            node(1, colorClass=7, layerId=3),
            node(2, size=0, fpgaLatency=0),
            node(3, name="node2", supportedOnFpga=False),
            node(4, isBackwardNode=True, colorClass=7),
        ],
        "edges": [
            {"sourceId": 1, "destId": 2, "cost": 0.125, "size": 9.0},
            {"sourceId": 1, "destId": 3, "cost": 0.125},
            {"sourceId": 1, "destId": 2, "cost": 0.125},
            {"sourceId": 2, "destId": 4, "cost": 0},
        ],
    }


def test_sample(tmp_path):
    problem = read(store(tmp_path, sample(), "small.json"))
    graph, cluster, scale = problem.graph, problem.cluster, problem.units.time_scale
    assert problem.name == "small"
    assert [operator.name for operator in graph.operators] == [
        "node1",
        "node2#2",
        "node2#3",
        "node4",
    ]
    durations = graph.operator("node1").option("run").duration_ticks
    assert Decimal(durations["accelerator"]) / scale == Decimal("2.8699999999999997")
    assert Decimal(durations["cpu"]) / scale == Decimal("28.699999999999996")
    assert graph.operator("node2#2").option("run").duration_ticks["accelerator"] == 0
    assert set(graph.operator("node2#3").option("run").duration_ticks) == {"cpu"}
    assert graph.groups == {"colour 7": ("node1", "node4")}
    assert graph.operator("node1").block == "layer 3"
    assert graph.operator("node4").kind == "backward"
    out = graph.value("node1:out")
    assert out.consumers == ("node2#2", "node2#3")
    assert (out.bytes["full"], Decimal(out.payload("full")) / scale) == (0, Decimal("0.125"))
    assert cluster.channel("accelerator0", "cpu0").transfer_ticks(out.payload("full")) == scale // 8
    assert graph.value("node4:held").bytes == {"full": 100}
    assert not graph.has_value("node2#2:held")
    assert not graph.has_value("node4:out")
    assert [device.memory_bytes for device in cluster.devices] == [1000, 1000, None]
    assert len(cluster.channels) == 6
    assert (problem.units.time, cluster.communication) == ("ms", "endpoint")
    assert "2006.16423" in problem.provenance["paper"]


def test_unnamed_nodes_are_named_by_number(tmp_path):
    document = sample()
    for entry in document["nodes"]:
        del entry["name"]
    problem = read(store(tmp_path, document))
    assert [operator.name for operator in problem.graph.operators] == ["#1", "#2", "#3", "#4"]


def test_folders_give_the_name(tmp_path):
    folder = tmp_path / "latency-inputs" / "LayerGraphs"
    folder.mkdir(parents=True)
    path = store(folder, sample(), "net_inference.json")
    assert read(path).name == "latency-layer-net_inference"


@pytest.mark.parametrize(
    ("damage", "where", "found"),
    [
        (lambda d: d["edges"][1].update(cost=0.25), "edges[1].cost", "0.25"),
        (lambda d: d["edges"][0].update(destId=9), "edges[0].destId", "unknown node 9"),
        (lambda d: d["nodes"][1].update(id=1), "nodes[0].id", "1 in 2 nodes"),
        (lambda d: d["nodes"][0].update(size=0.5), "nodes[0].size", "0.5"),
        (lambda d: d.update(maxSizePerFPGA=1.5), "maxSizePerFPGA", "1.5"),
        (lambda d: d["nodes"][2].update(cpuLatency=-1), "nodes[2].cpuLatency", "-1"),
        (lambda d: d["nodes"][2].update(cpuLatency="x"), "nodes[2].cpuLatency", '"x"'),
        (lambda d: d["nodes"][2].pop("size"), "nodes[2].size", "nothing"),
        (lambda d: d["edges"].append({"sourceId": 4, "destId": 1, "cost": 1}), "edges", "cycle"),
        (lambda d: d["nodes"][2].update(size=1e12, supportedOnFpga=1), "", ""),
    ],
)
def test_defects(tmp_path, damage, where, found):
    document = sample()
    damage(document)
    path = store(tmp_path, document)
    if not where:  # too large for an accelerator, but the CPU has no limit
        assert read(path).graph.value("node2#3:held").bytes == {"full": 10**12}
        return
    with pytest.raises(InputError) as caught:
        read(path)
    findings = {finding.where: finding for finding in caught.value.findings}
    assert findings[where].found.startswith(found)
    assert all(finding.file == str(path) for finding in caught.value.findings)


def test_numbers_out_of_range(tmp_path):
    path = tmp_path / "huge.json"
    path.write_text(json.dumps(sample()).replace("2.8699999999999997", "1e999"))
    with pytest.raises(InputError, match=r"huge\.json"):
        read(path)


# file -> accelerators, nodes, edges, accelerator work in ms, counted independently of the reader
COUNTED = {
    "throughput-inputs/LayerGraphs/bert24_inference": (6, 32, 55, 92.4),
    "throughput-inputs/LayerGraphs/bert24_training": (6, 64, 110, 217.8),
    "throughput-inputs/LayerGraphs/gnmt_inference": (6, 96, 122, 182.6),
    "throughput-inputs/LayerGraphs/gnmt_training": (6, 192, 244, 520.5),
    "throughput-inputs/LayerGraphs/inceptionv3_inference": (6, 326, 363, 311.0),
    "throughput-inputs/LayerGraphs/inceptionv3_training": (6, 652, 726, 710.7),
    "throughput-inputs/LayerGraphs/resnet50_inference": (6, 177, 193, 201.5),
    "throughput-inputs/LayerGraphs/resnet50_training": (6, 354, 386, 462.4),
    "throughput-inputs/OperatorGraphs/bert_l-3_inference": (3, 235, 250, 49.4),
    "throughput-inputs/OperatorGraphs/bert_l-3_training": (3, 600, 817, 123.0),
    "throughput-inputs/OperatorGraphs/bert_l-6_inference": (3, 418, 448, 77.5),
    "throughput-inputs/OperatorGraphs/bert_l-6_training": (3, 1071, 1462, 192.9),
    "throughput-inputs/OperatorGraphs/bert_l-12_inference": (6, 783, 843, 642.8),
    "throughput-inputs/OperatorGraphs/bert_L-12_training": (6, 2012, 2751, 1891.7),
    "throughput-inputs/OperatorGraphs/resnet50_inference": (6, 604, 619, 325.1),
    "throughput-inputs/OperatorGraphs/resnet50_training": (6, 1243, 1806, 684.9),
    "latency-inputs/LayerGraphs/bert24_inference": (5, 32, 55, 92.4),
    "latency-inputs/LayerGraphs/gnmt_inference": (6, 96, 122, 182.6),
    "latency-inputs/LayerGraphs/inceptionv3_inference": (12, 326, 363, 311.0),
    "latency-inputs/LayerGraphs/resnet50_inference": (14, 177, 193, 201.5),
    "latency-inputs/OperatorGraphs/bert_l-3_inference": (4, 235, 250, 49.4),
    "latency-inputs/OperatorGraphs/bert_l-6_inference": (6, 418, 448, 77.5),
    "latency-inputs/OperatorGraphs/bert_l-12_inference": (8, 783, 843, 642.8),
    "latency-inputs/OperatorGraphs/resnet50_inference": (9, 604, 619, 325.1),
}


@pytest.mark.parametrize("name", COUNTED)
def test_benchmark_file(name):
    path = public_file(f"dnn-partitioning/{name}.json")
    problem = read(path)
    graph = problem.graph
    edges = sum(len(v.consumers) for v in graph.values if not v.persistent)
    work = sum(o.option("run").duration_ticks["accelerator"] for o in graph.operators)
    accelerators = [d for d in problem.cluster.devices if d.device_class == "accelerator"]
    milliseconds = float(Decimal(work) / problem.units.time_scale)
    assert (len(accelerators), len(graph.operators), edges) == COUNTED[name][:3]
    assert milliseconds == pytest.approx(COUNTED[name][3], abs=0.06)
    source = json.loads(path.read_text())
    held = sum(v.bytes["full"] for v in graph.values if v.persistent)
    assert held == sum(entry["size"] for entry in source["nodes"])
