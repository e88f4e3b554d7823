"""A training step replayed pass by pass, in exact integers: its time, and memory at every instant.

The law of a step is: passes of every chunk run in the order of the named schedule, each as soon as
its device is free and its input has arrived. Time to send is part of the pass, or a lag beside
other passes, as the framework does it. A chunk's
activations of a micro-batch are there from the start of its forward pass to the end of its backward
pass, or of the products for weights where these are apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from milp_plan.kinds.pipeline.experts import WORDS
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem
from milp_plan.kinds.pipeline.timing import Words, memory_peaks, times, value_of

from .configuration import SPLIT_BACKWARD, Configuration, Schedule

EXPERTS = {
    Schedule.GPIPE: "gpipe",
    Schedule.ONE_F_ONE_B: "1f1b",
    Schedule.INTERLEAVED: "interleaved_1f1b",
    Schedule.ZB_H1: "zb_h1",
    Schedule.ZB_V: "zb_v",
    Schedule.V_HALF: "v_half",
    Schedule.V_MIN: "v_min",
    Schedule.DUALPIPE_V: "dualpipev",
}
"""Schedules that are replayed, and their names among the published ones."""


@dataclass(frozen=True, slots=True)
class ChunkCost:
    """One chunk of the model on its pipeline device, for one micro-batch.

    Parameters
    ----------
    forward_ns, backward_ns, weight_ns
        Forward pass, backward pass for inputs, products for weights, with what they send.
    activation_bytes
        What the backward pass needs of the forward pass, on the device.
    host_bytes
        The same on the host.
    """

    forward_ns: int
    backward_ns: int
    weight_ns: int
    activation_bytes: int = 0
    host_bytes: int = 0

    @property
    def total_ns(self) -> int:
        """All its passes."""
        return self.forward_ns + self.backward_ns + self.weight_ns


@dataclass(frozen=True, slots=True)
class Replay:
    """A replayed step, without what follows the last backward pass.

    Parameters
    ----------
    makespan_ns
        From the first forward pass to the end of the last backward pass.
    activation_peaks
        Most bytes of activations on each pipeline device at any instant.
    busy_ns
        Time in which each pipeline device runs passes.
    """

    makespan_ns: int
    activation_peaks: tuple[int, ...]
    busy_ns: tuple[int, ...]


def why_undefined(c: Configuration) -> str | None:
    """Say why a configuration's schedule has no order of passes; ``None`` if it has one."""
    if c.schedule not in EXPERTS:
        return f"schedule {c.schedule} is not offered"
    least = 2 * c.pipeline
    if c.schedule is Schedule.DUALPIPE_V and c.micro_batches < least:
        return f"schedule {c.schedule} needs at least {least} micro-batches, not {c.micro_batches}"
    return None


class NoScheduleError(ValueError):
    """The named schedule is not defined for this configuration."""


def replay(configuration: Configuration, chunks: tuple[ChunkCost, ...], lag_ns: int = 0) -> Replay:
    """Return the exact times and peaks of the passes of one step.

    Parameters
    ----------
    configuration, chunks
        What runs in which order, and what each pass takes.
    lag_ns
        Time until the next pipeline device has what a pass sends, beside other passes.

    Raises
    ------
    NoScheduleError
        The schedule is not defined for these numbers of stages, chunks and micro-batches.
    """
    count, devices = configuration.micro_batches, configuration.pipeline
    busy = tuple(
        count * sum(chunks[k].total_ns for k in configuration.chunks_of(device))
        for device in range(devices)
    )
    if devices == 1:
        return Replay(busy[0], (sum(chunk.activation_bytes for chunk in chunks),), busy)
    shop, words = shop_and_words(configuration, chunks, lag_ns)
    starts = times(shop, words)
    return Replay(value_of(shop, starts), tuple(memory_peaks(shop, words)[:devices]), busy)


def shop_and_words(
    configuration: Configuration, chunks: tuple[ChunkCost, ...], lag_ns: int = 0
) -> tuple[Shop, Words]:
    """Return the step as a shop, and the order of passes on each device.

    Raises
    ------
    NoScheduleError
        As of :func:`replay`.
    """
    name = configuration.schedule
    if name not in EXPERTS:
        raise NoScheduleError(f"schedule {name} is not replayed")
    shop = _shop(configuration, chunks, lag_ns)
    words = WORDS[EXPERTS[name]](shop)
    if words is None:
        sizes = f"{configuration.pipeline} stages, {configuration.virtual} virtual stages, "
        sizes += f"{configuration.micro_batches} micro-batches"
        raise NoScheduleError(f"schedule {name} is not defined for {sizes}")
    return shop, words


def _shop(configuration: Configuration, chunks: tuple[ChunkCost, ...], lag_ns: int) -> Shop:
    """Unroll one micro-batch and let every kind run as often as there are micro-batches."""
    joint = configuration.schedule not in SPLIT_BACKWARD
    stages = tuple(
        Stage(
            chunk.forward_ns,
            chunk.backward_ns,
            chunk.weight_ns,
            *((chunk.activation_bytes, 0) if joint else (0, chunk.activation_bytes)),
        )
        for chunk in chunks
    )
    route = tuple(configuration.device_of(k) for k in range(len(chunks)))
    template = Template(stages, 1, joint_backward=joint, transfer_ticks=lag_ns)
    shop = shop_of(pipeline_problem("step", template, [route], devices=configuration.pipeline))
    assert shop is not None
    members = tuple(str(i) for i in range(configuration.micro_batches))
    return replace(shop, kinds=tuple(replace(kind, members=members) for kind in shop.kinds))


def schedule_bound(configuration: Configuration, chunks: tuple[ChunkCost, ...]) -> int:
    """Return a lower bound on the time of all passes under any order of the named kind.

    The first pass of a device is the forward pass of its first chunk, which comes through all
    chunks before it; then it runs all its passes. Where the backward pass is not split, its last
    one is the backward pass of that chunk, which then goes back through the chunks before it;
    where it is split this holds for all but products for weights, which may come later.
    """
    split = configuration.schedule in SPLIT_BACKWARD
    ahead = behind = best = 0
    for k in range(min(configuration.pipeline, len(chunks))):
        own = [chunks[j] for j in configuration.chunks_of(k)]
        work = configuration.micro_batches * sum(chunk.total_ns for chunk in own)
        late = configuration.micro_batches * sum(chunk.weight_ns for chunk in own) if split else 0
        best = max(best, ahead + work, ahead + work - late + behind)
        ahead += chunks[k].forward_ns
        behind += chunks[k].backward_ns + (0 if split else chunks[k].weight_ns)
    return best
