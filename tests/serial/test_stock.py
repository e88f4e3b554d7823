"""Which calls devices still have room for."""

from itertools import product
from random import Random

import pytest

from milp_plan.kinds.placement.serial.stock import Stock, separate, shared


def packable(sizes: list[float], devices: int) -> bool:
    """Whether calls of these sizes fit on devices of size 1, two on each: by trying all."""
    if not sizes:
        return True
    if not devices:
        return False
    first, rest = sizes[0], sizes[1:]
    if packable(rest, devices - 1):
        return True
    return any(
        first + other <= 1 and packable(rest[:i] + rest[i + 1 :], devices - 1)
        for i, other in enumerate(rest)
    )


def walk(stock: Stock, steps: list[int]) -> int:
    state = 0
    for step in steps:
        state = -1 if state < 0 else int(stock.after[state, step])
    return state


@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_calls_that_fit_are_never_refused(devices: int) -> None:
    stock, rng, fitting, refused = shared(devices), Random(devices), 0, 0
    steps = stock.after.shape[1] - 1
    assert steps >= 4
    for _ in range(300):
        sizes = [max(0.0, rng.uniform(-0.1, 1.0)) for _ in range(rng.randint(1, 2 * devices))]
        state = walk(stock, [max(0, -int(-size * steps // 1) - 1) for size in sizes])
        if packable(sizes, devices):
            fitting += 1
            assert state >= 0
        refused += state < 0
    assert fitting > 30
    assert refused > 10


def test_a_call_that_keeps_its_device_leaves_the_others() -> None:
    two, one = shared(2), shared(1)
    steps = two.after.shape[1] - 1
    for calls in product(range(steps + 1), repeat=2):
        rest = list(calls)
        assert (walk(two, [steps, *rest]) >= 0) == (walk(one, rest) >= 0)
    assert walk(two, [steps, steps]) >= 0
    assert walk(two, [steps, steps, 0]) < 0


@pytest.mark.parametrize("stock", [shared(1), shared(2), separate(3), separate(4, 2)])
def test_a_state_covers_another_where_it_allows_the_same_and_more(stock: Stock) -> None:
    most = int(stock.made.max())
    kinds = range(stock.after.shape[1])
    words = [word for length in range(1, most + 1) for word in product(kinds, repeat=length)]
    if len(words) > 3000:
        words = Random(1).sample(words, 3000)
    allowed = []
    for state in range(len(stock.after)):
        found = set()
        for word in words:
            at = state
            for step in word:
                at = -1 if at < 0 else int(stock.after[at, step])
            if at >= 0:
                found.add(word)
        allowed.append(found)
        longest = max((len(word) for word in found), default=0)
        assert longest <= most - stock.made[state]
    compared = 0
    for a, b in product(range(len(allowed)), repeat=2):
        if stock.covers[a, b]:
            assert allowed[b] <= allowed[a]
            compared += a != b
    assert compared
    assert stock.covers.diagonal().all()


def test_number_alone_counts_where_devices_are_apart() -> None:
    assert walk(separate(3), [0, 0, 0]) == 3
    assert walk(separate(3), [0, 0, 0, 0]) < 0
    assert walk(separate(3), [1]) < 0
    assert walk(separate(4, 2), [1, 1]) == 4
    assert walk(separate(4, 2), [0, 0, 0, 1]) < 0
