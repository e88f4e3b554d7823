"""The chain of the study of memory ways: its search is exact on small chains."""

import pytest

from benchmarks.memory_saving import HALVES, chain, complaints, least_recomputed
from tests.support.memory_saving_brute import brute_force_ways


@pytest.mark.parametrize(("memory", "layers"), [(2, 2), (2, 3), (3, 3)])
def test_the_search_over_sets_is_the_optimum(memory, layers):
    found = brute_force_ways(chain(memory, 1.0, (True, False), layers))
    assert found is not None
    assert found[0] == least_recomputed(memory, layers) * HALVES


def test_less_memory_never_takes_less_time():
    times = [least_recomputed(memory, 8) for memory in range(2, 9)]
    assert times == sorted(times, reverse=True)
    assert times[-1] == 24
    assert times[0] > 30


def test_a_slower_value_or_a_fuller_device_is_reported():
    row = {"transfer": 3.0, "memory": 8}
    for name, value in (("recompute", 40.0), ("offload", 39.0), ("both", 40.0)):
        row |= {name: value, f"known_{name}": 38, f"{name}_peak": 9}
    stated = complaints([row])
    assert len(stated) == 1 + 3 + 3
