from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.core import Channel, ceil_div, exact_scale, to_ticks

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)
decimals = st.decimals(min_value=0, max_value=10**6, places=4).map(float)


def _said(number):
    """The exact number that the literal stands for."""
    return Fraction(Decimal(repr(number)))


@given(st.lists(st.one_of(decimals, finite, st.integers(-(10**20), 10**20)), max_size=8))
def test_scaling_is_exact(numbers):
    scale = exact_scale(numbers)
    for number in numbers:
        assert Fraction(to_ticks(number, scale), scale) == _said(number)


@given(st.lists(decimals, min_size=1, max_size=8))
def test_the_scale_is_the_smallest(numbers):
    scale = exact_scale(numbers)
    for prime in (2, 5):  # all that divides a power of ten
        if scale % prime == 0:
            assert any((_said(n) * (scale // prime)).denominator != 1 for n in numbers)


def test_a_float_is_the_decimal_that_prints_it():
    assert exact_scale([0.1, 0.25, 3]) == 20
    assert to_ticks(0.1, 20) == 2
    assert exact_scale([]) == exact_scale([1, 2]) == 1
    assert to_ticks(10**30, 1) == 10**30
    assert to_ticks(1e-7, 10**7) == 1


def test_a_scale_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match=r"0\.1 times 4"):
        to_ticks(0.1, 4)


@given(st.integers(-(10**20), 10**20), st.integers(1, 10**10))
def test_ceil_div(numerator, denominator):
    result = ceil_div(numerator, denominator)
    assert (result - 1) * denominator < numerator <= result * denominator


def test_transfer_time_rounds_up():
    channel = Channel("a", "b", 5, 3 * 10**9)  # 3 bytes per tick
    assert [channel.transfer_ticks(n) for n in (0, 1, 3, 4)] == [5, 6, 6, 7]
    # 2 messages: twice the latency, and one more tick of rounding.
    assert channel.transfer_ticks(4, messages=2) == 5 + 5 + 2 + 1


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=5),
    st.integers(0, 10**6),
    st.integers(1, 10**12),
)
def test_the_parts_of_a_bundle_fit_into_its_time(parts, latency, bandwidth):
    channel = Channel("a", "b", latency, bandwidth)
    one_by_one = sum(channel.transfer_ticks(part) for part in parts)
    assert one_by_one <= channel.transfer_ticks(sum(parts), messages=len(parts))
