"""``generate`` and ``convert``."""

from __future__ import annotations

from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import CommunicationModel, Objective
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.sharding.iopddl import read_iopddl

from .cases import INSTANCES, call, instance_file

TINY = ("generate", "gpt-tiny", "2xA100", "--granularity", "block")


def test_generate_with_every_option(tmp_path: Path) -> None:
    path = tmp_path / "made.json.gz"
    result = call(
        *(*TINY, "--mode", "inference", "--batch", "4", "--micro-batches", "2"),
        *("--split", "all2", "--memory-scale", "0.5", "--communication", "endpoint"),
        *("--objective", "peak_memory", "--link", "PCIe4", "--name", "mine", "-o", path),
    )
    assert result.exit_code == Exit.DONE
    made = read(path)
    assert result.stdout == f"{path}: mine, {len(made.graph.operators)} operators\n"
    assert made.name == "mine"
    assert made.objective is Objective.PEAK_MEMORY
    assert made.cluster.communication is CommunicationModel.ENDPOINT
    assert made.cluster.devices[0].memory_bytes == 40 * 10**9
    assert any(option.gang == 2 for operator in made.graph.operators for option in operator.options)


def test_generate_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*TINY).exit_code == Exit.DONE
    (path,) = tmp_path.iterdir()
    assert path.name == f"{read(path).name}.json"


def test_generate_with_a_mesh(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    result = call(*TINY, "--mode", "inference", "--batch", "2", "--mesh", "2", "-o", path)
    assert result.exit_code == Exit.DONE
    (option, *_) = [o for o in read(path).graph.operators[0].options if o.gang == 2]
    assert option.name.startswith("2 ")


def test_generate_a_sharding_problem(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    result = call(*TINY, "--batch", "2", "--sharding", "2", "--zero", "3", "-o", path)
    assert result.exit_code == Exit.DONE
    problem = read_iopddl(path)
    assert problem.limit == 80 * 10**9
    assert result.stdout == f"{path}: gpt-tiny-training-2xA100-b2, 5 operators\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((*TINY, "--zero", "2"), Exit.USAGE, "--zero goes with --mesh or --sharding"),
        ((*TINY, "--sharding", "2", "--split", "all2"), Exit.USAGE, "--split"),
        ((*TINY, "--mesh", "2", "--micro-batches", "2"), Exit.BAD_INPUT, "1 with meshes"),
        (("generate", "gpt-huge", "2xA100"), Exit.BAD_INPUT, "gpt2-small"),
        (("generate", "gpt-tiny", "two A100"), Exit.BAD_INPUT, "<count>x<class>"),
        (("generate", "gpt-tiny", "2xB100"), Exit.BAD_INPUT, "one of A100"),
        ((*TINY, "--mode", "guessing"), Exit.USAGE, "training"),
        ((*TINY, "--batch", "0"), Exit.USAGE, "--batch"),
    ],
)
def test_generate_refuses(
    arguments: tuple[str, ...],
    code: Exit,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert not list(tmp_path.iterdir())


def test_convert_keeps_the_problem(tmp_path: Path) -> None:
    source = INSTANCES / "memory-forces-delay.json"
    copy = tmp_path / "copy.json.gz"
    assert call("convert", source, copy).exit_code == Exit.DONE
    assert read(copy).fingerprint == read(source).fingerprint


def test_convert_with_another_objective(tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    call("convert", instance_file(tmp_path), copy, "--objective", "peak_memory")
    assert read(copy).objective is Objective.PEAK_MEMORY


def test_convert_refuses_formats_that_are_only_read(tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    result = call("convert", instance_file(tmp_path), copy, "--format", "dnn-partitioning")
    assert result.exit_code == Exit.USAGE
    assert "native" in result.stderr
    assert not copy.exists()


def test_convert_into_a_missing_folder(tmp_path: Path) -> None:
    result = call("convert", instance_file(tmp_path), tmp_path / "no" / "copy.json")
    assert result.exit_code == Exit.USAGE
    assert "there is no folder" in result.stderr
