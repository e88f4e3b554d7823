"""Alpha-beta collectives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.core import Channel
from milp_plan.cost.collectives import (
    all_gather_ns,
    all_reduce_ns,
    all_to_all_ns,
    point_to_point_ns,
    reduce_scatter_ns,
)
from milp_plan.cost.devices import LinkSpec

# one byte per tick, 7 ticks of latency
LINK = LinkSpec("test", 10**9, 7, 1000)


def test_formulas():
    assert all_gather_ns(LINK, 4, 100) == 3 * 7 + 75
    assert reduce_scatter_ns(LINK, 4, 100) == 3 * 7 + 75
    assert all_to_all_ns(LINK, 4, 100) == 3 * 7 + 75
    assert all_reduce_ns(LINK, 4, 100) == 6 * 7 + 150
    assert point_to_point_ns(LINK, 100) == 107


def test_rounds_up():
    assert all_gather_ns(LINK, 3, 100) == 2 * 7 + 67


def test_efficiency_counts():
    assert point_to_point_ns(LinkSpec("half", 10**9, 7, 500), 100) == 207


@pytest.mark.parametrize("collective", [all_gather_ns, reduce_scatter_ns, all_reduce_ns])
def test_one_device_needs_no_collective(collective):
    assert collective(LINK, 1, 10**9) == 0


@pytest.mark.parametrize(("devices", "num_bytes"), [(0, 1), (2, -1)])
def test_nonsense_is_refused(devices, num_bytes):
    with pytest.raises(ValueError, match="expected at least"):
        all_reduce_ns(LINK, devices, num_bytes)


@given(st.integers(1, 64), st.integers(0, 10**15))
def test_all_reduce_is_reduce_scatter_and_all_gather(devices, num_bytes):
    parts = reduce_scatter_ns(LINK, devices, num_bytes) + all_gather_ns(LINK, devices, num_bytes)
    assert parts - 1 <= all_reduce_ns(LINK, devices, num_bytes) <= parts


@given(st.integers(0, 10**15))
def test_point_to_point_agrees_with_the_channel(num_bytes):
    channel = Channel("a", "b", LINK.latency_ns, LINK.achieved_bytes_per_s)
    assert point_to_point_ns(LINK, num_bytes) == channel.transfer_ticks(num_bytes)
