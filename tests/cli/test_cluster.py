"""``cluster``, and files of clusters wherever a cluster is named."""

import json
from pathlib import Path

import networkx
import pytest

import milp_plan as mp
from milp_plan.cli.exits import Exit
from milp_plan.io.cluster_file import read_cluster
from milp_plan.io.suite_file import read_suite
from milp_plan.study.tasks import expand

from .cases import REPOSITORY, call

HOME = REPOSITORY / "examples" / "cluster"
RACKS = HOME / "two-racks.toml"


def test_show_names_sources() -> None:
    reported = json.loads(call("cluster", "show", RACKS, "--json").stdout)
    assert (reported["devices"], reported["channels"]) == (8, 56)
    assert "an adapter shared by 4" in reported["figures"]["link spine"]
    assert "link NVLink4" in call("cluster", "show", "2xH100").stdout


def test_calibrate_and_generate(tmp_path: Path) -> None:
    """Measured links go from tables into a file, and from it into a problem and what it says."""
    new = tmp_path / "measured.toml"
    given = ("--send", HOME / "sends.csv", "--all-reduce", HOME / "all-reduces.csv")
    done = call("cluster", "calibrate", RACKS, *given, "--date", "2026-11-20", "-o", new)
    assert done.exit_code == Exit.DONE
    assert "median error" in done.stdout
    made = tmp_path / "i.json"
    words = ("--mode", "inference", "--batch", "4", "-o", made)
    assert call("generate", "gpt-tiny", new, *words).exit_code == Exit.DONE
    problem = mp.read(made)
    assert problem.name == "gpt-tiny-inference-two-racks-b4"
    reported = problem.provenance["link rail"]
    assert "measured: sends.csv, 5 rows, 2026-11-20" in reported
    assert str(problem.cluster.channel("left0.0", "left1.0").bandwidth_bytes_per_s) in reported
    assert mp.generate("gpt-tiny", str(new), mode="inference", batch=4).fingerprint == (
        problem.fingerprint
    )


def test_links_that_a_file_says_are_not_asked_again(tmp_path: Path) -> None:
    words = ("--link", "PCIe4", "-o", tmp_path / "i.json")
    done = call("generate", "gpt-tiny", RACKS, *words)
    assert done.exit_code == Exit.BAD_INPUT
    assert "the file of the cluster says them" in done.stderr


def test_options_and_meshes_on_own_devices(tmp_path: Path) -> None:
    """Splits and meshes ask the file for links and rates, not the named classes."""
    (tmp_path / "own.toml").write_text(
        'format = "milp-plan-cluster"\nversion = 1\nname = "own"\n'
        '[[devices]]\nname = "chip"\nmemory_gb = 8\ntflops = 10\ngb_per_s = 100\nsource = "us"\n'
        '[[links]]\nname = "wire"\ngb_per_s = 1\nus = 1\nsource = "us"\n'
        '[[nodes]]\nname = "n"\ndevices = "2xchip"\nlink = "wire"\n'
    )
    path = tmp_path / "own.toml"
    split = mp.generate("gpt-tiny", path, mode="inference", batch=1, options=["column2"])
    alone = mp.generate("gpt-tiny", path, mode="inference", batch=1)
    assert any(len(op.options) > 1 for op in split.graph.operators)
    assert set(alone.graph.operators[0].options[0].duration_ticks) == {"chip"}
    assert mp.generate("gpt-tiny", path, sharding="2", batch=2).limit == 8 * 10**9
    assert mp.Model(cluster=path).provenance["link wire"].endswith("; us")


def test_a_captured_model_is_placed_on_own_machines(tmp_path: Path) -> None:
    captured = REPOSITORY / "instances" / "captures" / "gpt2-tiny.capture.json.gz"
    made = tmp_path / "i.json"
    done = call("capture", captured, RACKS, "-o", made)
    assert done.exit_code == Exit.DONE, done.stderr
    problem, racks = mp.read(made), read_cluster(RACKS)
    assert problem.cluster.device_names == racks.device_names
    assert problem.cluster.communication is racks.communication
    assert "adapter shared by 4" in problem.provenance["link spine"]


def test_a_suite_makes_instances_for_own_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is seen from the suite, and says how transfers share links."""
    (tmp_path / "racks.toml").write_bytes(RACKS.read_bytes())
    suite = tmp_path / "tiny.toml"
    suite.write_text(
        'title = "Own"\n[[recipes]]\nname = "own"\narchitecture = "gpt-tiny"\n'
        'cluster = "racks.toml"\nmode = "inference"\nbatch = 4\n'
    )
    monkeypatch.chdir(tmp_path.parent)
    found = expand(read_suite(suite))
    assert not found.missing
    (task,) = found.tasks
    direct = mp.generate("gpt-tiny", RACKS, mode="inference", batch=4)
    assert task.source is not None
    assert task.source.fingerprint == direct.fingerprint


def test_a_graph_is_placed_on_own_machines() -> None:
    graph: networkx.DiGraph[str] = networkx.DiGraph(name="two")
    graph.add_node("a", duration=2e-3)
    graph.add_node("b", duration=1e-3)
    graph.add_edge("a", "b", bytes="10MB")
    racks = read_cluster(RACKS)
    for cluster in (RACKS, str(RACKS), racks):
        problem = mp.from_networkx(graph, cluster)
        assert problem.cluster == racks
    outcome = mp.solve(problem, time_limit=20)
    assert mp.check(problem, outcome.plan).ok


def test_a_mesh_is_of_one_class() -> None:
    """Devices of the group that forms it count, not the first class of the cluster."""
    found = mp.generate("gpt-tiny", "2xH100+4xA100-40GB", sharding="2x2", mode="inference")
    assert found.limit == 40 * 10**9


def test_bad_files_end_with_their_findings(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(b"\xff\xfe\x00")
    for words in (("cluster", "show", path), ("generate", "gpt-tiny", path)):
        done = call(*words)
        assert done.exit_code == Exit.BAD_INPUT
        assert "bad.toml" in done.stderr
    calibrate = ("cluster", "calibrate", RACKS, "-o", tmp_path / "new.toml")
    assert call(*calibrate).exit_code == Exit.USAGE
