"""``plot`` and ``export``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from tests.io.test_torch_schedule import AGAIN, LAST, rerun
from tests.report.plans import plan_of_two_devices

from .cases import INSTANCES, call, instance_file, late_plan, plan_file


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_plot(suffix: str, magic: bytes, tmp_path: Path) -> None:
    picture = tmp_path / f"timeline{suffix}"
    result = call("plot", instance_file(tmp_path), plan_file(tmp_path), "--output", picture)
    assert result.exit_code == Exit.DONE
    assert result.stdout == f"{picture}\n"
    assert result.stderr == ""
    assert picture.read_bytes().startswith(magic)


@pytest.mark.parametrize("name", ["$\\frac{a$", "$x_1$", "算子", "\x1b[31m"])
def test_plot_takes_names_literally(name: str, tmp_path: Path) -> None:
    text = instance_file(tmp_path).read_text().replace('"two-devices"', json.dumps(name))
    plan = plan_file(tmp_path).read_text().replace('"two-devices"', json.dumps(name))
    for operator in ("embed", "d0", "forward"):
        text = text.replace(f'"{operator}"', json.dumps(name + operator))
        plan = plan.replace(f'"{operator}"', json.dumps(name + operator))
    (tmp_path / "strange.json").write_text(text)
    (tmp_path / "strange.plan.json").write_text(plan)
    picture = tmp_path / "strange.svg"
    result = call("plot", tmp_path / "strange.json", tmp_path / "strange.plan.json", "-o", picture)
    assert (result.exit_code, result.stderr) == (Exit.DONE, "")
    assert picture.exists()


def test_plot_draws_a_broken_plan_and_says_so(tmp_path: Path) -> None:
    picture = tmp_path / "timeline.svg"
    plan = plan_file(tmp_path, late_plan())
    result = call("plot", instance_file(tmp_path), plan, "-o", picture)
    assert result.exit_code == Exit.DONE
    assert "not valid" in result.stderr
    assert picture.exists()


def test_plot_refuses_other_suffixes(tmp_path: Path) -> None:
    result = call("plot", tmp_path / "a", tmp_path / "b", "--output", tmp_path / "x.pdf")
    assert result.exit_code == Exit.USAGE
    assert ".png or .svg" in result.stderr


def test_plot_refuses_unknown_names(tmp_path: Path) -> None:
    plan = plan_of_two_devices()
    runs = (replace(plan.runs[0], operator="tail"), replace(plan.runs[1], devices=("d9",)))
    damaged = plan_file(tmp_path, replace(plan, runs=runs))
    result = call("plot", instance_file(tmp_path), damaged, "-o", tmp_path / "x.png")
    assert result.exit_code == Exit.BAD_INPUT
    assert f"{damaged}: device: found 'd9'" in result.stderr
    assert f"{damaged}: operator: found 'tail'" in result.stderr


def test_plot_needs_a_schedule(tmp_path: Path) -> None:
    plan = plan_of_two_devices()
    runs = tuple(replace(run, start_ticks=None, stop_ticks=None) for run in plan.runs)
    timeless = plan_file(tmp_path, replace(plan, runs=runs, transfers=()))
    result = call("plot", instance_file(tmp_path), timeless, "-o", tmp_path / "x.png")
    assert result.exit_code == Exit.BAD_INPUT
    assert "no schedule" in result.stderr


def test_export_of_a_trace(tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    result = call(
        *("export", instance_file(tmp_path), "--format", "perfetto"),
        *("--plan", plan_file(tmp_path), "--output", target),
    )
    assert result.exit_code == Exit.DONE
    names = {event["name"] for event in json.loads(target.read_text())["traceEvents"]}
    assert {"embed", "hidden to d1", "memory d0"} <= names


@pytest.mark.parametrize("format_name", ["perfetto", "torch-schedule"])
def test_export_of_a_plan_needs_a_plan(format_name: str, tmp_path: Path) -> None:
    result = call(
        "export", instance_file(tmp_path), "--format", format_name, "-o", tmp_path / "x.json"
    )
    assert result.exit_code == Exit.USAGE
    assert f"--format {format_name} needs --plan" in result.stderr


def pipeline_files(folder: Path, placement: str) -> tuple[Path, Path]:
    """An instance with two micro-batches, and a plan that runs one after the other."""
    problem = pipeline_problem("pipe", uniform(2, 2)[0], place(placement, 2))
    shop = shop_of(problem)
    assert shop is not None
    starts = [
        [6 * n + head for n in range(kind.count)]
        for kind, head in zip(shop.kinds, shop.heads, strict=True)
    ]
    if placement == "dualpipe":
        starts = [
            [start + 12 * kind.route for start in row]
            for kind, row in zip(shop.kinds, starts, strict=True)
        ]
    return instance_file(folder, problem), plan_file(folder, shop.plan(starts, "test"))


def test_export_of_a_schedule_for_torch(tmp_path: Path) -> None:
    instance, plan = pipeline_files(tmp_path, "line")
    target = tmp_path / "schedule.csv"
    command = ("export", instance, "--format", "torch-schedule", "--plan", plan)
    result = call(*command, "-o", target)
    assert result.exit_code == Exit.DONE
    assert result.stdout == f"{target}\n"
    assert result.stderr == ""
    assert target.read_text() == "0F0,0I0,0W0,0F1,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n"
    packed = call(*command, "-o", tmp_path / "schedule.csv.gz")
    assert packed.exit_code == Exit.USAGE
    assert "torch reads no compressed file" in packed.stderr


def test_what_a_schedule_for_torch_cannot_say_is_reported_next_to_it(tmp_path: Path) -> None:
    problem, plan = rerun(AGAIN, LAST)
    instance, file = instance_file(tmp_path, problem), plan_file(tmp_path, plan)
    target = tmp_path / "schedule.csv"
    done = call("export", instance, "--format", "torch-schedule", "--plan", file, "-o", target)
    assert done.exit_code == Exit.DONE
    assert target.read_text().startswith("0F0,0F1,0F2,0B0,0B1,0B2\n")
    assert f"{target}: stage 0 computes micro-batches 1, 2 again" in done.stderr


def test_a_table_is_an_exported_schedule_only_if_it_holds_one(tmp_path: Path) -> None:
    instance, plan = pipeline_files(tmp_path, "line")
    schedule, other = tmp_path / "schedule.csv", tmp_path / "offsets.csv"
    call("export", instance, "--format", "torch-schedule", "--plan", plan, "-o", schedule)
    other.write_text("id,lower,upper,size,offset\nb0,0,1,8,0\n")
    exported = "CSV that torch.distributed.pipelining runs (torch-schedule)"
    for file, named in ((schedule, True), (other, False)):
        result = call("check", instance, file)
        assert result.exit_code == Exit.BAD_INPUT
        assert (exported in result.stderr) == named, result.stderr


def test_export_for_torch_refuses_what_torch_cannot_run(tmp_path: Path) -> None:
    instance, plan = pipeline_files(tmp_path, "dualpipe")
    target = tmp_path / "schedule.csv"
    result = call("export", instance, "--format", "torch-schedule", "--plan", plan, "-o", target)
    assert result.exit_code == Exit.BAD_INPUT
    assert f"error: {plan}: stage 0: found copies on d0 and d1" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not target.exists()


def test_export_for_torch_refuses_a_broken_plan(tmp_path: Path) -> None:
    target = tmp_path / "schedule.csv"
    result = call(
        *("export", instance_file(tmp_path), "--format", "torch-schedule", "-o", target),
        *("--plan", plan_file(tmp_path, late_plan())),
    )
    assert result.exit_code == Exit.BAD_INPUT
    assert "the plan is not valid, so torch would not run what was planned" in result.stderr
    assert not target.exists()


@pytest.mark.parametrize("format_name", ["lp", "mps"])
def test_export_of_a_model(format_name: str, tmp_path: Path) -> None:
    target = tmp_path / f"model.{format_name}"
    result = call(
        *("export", instance_file(tmp_path), "--format", format_name, "-o", target),
        *("--option", "symmetry=false", "--plan", plan_file(tmp_path)),
    )
    assert result.exit_code == Exit.DONE
    assert "columns" in result.stderr
    assert "place(" in target.read_text()


def test_export_of_the_coarse_model_is_smaller(tmp_path: Path) -> None:
    source = INSTANCES / "two-tower-tiny-inference-2xH100.json"
    sizes = []
    for target in ((), ("--target", "2")):
        path = tmp_path / f"model{len(sizes)}.lp"
        result = call("export", source, "--format", "lp", "-o", path, *target)
        assert result.exit_code == Exit.DONE
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0]


def test_export_refuses_a_cutoff_from_a_broken_plan(tmp_path: Path) -> None:
    result = call(
        *("export", instance_file(tmp_path), "--format", "lp", "-o", tmp_path / "x.lp"),
        *("--plan", plan_file(tmp_path, late_plan())),
    )
    assert result.exit_code == Exit.BAD_INPUT
    assert "no cutoff" in result.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--formulation", "no_such"), Exit.USAGE, "expected one of "),
        (("--formulation", "no_such.py"), Exit.BAD_INPUT, "no_such"),
        (("--option", "colour=red"), Exit.USAGE, "no such option"),
        (
            ("--formulation", "max_load"),
            *(Exit.BAD_INPUT, "max_load does not apply"),
        ),
    ],
)
def test_export_refuses(options: tuple[str, ...], code: Exit, words: str, tmp_path: Path) -> None:
    target = tmp_path / "x.lp"
    result = call("export", instance_file(tmp_path), "--format", "lp", "-o", target, *options)
    assert result.exit_code == code
    assert words in result.stderr
    assert not target.exists()
