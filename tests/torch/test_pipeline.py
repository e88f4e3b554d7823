"""A captured model as a pipeline: cut, ordered, run on several processes, equal to one process."""

from pathlib import Path

import pytest

from milp_plan.capture.stages import read_stages
from milp_plan.cli.exits import Exit
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.command_model import captured_stages
from milp_plan.kinds.pipeline.experts import EXPERTS
from milp_plan.kinds.pipeline.torch_schedule import torch_schedule_csv
from milp_plan.run import Settings, solve
from tests.cli.cases import call

pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = f"{Path(__file__).parent / 'four_gpt2.py'}:build"
BATCHES = 6


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Number of stages -> captured instance and stage file."""
    folder = tmp_path_factory.mktemp("stages")
    graph = folder / "g.capture.json"
    options = ("--stages", "--eager")
    made = call(
        *("capture", MODEL, "2xA100", *options, "--dtype", "float64"),
        *("--graph", graph, "-o", folder / "first.json"),
    )
    assert made.exit_code == Exit.DONE, made.output
    found = {}
    for count in (2, 4, 8):
        instance, plan, stages = (folder / f"{name}{count}.json" for name in ("i", "p", "s"))
        piece = ("--granularity", "module" if count == 8 else "block")
        assert call("capture", graph, f"{count}xA100", *options, *piece, "-o", instance)
        solved = call("solve", instance, "--time-limit", "30", "--plan-output", plan)
        assert solved.exit_code == Exit.DONE, solved.output
        assert "contiguous" in solved.stdout
        done = call(
            *("export", instance, "--plan", plan, "--format", "torch-stages", "-o", stages),
        )
        assert done.exit_code == Exit.DONE, done.output
        assert len(read_stages(stages).stages) == count
        found[count] = instance, stages
    return found


def planned(kind: str, processes: int, stages: Path):
    """Problem and plan of a schedule: two experts, and our own under the memory of 1F1B."""
    model = captured_stages(stages, None)
    family = "v" if kind == "zb_v" else "line"
    free = build(Case(model, processes, BATCHES, family, joint_backward=kind == "1f1b")).problem
    if kind != "own":
        return free, EXPERTS[kind](free)
    joint = build(Case(model, processes, BATCHES, joint_backward=True)).problem
    limit = max(model_peaks(joint, EXPERTS["1f1b"](joint)))
    problem = build(Case(model, processes, BATCHES, memory=limit)).problem
    return problem, solve(problem, Settings(time_limit_s=10, threads=1)).plan


def model_peaks(problem, plan):
    from milp_plan.check import verify

    parts = verify(problem, plan).components
    return [size for name, size in parts.items() if name.startswith("peak_memory")]


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("kind", ["1f1b", "zb_v", "own"])
def test_a_pipeline_has_the_gradients_of_one_process(cut, tmp_path, kind, processes):
    instance, stages = cut[processes * 2 if kind == "zb_v" else processes]
    problem, plan = planned(kind, processes, stages)
    schedule = tmp_path / "s.csv"
    schedule.write_text(torch_schedule_csv(problem, plan))
    result = call(
        *("run", instance, stages, MODEL, "--schedule", schedule, "--dtype", "float64"),
        *("--processes", str(processes)),
    )
    assert result.exit_code == Exit.DONE, result.output
    assert "largest difference of 52 gradients" in result.stdout
    assert result.stdout.count("measured") == processes
