"""Measured layers in place of a model: hand calculations, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.kinds.training import Configuration, Precision, Recompute, Schedule, api
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.efficiency import Efficiency, shipped
from milp_plan.kinds.training.problem import TrainingPlan, TrainingProblem
from milp_plan.kinds.training.profile import read_profile
from milp_plan.kinds.training.space import Space
from tests.cli.cases import call
from tests.support.training import answered

HEAD = "name,kind,forward_ms,backward_ms,activation_bytes,parameters,weight_ms,output_bytes"
LAYERS = (
    ("stem", "conv", 3, 5, 4_000_000_000, 10_000, 2, 1_000_000),
    ("one", "block", 10, 20, 2_000_000_000, 50_000_000, "", 2_000_000),
    ("two", "block", 10, 20, 2_000_000_000, 50_000_000, "", 3_000_000),
    ("loss", "head", 1, 2, 0, 7, "", ""),
)


def written(folder: Path, *rows: tuple[object, ...], head: str = HEAD) -> Path:
    path = folder / "net.csv"
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def problem_of(path: Path, samples: int = 4, batch: int = 32) -> TrainingProblem:
    return api.training_problem(read_profile(path, samples), "2xA100", global_batch=batch)


def ideal(problem: TrainingProblem) -> PlanCosts:
    """Costs in which nothing but the measured layers takes time."""
    fast = shipped()
    rates = replace(fast.rates("A100"), memory=1e12, node=1e12, network=1e12, latency_ns=0.0)
    software = replace(fast.software, launch_ns=0.0, step_ns=0.0)
    return PlanCosts(replace(problem, efficiency=Efficiency({"A100": rates}, software)))


def test_a_step_is_the_sum_of_its_layers(tmp_path: Path) -> None:
    problem = problem_of(written(tmp_path, *LAYERS))
    assert problem.architecture.all_parameters == 100_010_007
    costs = ideal(problem)
    alone = Configuration(data=2, micro_batch=4, micro_batches=4)
    assert problem.why_not(alone) is None
    assert costs.step(alone).total_ns == pytest.approx(4 * 71_000_000, abs=10)
    use = costs.memory(alone)[0]
    assert use.activations_bytes == 8 * 10**9
    assert use.weights_bytes == 2 * 100_010_007
    chunk = costs.priced(alone).chunks[0]
    times = (chunk.forward_ns, chunk.backward_ns, chunk.weight_ns)
    assert times == pytest.approx((24e6, 24e6, 23e6))
    again = replace(alone, recompute=Recompute.FULL)
    assert costs.step(again).total_ns == pytest.approx(4 * 95_000_000, abs=10)
    assert costs.memory(again)[0].activations_bytes == 6_000_000


def test_a_pipeline_is_cut_where_the_slowest_stage_is_the_shortest(tmp_path: Path) -> None:
    problem = problem_of(written(tmp_path, *LAYERS))
    two = Configuration(
        pipeline=2, micro_batch=4, micro_batches=8, schedule=Schedule.ONE_F_ONE_B, layers=(2, 2)
    )
    assert ideal(problem).step(two).total_ns == pytest.approx((8 * 38 + 33) * 1e6, abs=10)
    answer = answered(replace(problem, fixed={"pipeline": 2}))
    assert answer.proved
    assert answer.best is not None
    values = []
    for cut in range(1, 4):
        for schedule in (Schedule.ONE_F_ONE_B, Schedule.ZB_H1):
            cuts = replace(two, layers=(cut, 4 - cut), schedule=schedule)
            values.append(api.check(problem, cuts).value or 0)
    assert answer.best.step_ns <= min(values)


def test_what_was_measured_on_one_device_is_not_split(tmp_path: Path) -> None:
    problem = problem_of(written(tmp_path, *LAYERS))
    base = Configuration(data=2, micro_batch=4, micro_batches=4)
    for broken, words in (
        (replace(base, tensor=2, data=1, micro_batches=8), "measured on one device"),
        (replace(base, micro_batch=2, micro_batches=8), "measured with 4 samples"),
        (replace(base, precision=Precision.FP8), "as they are"),
        (replace(base, recompute=Recompute.ATTENTION), "no parts"),
    ):
        verdict = api.check(problem, broken)
        assert {v.rule for v in verdict.violations} == {"degrees"}
        assert words in " ".join(v.message for v in verdict.violations)
    head = HEAD[: HEAD.index(",weight")]
    short = problem_of(written(tmp_path, *(row[:6] for row in LAYERS), head=head))
    again = api.check(short, replace(base, recompute=Recompute.FULL))
    assert "output_bytes" in again.violations[0].message


def test_samples_of_measured_layers_are_counted_whatever_the_sequence(tmp_path: Path) -> None:
    """With a sequence the rate was that of its tokens, and called samples."""
    layers = read_profile(written(tmp_path, *LAYERS), 4)
    problem = api.training_problem(layers, "2xA100", global_batch=32, sequence=1000)
    plan = TrainingPlan("", None, Configuration(data=2, micro_batch=4, micro_batches=4))
    step = api.check(problem, plan).value
    assert step is not None
    text = str(api.answer_for(problem, plan))
    assert f" {32 / 2 / (step / 1e9):,.1f} samples/s a device" in text


@pytest.mark.parametrize(
    ("cluster", "batch", "words"),
    [
        ("2xA100+2xH100", 32, "measured on one class of devices"),
        ("2xA100", 30, "the measured micro-batch of 4 does not divide the batch of 30"),
    ],
)
def test_why_measured_layers_have_no_configuration(
    tmp_path: Path, cluster: str, batch: int, words: str
) -> None:
    layers = read_profile(written(tmp_path, *LAYERS), 4)
    problem = api.training_problem(layers, cluster, global_batch=batch)
    assert words in Space(problem, {}).why_empty()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("a", "b", "x", 1, 1, 1), "row 2, forward_ms: found 'x'"),
        (("a", "b", 1, "-1", 1, 1), "row 2, backward_ms: found '-1'"),
        (("a", "b", 1, 1, 1.5, 1), "row 2, activation_bytes: found '1.5'"),
        (("a", "b", 1, 1, 1, ""), "row 2, parameters: found nothing"),
        (("", "b", 1, 1, 1, 1), "row 2, name: found nothing"),
        (("a", "b", 1, 1, 1, 1, 2), "row 2, weight_ms: found '2'"),
        (("a", "b", 1, 1, 1, 1, "nan"), "row 2, weight_ms: found 'nan'"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(
    tmp_path: Path, row: tuple[object, ...], words: str
) -> None:
    with pytest.raises(InputError, match=r"net\.csv") as caught:
        read_profile(written(tmp_path, row))
    assert words in str(caught.value)


def test_missing_columns_rows_and_names_of_two_layers_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="columns kind, backward_ms, act"):
        read_profile(written(tmp_path, ("a", 1), head="name,forward_ms"))
    with pytest.raises(InputError, match="rows: found none"):
        read_profile(written(tmp_path))
    with pytest.raises(InputError, match="'stem' 2 times"):
        read_profile(written(tmp_path, LAYERS[0], LAYERS[0]))


def test_the_verb_reads_layers_and_checks_its_plan(tmp_path: Path) -> None:
    profile, plan = written(tmp_path, *LAYERS), tmp_path / "plan.json"
    size = ("--profile-batch", "4", "--global-batch", "32")
    asked = ("train", "2xA100", "--profile", profile, *size)
    done = call(*asked, "--plan-output", plan)
    assert done.exit_code == Exit.DONE, done.stderr
    for words in ("samples/s a device", "1 conv", "2 block", "of layers measured"):
        assert words in done.stdout
    assert "MFU" not in done.stdout
    data = json.loads(call(*asked, "--check", plan, "--json").stdout)
    assert data["valid"]
    refused = call(*asked, "--export", "megatron", "-o", tmp_path / "run.sh")
    assert refused.exit_code == Exit.USAGE
    for typed, why in (
        (("train", "llama3-8b", "2xA100", *size), "--profile-batch 4 would do nothing"),
        ((*asked, "--sequence", "1024"), "--sequence 1024 would do nothing"),
        (("train", "llama3-8b", *asked[1:]), "CLUSTER alone beside --profile"),
    ):
        failed = call(*typed)
        assert failed.exit_code == Exit.USAGE
        assert why in failed.stderr
