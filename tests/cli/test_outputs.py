"""Outputs: none destroys anything, and one that cannot be written takes nothing else along."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milp_plan import run
from milp_plan.cli import outputs
from milp_plan.cli.exits import Exit
from milp_plan.cli.outputs import Content, content_of
from milp_plan.io import files
from tests.report.plans import two_devices

from .cases import INSTANCES, VALUE_NS, call, instance_file, plan_file
from .outcomes import outcome, runner


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, where a run finds the plan of two devices."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "solve", runner(outcome))
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "two-devices.json", "--plan-output", "two-devices.json"),
        ("solve", "two-devices.json", "--solution", "two-devices.json"),
        ("solve", "two-devices.json", "--start", "plan.json", "--plan-output", "plan.json"),
        ("solve", "two-devices.json", "--plot", "link.png"),
        ("convert", "two-devices.json", "two-devices.json"),
        ("export", "two-devices.json", "--format", "lp", "-o", "two-devices.json"),
        (
            *("export", "two-devices.json", "--format", "perfetto"),
            *("--plan", "plan.json", "-o", "plan.json"),
        ),
        ("plot", "two-devices.json", "plan.json", "-o", "link.png"),
    ],
)
def test_an_input_is_never_written(arguments: tuple[str, ...], here: Path) -> None:
    instance, plan = instance_file(here), plan_file(here)
    (here / "link.png").symlink_to(instance)
    before = instance.read_bytes(), plan.read_bytes()
    result = call(*arguments)
    assert result.exit_code == Exit.USAGE
    assert "is an input of this command; name another file" in result.stderr
    assert (instance.read_bytes(), plan.read_bytes()) == before


@pytest.mark.parametrize(
    ("there", "option", "words"),
    [
        ("other.json", "--plan-output", "holds an instance, not a plan"),
        ("record.json", "--plan-output", "holds a record of a run, not a plan"),
        ("notes.txt", "--plan-output", "holds something else, not a plan"),
        ("broken.gz", "--plan-output", "holds something else, not a plan"),
        ("other.png", "--plot", "holds an instance, not a picture"),
    ],
)
def test_another_kind_of_file_is_never_overwritten(
    there: str, option: str, words: str, here: Path
) -> None:
    instance = instance_file(here)
    call("solve", instance, "--quiet")
    (record,) = [path for path in here.glob("results/runs/*.json") if ".plan." not in path.name]
    contents = {
        "other.json": instance.read_bytes(),
        "record.json": record.read_bytes(),
        "notes.txt": b"do not lose me",
        "broken.gz": b"\x1f\x8bnonsense",
        "other.png": (INSTANCES / "gang-beats-single.json").read_bytes(),
    }
    target = here / there
    target.write_bytes(contents[there])
    result = call("solve", instance, option, target)
    assert result.exit_code == Exit.USAGE
    assert words in result.stderr
    assert target.read_bytes() == contents[there]


def test_its_own_kind_is_overwritten(here: Path) -> None:
    instance = instance_file(here)
    options = ("--plan-output", here / "best.json", "--plot", here / "best.png")
    (here / "best.json").touch()  # as mktemp leaves it
    for _ in range(2):
        assert call("solve", instance, *options, "--quiet").exit_code == Exit.DONE
    assert content_of(here / "best.json") is Content.PLAN
    assert content_of(here / "best.png") is Content.PICTURE


def test_one_file_for_two_outputs(here: Path) -> None:
    options = ("--plan-output", "same.png", "--plot", "./same.png")
    result = call("solve", instance_file(here), *options)
    assert result.exit_code == Exit.USAGE
    assert "is the file of --plan-output as well" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has no /dev/null")
def test_a_device_is_no_output(here: Path) -> None:
    result = call("solve", instance_file(here), "--plan-output", "/dev/null")
    assert result.exit_code == Exit.USAGE
    assert "/dev/null is no regular file" in result.stderr


@pytest.mark.parametrize("command", ["generate", "pipeline", "table"])
def test_other_commands_do_not_overwrite_another_kind(command: str, here: Path) -> None:
    plan = plan_file(here, name="there.json")
    arguments = {
        "generate": ("gpt-tiny", "2xA100", "-o", plan),
        "pipeline": ("--stages", "2", "--micro-batches", "2", "--instance-output", plan),
        "table": ("-o", plan),
    }
    before = plan.read_bytes()
    result = call(command, *arguments[command])
    assert result.exit_code == Exit.USAGE
    assert "holds a plan, not" in result.stderr
    assert plan.read_bytes() == before


@pytest.mark.parametrize("as_json", [False, True])
def test_a_full_disk_hides_no_answer_and_stops_no_other_file(
    *, as_json: bool, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "write_atomic", _full(("plan.json", "mine.json")))
    options = ["--json"] if as_json else []
    mine, picture = here / "mine.json", here / "timeline.svg"
    result = call(
        *("solve", instance_file(here), "--plan-output", mine, "--plot", picture, *options),
        "--quiet",
    )
    assert result.exit_code == Exit.USAGE
    lost = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lost) == 2
    assert all(line.endswith("not written: No space left on device") for line in lost)
    assert lost[1].startswith(f"error: {mine}: ")
    assert picture.is_file()
    assert len(list(here.glob("results/runs/*.json"))) == 1  # the record
    if as_json:
        reported = json.loads(result.stdout)
        assert reported["value"] == VALUE_NS
        assert reported["plan_file"] is None
        assert reported["plot_file"] == str(picture)
        assert reported["exit_code"] == Exit.USAGE
        assert [f"error: {text}" for text in reported["errors"]] == lost
    else:
        assert result.stdout.startswith("two-devices: makespan 14 µs\n")


def _full(names: tuple[str, ...]) -> Any:
    """A writer of files on a disk that has no room for some."""
    write = files.write_atomic

    def try_to_write(path: str | Path, data: bytes) -> None:
        if str(path).endswith(names):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    return try_to_write


def test_contents_are_distinguished(here: Path) -> None:
    instance, plan = instance_file(here), plan_file(here)
    for name in ("lp", "mps"):
        model = here / f"model.{name}"
        assert call("export", instance, "--format", name, "-o", model).exit_code == Exit.DONE
        assert content_of(model) is Content.MODEL
    trace = here / "trace.json"
    call("export", instance, "--format", "perfetto", "--plan", plan, "-o", trace)
    assert content_of(trace) is Content.EXPORT
    assert content_of(instance) is Content.INSTANCE
    (here / "solution").write_text("[0, 1, 2]")
    assert content_of(here / "solution") is Content.PLAN
    call("solve", instance)
    for name in ("table.md", "table.json"):
        options = ["--json"] if name.endswith("json") else []
        assert call("table", "-o", here / name, *options).exit_code == Exit.DONE
        assert content_of(here / name) is Content.TABLE
    assert set(outputs._SIGNS) | {Content.OTHER} == set(Content)


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "two-devices.json", "--plan-output", "no/such.json"),
        ("solve", "two-devices.json", "--plot", "no/such.svg"),
        ("diff", "plan.json", "plan.json", "--plot", "no/such.svg"),
        ("plot", "two-devices.json", "plan.json", "-o", "no/such.svg"),
        ("pack", "two-devices.json", "plan.json", "--plot", "no/such.svg"),
        ("sweep", "two-devices.json", "--devices", "1,2", "--plot", "no/such.svg"),
        ("pipeline", "--stages", "2", "--micro-batches", "2", "--plot", "no/such.svg"),
    ],
    ids=lambda words: f"{words[0]} {words[-2]}",
)
def test_no_command_makes_folders_for_a_file(arguments: tuple[str, ...], here: Path) -> None:
    """Pictures made theirs, and plans refused."""
    instance_file(here)
    plan_file(here)
    result = call(*arguments)
    assert result.exit_code == Exit.USAGE
    assert "there is no folder no" in result.stderr
    assert not (here / "no").exists()


def test_a_full_disk_leaves_no_instance_untried(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [instance_file(here, replace(two_devices(), name=name)) for name in ("one", "other")]
    monkeypatch.setattr(files, "write_atomic", _full(("plan.json",)))
    result = call("solve", *both, "--quiet")
    assert result.exit_code == Exit.USAGE
    assert result.stdout.count("makespan 14 µs") == 2
    lost = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lost) == 2
    assert all("plan.json: not written: No space left on device" in line for line in lost)
