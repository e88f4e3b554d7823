"""Texts of configurations."""

from __future__ import annotations

from .configuration import Configuration, Offload, Precision, Recompute, Schedule

_SCHEDULES = {
    Schedule.GPIPE: "GPipe",
    Schedule.ONE_F_ONE_B: "1F1B",
    Schedule.INTERLEAVED: "interleaved 1F1B",
    Schedule.ZB_H1: "ZB-H1",
    Schedule.ZB_V: "ZB-V",
    Schedule.V_HALF: "V-Half",
    Schedule.V_MIN: "V-Min",
    Schedule.DUALPIPE_V: "DualPipe-V",
}
_SHARDED = {
    0: "nothing sharded",
    1: "optimizer sharded",
    2: "optimizer and gradients sharded",
    3: "optimizer, gradients and parameters sharded",
}


def degrees_text(c: Configuration) -> str:
    """Write degrees, micro-batches and schedule alone."""
    virtual = f" ({c.virtual} virtual)" if c.virtual > 1 else ""
    parts = [f"TP {c.tensor}", f"PP {c.pipeline}{virtual}", f"DP {c.data}"]
    if c.context > 1:
        parts.insert(1, f"CP {c.context}")
    if c.expert * c.expert_tensor > 1:
        split = f" x ETP {c.expert_tensor}" if c.expert_tensor > 1 else ""
        parts.append(f"EP {c.expert}{split}")
    parts.append(f"micro-batch {c.micro_batch} x {c.micro_batches}")
    if c.pipeline > 1:
        parts.append(_SCHEDULES[c.schedule])
    return " · ".join(parts)


def configuration_text(c: Configuration) -> str:
    """Write a configuration in one line."""
    parts = [degrees_text(c)]
    some = f", {c.recomputed} blocks of a chunk" if c.recomputed else ""
    if c.recomputed_by_chunk:
        some = f", {','.join(map(str, c.recomputed_by_chunk))} blocks"
    offloads = c.recompute is Recompute.OFFLOAD
    parts.append(f"offload: activations{some}" if offloads else f"recompute: {c.recompute}{some}")
    parts.append(_SHARDED[c.zero])
    if c.tensor > 1 and not c.sequence_parallel:
        parts.append("no sequence parallelism")
    if c.offload is not Offload.NONE:
        parts.append(f"offload: {c.offload}")
    if c.precision is not Precision.BF16:
        parts.append(str(c.precision))
    if c.layers:
        parts.append(f"blocks {','.join(map(str, c.layers))}")
    return " · ".join(parts)
