"""Ways to split a layer."""

import pytest

from milp_plan.core import InputError
from milp_plan.cost.clusters import cluster
from milp_plan.cost.collectives import all_gather_ns, all_reduce_ns, all_to_all_ns
from milp_plan.cost.devices import LINKS, LinkSpec, device_spec
from milp_plan.cost.roofline import roofline_ns
from milp_plan.cost.strategies import (
    SINGLE,
    WAY_SPLITS,
    Work,
    durations_ticks,
    layout_bytes,
    layout_gang,
    parse_labels,
    reshard_table,
    ways,
)

FOUR = cluster("4xA100")
GB = 10**9


def way(label, *, batch=8, pointwise=False):
    (_, found) = ways(WAY_SPLITS, parse_labels([label], FOUR), batch=batch, pointwise=pointwise)
    return found


def test_labels():
    assert parse_labels(["column2", "row4", "column2"], FOUR) == (("column", 2), ("row", 4))
    assert parse_labels(["all2"], FOUR) == tuple((split, 2) for split in WAY_SPLITS)


@pytest.mark.parametrize("label", ["diagonal2", "column", "column1", "2column"])
def test_unknown_labels(label):
    with pytest.raises(InputError, match=r"all, copy, batch, column, row, head, tensor, expert"):
        parse_labels([label], FOUR)


def test_gang_without_group():
    with pytest.raises(InputError, match=r"\[2, 4\]"):
        parse_labels(["column8"], FOUR)


def test_megatron_pair_needs_no_reshard_between():
    first, second = way("column2"), way("row2")
    assert (first.reads, first.writes) == ("full", "column2")
    assert (second.reads, second.writes) == ("column2", "full")
    assert first.writes == second.reads
    assert first.reduces_input_gradient
    assert second.reduces_output


def test_heads_and_pointwise_layers_fit_between():
    assert (way("head2").reads, way("head2").writes) == ("column2", "column2")
    gelu = way("column2", pointwise=True)
    assert (gelu.reads, gelu.writes) == ("column2", "column2")
    assert not gelu.reduces_input_gradient


def test_batch_must_divide():
    asked = parse_labels(["batch4", "batch2"], FOUR)
    names = [found.name for found in ways(["batch"], asked, batch=6, pointwise=False)]
    assert names == ["single", "batch2"]


def test_only_what_the_layer_allows():
    asked = parse_labels(["all2"], FOUR)
    assert ways((), asked, batch=8, pointwise=False) == (SINGLE,)


def test_layouts():
    assert [layout_gang(name) for name in ("full", "column2", "batch16")] == [1, 2, 16]
    assert [layout_bytes(7, name) for name in ("full", "column2", "batch4")] == [7, 4, 2]


def test_durations_divide_the_work_and_add_the_collective():
    spec = device_spec("A100")
    link = LinkSpec("group", LINKS["NVLink3"].achieved_bytes_per_s, 2_000, 1000)
    work = Work(10**12, 2 * GB, 3 * GB, reduced_bytes=GB)
    assert durations_ticks(work, SINGLE, FOUR) == {"A100": roofline_ns(spec, 10**12, 5 * GB)}
    row = roofline_ns(spec, 10**12 // 2, GB + 3 * GB // 2) + all_reduce_ns(link, 2, GB)
    assert durations_ticks(work, way("row2"), FOUR) == {"A100": row}
    # batch splits leave the weights whole; copies divide nothing
    whole = Work(10**12, 2 * GB, 3 * GB)
    assert durations_ticks(whole, way("batch2"), FOUR) == {
        "A100": roofline_ns(spec, 10**12 // 2, 4 * GB)
    }
    assert durations_ticks(whole, way("copy2"), FOUR) == durations_ticks(whole, SINGLE, FOUR)


def test_experts_exchange_tokens():
    link = LinkSpec("group", LINKS["NVLink3"].achieved_bytes_per_s, 2_000, 1000)
    with_tokens = durations_ticks(Work(0, GB, exchanged_bytes=GB), way("expert4"), FOUR)["A100"]
    without = durations_ticks(Work(0, GB), way("expert4"), FOUR)["A100"]
    assert with_tokens - without == all_to_all_ns(link, 4, GB // 4)


def test_collectives_run_over_the_links_of_the_cluster():
    work = Work(0, 0, reduced_bytes=GB)
    slow = cluster("2xA100", link="PCIe4")
    assert (
        durations_ticks(work, way("row2"), slow)["A100"]
        > 5 * (durations_ticks(work, way("row2"), FOUR)["A100"])
    )


def test_every_class_has_a_duration():
    mixed = cluster("2xH100+1xA100")
    ticks = durations_ticks(Work(10**12, 0, reduced_bytes=GB), way("row2"), mixed)
    assert ticks["H100"] < ticks["A100"]


def test_reshard_table():
    table = reshard_table(GB, ["full", "batch2", "batch4", "column2"], FOUR)
    link = LinkSpec("group", LINKS["NVLink3"].achieved_bytes_per_s, 2_000, 1000)
    assert len(table) == 12
    assert table["full", "batch2"] == table["full", "column2"] == 0
    assert table["batch2", "batch4"] == 0
    assert table["batch2", "full"] == all_gather_ns(link, 2, GB)
    assert table["batch4", "batch2"] == all_gather_ns(link, 2, GB // 2)
    assert table["batch2", "column2"] == all_to_all_ns(link, 2, GB // 2)


def test_reshard_uses_the_slowest_class():
    pair = ["full", "batch2"]
    mixed = reshard_table(GB, pair, cluster("2xH100+2xA100"))
    assert mixed["batch2", "full"] == reshard_table(GB, pair, FOUR)["batch2", "full"]
    assert mixed["batch2", "full"] > reshard_table(GB, pair, cluster("2xH100"))["batch2", "full"]
