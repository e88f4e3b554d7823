"""The study of measured training steps: what it counts, on rows that are written out here."""

import csv

import pytest

from milp_plan.kinds.training.calibrate import samples
from milp_plan.kinds.training.efficiency import shipped
from milp_plan.kinds.training.measured import measured_rows

COLUMNS = ("layers", "hidden", "heads", "seq", "gpu", "gpus", "tp", "pp", "micro_batch")
RUNS = [
    # tensor, pipeline, micro-batch, seconds
    (1, 1, 1, 5.0),
    (1, 2, 2, 4.0),
    (2, 1, 4, 3.0),
    (4, 1, 8, 2.0),
    (2, 2, 1, 6.0),
]


@pytest.fixture
def study(script):
    return script("measured_training")


@pytest.fixture
def runs():
    made = [
        dict(zip(COLUMNS, map(str, (8, 1024, 16, 512, "A100", 8, tp, pp, batch)), strict=True))
        | {"global_batch": "64", "step_time_s": str(seconds)}
        for tp, pp, batch, seconds in RUNS
    ]
    return samples(measured_rows(made), shipped("megatron-2021"))


def test_regret_is_over_the_best_measured_run(study, runs):
    found = study.scores(runs, [1.0, 2.0, 3.0, 4.0, 5.0], [True] * 5)
    assert (found["groups"], found["hits"]) == (1, 0)
    assert found["mean"] == pytest.approx(5.0 / 2.0 - 1)
    perfect = study.scores(runs, [seconds for *_, seconds in RUNS], [True] * 5)
    assert (perfect["hits"], perfect["mean"], perfect["error"]) == (1, 0, 0)
    assert perfect["spearman"] == pytest.approx(1.0)


def test_we_choose_among_those_that_fit_or_among_all(study, runs):
    values = [seconds for *_, seconds in RUNS]
    assert study.scores(runs, values, [True, True, True, False, True])["mean"] == 0.5
    assert study.scores(runs, values, [False] * 5)["mean"] == 0


def test_groups_of_fewer_than_five_do_not_count(study, runs):
    found = study.scores(runs[:4], [1.0, 2.0, 3.0, 4.0], [True] * 4)
    assert found["groups"] is None
    assert found["rows"] == 4


def test_rules_and_a_random_choice(study, runs):
    """R1 takes tensor 1, pipeline 1: 5 s; R2 the same; random 4 s; the best is 2 s."""
    found = study.rules(runs)
    assert found["R1"]["mean"] == pytest.approx(1.5)
    assert found["R2"]["mean"] == pytest.approx(1.5)
    assert found["random"]["mean"] == pytest.approx(1.0)


def test_a_missing_folder_is_absent_with_its_reason(study, monkeypatch, tmp_path):
    monkeypatch.setenv("MILP_PLAN_BENCHMARKS", str(tmp_path))
    for case in ({"set": "BLOOM"}, {"set": "Primus", "micro_batches": 8, "sequence": 2048}):
        found = study.measure(case)
        assert found["stop"] == "absent"
        assert "MILP_PLAN_BENCHMARKS" in found["reason"]


def test_nanotron_gives_the_head_the_weight_of_four_layers(script):
    """1B: 20 layers' worth over two devices; the first takes until 10 is passed."""
    row = {"hidden": "2048", "layers": "16", "ffn": "8192", "vocab": "131072"}
    split = script("training_rows").nanotron_split
    assert split(row | {"pp": "2"}) == [11, 5]
    assert split(row | {"pp": "4"}) == [6, 5, 5, 0]
    assert sum(split(row | {"pp": "32"})) == 16


def test_runs_that_ran_and_crashed_are_dropped(script):
    row = {
        **{"model": "1B", "layers": "16", "hidden": "2048", "heads": "32", "kv_heads": "32"},
        **{"ffn": "8192", "vocab": "131072", "tied": "1", "seq": "4096", "params_B": "1.342"},
        **{"gpu": "H100-80GB", "gpus": "8", "dp": "8", "tp": "1", "pp": "1", "micro_batch": "2"},
        **{"grad_acc": "16", "zero_stage": "0", "gpu_memory_gb": "50", "tokens_per_s": "1000"},
    }
    crash = row | {"status": "crashed_or_oom", "tokens_per_s": "", "gpu_memory_gb": ""}
    other = row | {"micro_batch": "4", "grad_acc": "8", "status": "measured"}
    rows = [row | {"status": "measured"}, crash, other]
    kept = list(script("training_rows").SETS["Ultrascale"].rows(iter(rows)))
    assert [each["micro_batch"] for each in kept] == ["4"]
    (run,) = measured_rows(kept)
    assert run.configuration.global_batch == 256


@pytest.mark.slow
def test_held_out_runs_meet_their_targets(study):
    """BLOOM alone: five fits to 80 runs."""
    if not (study.folder() / "runs.csv").is_file():
        pytest.skip("MILP_PLAN_BENCHMARKS has no measured-training/runs.csv")
    found = study.measure({"set": "BLOOM"})
    assert found["models"]["error"] < 0.12
    assert found["models"]["rows"] == 80


def test_every_public_row_is_read_or_has_no_time(script):
    sets = script("training_rows").SETS
    folder = script("training_fit").folder()
    if not (folder / "runs.csv").is_file():
        pytest.skip("MILP_PLAN_BENCHMARKS has no measured-training/runs.csv")
    with (folder / "vtrain-single.csv").open() as lines:
        rows = len(list(csv.DictReader(lines)))
    assert len(sets["vTrain, one node"].read(folder)) == rows
    assert len(sets["vTrain, 64 to 512"].read(folder)) > 5
    assert all(run.step_s for run in sets["BLOOM"].read(folder))
