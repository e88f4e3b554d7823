"""The replay against an event simulation of its own, bounds and closed forms."""

from __future__ import annotations

from random import Random

import pytest

from milp_plan.kinds.training import Configuration, Schedule
from milp_plan.kinds.training.replay import (
    ChunkCost,
    NoScheduleError,
    replay,
    schedule_bound,
    shop_and_words,
)
from milp_plan.kinds.training.step import micro_batches_ahead

SHAPES = (
    (Schedule.GPIPE, 1),
    (Schedule.ONE_F_ONE_B, 1),
    (Schedule.INTERLEAVED, 2),
    (Schedule.INTERLEAVED, 3),
    (Schedule.ZB_H1, 1),
    (Schedule.ZB_V, 2),
)
DUALPIPE = (Schedule.DUALPIPE_V, 2)


def chunks(random: Random, count: int) -> tuple[ChunkCost, ...]:
    return tuple(
        ChunkCost(*(random.randint(0, 10**9) for _ in range(3)), random.randint(0, 10**10))
        for _ in range(count)
    )


def simulated(c: Configuration, given: tuple[ChunkCost, ...]) -> tuple[int, list[int]]:
    """Run the words pass by pass, sweeping until nothing moves; memory by instants of passes."""
    shop, words = shop_and_words(c, given)
    names = [kind.name for kind in shop.kinds]
    queues = [[names[k] for k in word] for word in words[: c.pipeline]]
    stops: dict[tuple[str, int, int], int] = {}
    counts: dict[str, int] = {}
    free, memory, peaks = [0] * c.pipeline, [0] * c.pipeline, [0] * c.pipeline
    split = any(name.startswith("W") for name in names)
    last = len(given) - 1
    while any(queues):
        before = sum(map(len, queues))
        for device, queue in enumerate(queues):
            while queue:
                letter, chunk = queue[0][0], int(queue[0][1:])
                batch = counts.get(queue[0], 0)
                needs = {
                    "F": [("F", chunk - 1, batch)] if chunk else [],
                    "B": [("F", chunk, batch)]
                    + ([("B", chunk + 1, batch)] if chunk < last else []),
                    "W": [("B", chunk, batch)],
                }[letter]
                if any(need not in stops for need in needs):
                    break
                start = max([free[device], *(stops[need] for need in needs)])
                times = given[chunk]
                span = {
                    "F": times.forward_ns,
                    "B": times.backward_ns + (0 if split else times.weight_ns),
                    "W": times.weight_ns,
                }[letter]
                stops[letter, chunk, batch] = free[device] = start + span
                counts[queue.pop(0)] = batch + 1
                memory[device] += times.activation_bytes * (letter == "F")
                peaks[device] = max(peaks[device], memory[device])
                memory[device] -= times.activation_bytes * (letter == ("W" if split else "B"))
        assert sum(map(len, queues)) < before
    return max(stops.values()), peaks


@pytest.mark.parametrize(("schedule", "virtual"), [*SHAPES, DUALPIPE])
def test_times_and_peaks_are_those_of_an_event_simulation(schedule: Schedule, virtual: int) -> None:
    random = Random(f"{schedule}{virtual}")
    for _ in range(4):
        p = random.choice([2, 3, 4])
        least = 2 if schedule is Schedule.DUALPIPE_V else 1
        m = p * random.randint(least, 3)
        c = Configuration(pipeline=p, micro_batches=m, virtual=virtual, schedule=schedule)
        given = chunks(random, c.chunks)
        played = replay(c, given)
        assert (played.makespan_ns, list(played.activation_peaks)) == simulated(c, given)
        assert schedule_bound(c, given) <= played.makespan_ns
        assert max(played.busy_ns) <= played.makespan_ns


@pytest.mark.parametrize(("schedule", "virtual"), SHAPES)
def test_waiting_micro_batches_are_those_of_the_replay(schedule: Schedule, virtual: int) -> None:
    for p, m in ((2, 2), (2, 8), (4, 4), (4, 16), (8, 16)):
        c = Configuration(pipeline=p, micro_batches=m, virtual=virtual, schedule=schedule)
        equal = (ChunkCost(100, 110, 90, 1),) * c.chunks
        ahead = [sum(counts) for counts in micro_batches_ahead(c)]
        assert ahead == list(replay(c, equal).activation_peaks)


def test_even_stages_take_the_closed_form_of_1f1b() -> None:
    c = Configuration(pipeline=8, micro_batches=32)
    assert replay(c, (ChunkCost(3, 5, 2),) * 8).makespan_ns == (32 + 7) * 10


def test_one_stage_runs_its_passes_one_after_the_other() -> None:
    played = replay(Configuration(micro_batches=5), (ChunkCost(3, 5, 2, 7),))
    assert (played.makespan_ns, played.activation_peaks, played.busy_ns) == (50, (7,), (50,))


@pytest.mark.parametrize(
    "c",
    [
        Configuration(pipeline=2, virtual=2, schedule=Schedule.DUALPIPE_V, micro_batches=3),
        Configuration(pipeline=2, virtual=2, schedule=Schedule.INTERLEAVED, micro_batches=3),
    ],
)
def test_an_undefined_schedule_is_refused(c: Configuration) -> None:
    with pytest.raises(NoScheduleError, match="schedule"):
        replay(c, (ChunkCost(1, 1, 1),) * c.chunks)


def test_what_is_sent_beside_passes_arrives_later_and_takes_no_time_of_devices() -> None:
    """Two stages, two micro-batches: 3 forward, 6 backward, and 1 on the way each time.

    The second stage starts at 4, runs 3 + 6 + 3 + 6 and is done at 22; the last backward pass of
    the first stage starts a tick later and takes 6.
    """
    c = Configuration(pipeline=2, micro_batches=2)
    chunks = (ChunkCost(3, 6, 0),) * 2
    plain, late = replay(c, chunks), replay(c, chunks, 1)
    assert plain.makespan_ns == 3 + 18 + 6
    assert late.makespan_ns == 4 + 18 + 1 + 6
    assert late.busy_ns == plain.busy_ns == (18, 18)
