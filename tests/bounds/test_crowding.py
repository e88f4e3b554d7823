"""Work that memory keeps off a device, and when it can start."""

import random
from itertools import combinations

from milp_plan.bounds.catalogue import critical_path, frame_of
from milp_plan.bounds.crowding import Item, crowding_bound, most_kept
from milp_plan.bounds.heads import simple_windows
from milp_plan.core import MemoryLaw
from milp_plan.core.budget import Budget
from tests.support.brute import brute_force

from .samples import cluster, operator, problem, value


def training(rng, pieces, memory, loss, **asked):
    """A step: pieces forward, a loss, pieces backward, each of which keeps bytes in between."""
    operators, values = [operator("loss", rng(4), workspace_bytes=loss)], []
    for place in range(pieces):
        a, b, w, group = f"a{place}", f"b{place}", f"w{place}", f"g{place}"
        operators += [operator(a, rng(1), group), operator(b, rng(1), group)]
        operators += [operator(w, rng(3), group)]
        last = place == pieces - 1
        after, back = ("loss", "loss") if last else (f"a{place + 1}", f"b{place + 1}")
        values += [value(f"kept{place}", a, b, rng(3)), value(f"gradient{place}", b, w)]
        values += [value(f"forward{place}", a, after), value(f"backward{place}", back, b)]
    return problem(operators, values, cluster(memory), **asked)


def bound_of(p):
    frame = frame_of(p)
    return crowding_bound(frame, simple_windows(frame), Budget())


def test_pieces_that_do_not_fit_beside_the_loss_take_turns_behind_it():
    p = training(lambda ticks: ticks, 2, (12, 12), 10)
    found, path = bound_of(p), critical_path(simple_windows(frame_of(p)))
    optimum = brute_force(p)
    assert found is not None
    assert path.value == 11 < found.value == 14 == optimum[0]
    assert "'loss'" in found.detail


def test_random_steps_take_no_less():
    rng, more, compared = random.Random(3), 0, 0
    for _ in range(20):
        memory = tuple(rng.randrange(9, 14) for _ in range(rng.choice((2, 2, 3))))
        loss = max(memory) - rng.randrange(5)
        p = training(lambda ticks: ticks + rng.randrange(3), 2, memory, loss)
        frame, optimum = frame_of(p), brute_force(p)
        found = None if frame.obstacle is not None else bound_of(p)
        if found is not None and optimum is not None:
            compared += 1
            assert found.value <= optimum[0]
            more += found.value > critical_path(simple_windows(frame)).value
    assert compared > 10
    assert more > 2


def test_nothing_is_said_where_memory_cannot_decide():
    for p in (
        training(lambda ticks: ticks, 2, (12, None), 10),
        training(lambda ticks: ticks, 2, (1000, 1000), 10),
        training(lambda ticks: ticks, 2, (30,), 10),
        training(lambda ticks: ticks, 2, (30, 30), 10, memory_law=MemoryLaw.STATIC),
    ):
        assert bound_of(p) is None


def test_no_choice_of_items_does_more():
    rng, met = random.Random(7), 0
    for _ in range(300):
        largest = rng.choice((3, 50, 10**9, 10**26))
        items = [
            Item(rng.randrange(largest), rng.randrange(largest)) for _ in range(rng.randrange(7))
        ]
        room = rng.randrange(2 * largest)
        most = max(
            sum(item.ticks for item in some)
            for count in range(len(items) + 1)
            for some in combinations(items, count)
            if sum(item.bytes for item in some) <= room
        )
        assert most <= most_kept(items, room)
        met += most == most_kept(items, room)
    assert met > 100
