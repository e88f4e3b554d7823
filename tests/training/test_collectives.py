"""Traffic of collectives against formulas written out by hand."""

import pytest

from milp_plan.kinds.training.collectives import Group, point_to_point


def test_ring_all_reduce_in_a_node_sends_twice_all_but_a_share() -> None:
    traffic = Group(ranks=8, stride=1, node_devices=8).all_reduce(1_000_000)
    assert traffic.node_bytes == pytest.approx(2 * 7 / 8 * 1_000_000)
    assert traffic.network_bytes == 0
    assert traffic.rounds == 2 * 3


def test_all_gather_over_nodes_sends_the_share_of_a_rank_between_them() -> None:
    """16 ranks, 4 in each of 4 nodes: 3/4 in the node, then 3/4 of the quarter."""
    group = Group(ranks=16, stride=2, node_devices=8)
    assert (group.inner, group.outer) == (4, 4)
    traffic = group.all_gather(800)
    assert traffic.node_bytes == pytest.approx(600)
    assert traffic.network_bytes == pytest.approx(150)


def test_ranks_a_node_apart_use_the_network_alone() -> None:
    traffic = Group(ranks=4, stride=8, node_devices=8).reduce_scatter(1_000)
    assert traffic.node_bytes == 0
    assert traffic.network_bytes == pytest.approx(750)


def test_all_to_all_splits_by_where_ranks_are() -> None:
    traffic = Group(ranks=32, stride=1, node_devices=8).all_to_all(3_200)
    assert traffic.node_bytes == pytest.approx(700)
    assert traffic.network_bytes == pytest.approx(2_400)


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
def test_one_rank_sends_nothing(name: str) -> None:
    assert not any(getattr(Group(1, 8, 8), name)(10**10))


def test_a_message_takes_one_kind_of_link() -> None:
    assert point_to_point(5.0, across_nodes=True)[:2] == (0.0, 5.0)
    assert point_to_point(5.0, across_nodes=False)[:2] == (5.0, 0.0)
