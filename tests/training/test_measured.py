"""Rows of measured runs: what they mean, and one clear error for each that is wrong."""

import pytest

from milp_plan.core import InputError
from milp_plan.kinds.training import Recompute, Schedule
from milp_plan.kinds.training.blocks import Mlp
from milp_plan.kinds.training.measured import measured_rows, read_measured

ROW = {
    "model": "tiny",
    "layers": "16",
    "hidden": "2048",
    "heads": "32",
    "seq": "4096",
    "gpu": "H100-80GB",
    "gpus": "64",
    "tp": "2",
    "pp": "4",
    "micro_batch": "2",
    "global_batch": "256",
    "step_time_s": "1.5",
}


def test_a_row_is_a_model_a_cluster_a_configuration_and_a_time() -> None:
    (run,) = measured_rows([ROW | {"zero_stage": "1", "recompute": "selective"}])
    c = run.configuration
    assert (c.tensor, c.pipeline, c.data, c.micro_batch, c.micro_batches) == (2, 4, 8, 2, 16)
    assert (c.zero, c.recompute, c.schedule) == (1, Recompute.ATTENTION, Schedule.ONE_F_ONE_B)
    assert (run.device, run.cluster.devices, run.cluster.groups[0].nodes) == ("H100", 64, 8)
    assert (len(run.architecture.blocks), run.architecture.hidden, run.step_s) == (16, 2048, 1.5)
    assert not c.sequence_parallel


def test_published_parameters_tell_whether_blocks_are_gated() -> None:
    """1.342 billion with a vocabulary of 131072 that is shared: 16 blocks of 16 h^2."""
    known = {"vocab": "131072", "tied": "1", "ffn": "8192", "params_B": "1.342"}
    (run,) = measured_rows([ROW | known])
    assert run.architecture.blocks[0].feed_forward == Mlp(8192, gated=True)
    assert run.architecture.parameters == pytest.approx(1.342e9, rel=0.001)


def test_a_name_gives_the_dimensions() -> None:
    named = {name: value for name, value in ROW.items() if name not in ("layers", "hidden")}
    (run,) = measured_rows([named | {"model": "llama3-8b"}])
    assert run.architecture.parameters == pytest.approx(8.03e9, rel=0.001)


def test_tokens_per_second_give_the_step() -> None:
    (run,) = measured_rows([ROW | {"step_time_s": "", "tokens_per_s": "1048576"}])
    assert run.step_s == pytest.approx(1.0)


def test_layers_of_stages_and_virtual_ones() -> None:
    (run,) = measured_rows([ROW | {"stage_layers": "5-4-4-3"}])
    assert run.configuration.layers == (5, 4, 4, 3)
    (run,) = measured_rows([ROW | {"vpp": "2"}])
    assert run.configuration.schedule == Schedule.INTERLEAVED


def test_a_network_of_its_own() -> None:
    (run,) = measured_rows([ROW | {"network_gbit_per_s": "100"}])
    assert run.cluster.groups[0].levels[-1].link.bandwidth_bytes_per_s == 12_500_000_000


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"hidden": "wide"}, ("row 2, hidden", "'wide'", "a number")),
        ({"hidden": ""}, ("row 2, hidden", "nothing")),
        ({"layers": "0"}, ("row 2, layers", "from 1")),
        ({"heads": "30"}, ("row 2, heads", "divisor of hidden 2048")),
        ({"gpu": "Z80"}, ("row 2, gpu", "'Z80'", "H100")),
        ({"gpus": "60", "dp": "8"}, ("row 2, gpus", "product of tp, cp, dp and pp")),
        ({"global_batch": "100"}, ("row 2, global_batch", "multiple of dp x micro_batch, 16")),
        ({"recompute": "some"}, ("row 2, recompute", "attention")),
        ({"recompute": "offload", "gpu": "TPU-v5e"}, ("row 2, recompute", "hosts of TPU-v5e")),
        ({"step_time_s": ""}, ("row 2, step_time_s", "tokens_per_s")),
        ({"step_time_s": "0"}, ("row 2, step_time_s", "above 0")),
        ({"step_time_s": "nan"}, ("row 2, step_time_s", "a number")),
        ({"zero_stage": "-1"}, ("row 2, zero_stage",)),
        ({"stage_layers": "5-4-4"}, ("row 2, stage_layers", "4 numbers that sum to 16")),
        ({"sequence_parallel": "maybe"}, ("row 2, sequence_parallel",)),
    ],
)
def test_a_wrong_field_says_row_field_and_what_is_expected(
    changed: dict[str, str], words: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as raised:
        measured_rows([ROW | changed])
    (finding,) = raised.value.findings
    for word in words:
        assert word in str(finding)


def test_all_wrong_rows_of_a_file_are_listed_with_its_name(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("layers,hidden\n1,x\n2,y\n")
    with pytest.raises(InputError) as raised:
        read_measured(path)
    assert [finding.where for finding in raised.value.findings] == [
        "row 2, hidden",
        "row 3, hidden",
    ]
    assert all(finding.file == str(path) for finding in raised.value.findings)


def test_a_file_without_rows(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("layers,hidden\n")
    with pytest.raises(InputError, match="at least one row"):
        read_measured(path)


def test_a_crash_needs_no_time() -> None:
    (run,) = measured_rows([ROW | {"step_time_s": "", "status": "crashed_or_oom"}])
    assert run.crashed
    assert run.step_s is None
