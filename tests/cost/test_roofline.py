"""Roofline times."""

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from milp_plan.cost.devices import DEVICES, device_spec
from milp_plan.cost.roofline import roofline_ns

AMOUNT = st.integers(0, 10**18)


def test_compute_bound():
    spec = device_spec("A100")
    # 312e12 flop/s at 70 %: one second of work takes 1/0.7 seconds
    assert roofline_ns(spec, 312 * 10**12, 0) == 1_428_571_429 + spec.launch_ns


def test_memory_bound():
    spec = device_spec("H100")
    assert roofline_ns(spec, 1, 3_350 * 10**9) == 1_176_470_589 + spec.launch_ns


def test_nothing_to_do_costs_the_launch():
    spec = device_spec("V100")
    assert roofline_ns(spec, 0, 0) == spec.launch_ns


@given(st.sampled_from(sorted(DEVICES)), AMOUNT, AMOUNT)
def test_exact_and_rounded_up(name, flops, num_bytes):
    spec = DEVICES[name]
    rates = (
        Fraction(flops * 10**9 * 1000, spec.peak_flops_per_s * spec.compute_permille),
        Fraction(num_bytes * 10**9 * 1000, spec.memory_bytes_per_s * spec.memory_permille),
    )
    assert roofline_ns(spec, flops, num_bytes) == ceil(max(rates)) + spec.launch_ns
