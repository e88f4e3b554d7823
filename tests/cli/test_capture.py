"""``capture`` on captured graphs, which need no PyTorch, and what it refuses."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest

from milp_plan.capture.placements import processes, read_placements, require_placements_of
from milp_plan.capture.record import read_capture
from milp_plan.cli.exits import Exit
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.sharding.iopddl import read_iopddl

from .cases import INSTANCES, call

TINY = INSTANCES / "captures" / "gpt2-tiny.capture.json.gz"


def test_an_instance_of_a_captured_graph(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    result = call("capture", TINY, "2xA100", "-o", path, "--granularity", "module")
    assert result.exit_code == Exit.DONE
    made = read(path)
    assert result.stdout == f"{path}: gpt2-tiny-training, {len(made.graph.operators)} operators\n"
    assert "75 kernels of 289 nodes; 0.004 GFLOP forward, 0.007 backward" in result.stderr
    assert "5 kernels without a module" in result.stderr
    assert "without counted FLOPs" in result.stderr


def test_every_option(tmp_path: Path) -> None:
    path, graph = tmp_path / "made.json", tmp_path / "graph.json.gz"
    result = call(
        *("capture", TINY, "2xA100", "-o", path, "--graph", graph, "--eager"),
        *("--optimizer", "sgd", "--flops", "aten.gelu=8", "--memory-scale", "1/2"),
        *("--communication", "endpoint", "--link", "PCIe4", "--objective", "peak_memory"),
        *("--name", "mine"),
    )
    assert result.exit_code == Exit.DONE
    made = read(path)
    assert made.name == "mine"
    assert made.cluster.devices[0].memory_bytes == 40 * 10**9
    assert not [value for value in made.graph.values if value.name.endswith(".state")]
    kernels = json.loads(gzip.decompress(graph.read_bytes()))["kernels"]
    assert [k["flops"] for k in kernels if k["operator"].startswith("aten.gelu.")] == [65_536] * 2
    again = tmp_path / "again.json"
    assert call("capture", graph, "2xA100", "--name", "mine", "-o", again).exit_code == Exit.DONE


def test_a_choice_of_placements_is_made_and_exported(tmp_path: Path) -> None:
    path, plan = tmp_path / "made.json", tmp_path / "plan.json"
    asked = ("--sharding", "2", "--memory-scale", "1/4", "--name", "mine")
    result = call("capture", TINY, "2xA100", *asked, "-o", path)
    assert result.exit_code == Exit.DONE
    made = read_iopddl(path)
    assert (made.name, made.limit) == ("mine", 20 * 10**9)
    starts = made.strategies.offsets.tolist()
    whole = [
        next(pick for pick, label in enumerate(made.labels[a:b]) if not {"S", "P"} & set(label))
        for a, b in pairwise(starts)
    ]
    plan.write_text(json.dumps(whole))
    for kind in ("torch-placements", "hf-tp-plan"):
        out = tmp_path / f"{kind}.json"
        written = call("export", path, "--plan", plan, "--format", kind, "-o", out)
        assert written.exit_code == Exit.DONE, written.output
    require_placements_of(read_placements(tmp_path / "torch-placements.json"), read_capture(TINY))
    assert json.loads((tmp_path / "hf-tp-plan.json").read_text()) == {}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((TINY, "2xB999"), Exit.BAD_INPUT, "one of A100"),
        ((TINY, "2xA100", "--sharding", "4"), Exit.BAD_INPUT, "ask for fewer"),
        ((TINY, "2xA100", "--sharding", "2", "--eager"), Exit.USAGE, "does not go with --eager"),
        ((TINY, "2xA100", "--sharding", "2", "--stages"), Exit.USAGE, "not go with --stages"),
        (
            (TINY, "2xA100", "--sharding", "2", "--granularity", "block"),
            Exit.USAGE,
            "does not go with --granularity",
        ),
        ((TINY, "2xA100", "--dtype", "bfloat16"), Exit.USAGE, "--dtype needs a model to build"),
        (
            (TINY, "2xA100", "--device", "cpu", "--profile"),
            Exit.USAGE,
            "--device and --profile need a model to build",
        ),
        ((TINY, "2xA100", "--dimension", "b=2"), Exit.USAGE, "goes with an ONNX file"),
        ((TINY, "2xA100", "--mode", "inference"), Exit.BAD_INPUT, "ask for --mode training"),
        ((TINY, "2xA100", "--flops", "aten.mm"), Exit.USAGE, "write OPERATOR=NUMBER"),
        ((TINY, "2xA100", "--flops", "a.b=2"), Exit.BAD_INPUT, "an operator of the model"),
        (("no.capture.json", "2xA100"), Exit.BAD_INPUT, "no such file"),
        (("no_model.py:build", "2xA100"), Exit.BAD_INPUT, "no such file"),
        (("no_model.py:1x", "2xA100"), Exit.BAD_INPUT, "FILE.py:FUNCTION"),
        ((INSTANCES / "gpt-tiny-training-2xA100.json", "2xA100"), Exit.BAD_INPUT, "format"),
    ],
)
def test_what_is_refused(arguments, code, said, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("capture", *arguments)
    assert result.exit_code == code
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_user_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def build():\n    return 1\n\nFLOPS = {'a::b': 3}\n")
    Path("wrong.py").write_text("import nothing_of_that_name\n")
    assert "no function 'other'" in call("capture", "mine.py:other", "2xA100").stderr
    assert "one of build" in call("capture", "mine.py:other", "2xA100").stderr
    assert "FLOPS of another form" in call("capture", "mine.py", "2xA100").stderr
    said = call("capture", "wrong.py:build", "2xA100")
    assert said.exit_code == Exit.BAD_INPUT
    assert "nothing_of_that_name" in said.stderr


def test_placements_to_start_from_are_of_the_graph(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    result = call("capture", TINY, "4xA100", "-o", tmp_path / "i.json", "--placements", file)
    assert result.exit_code == Exit.DONE, result.stderr
    made = read_placements(file)
    require_placements_of(made, read_capture(TINY))
    assert processes(made) == 4
    assert set("".join([*made.inputs.values(), *made.gradients.values()])) == {"R"}
