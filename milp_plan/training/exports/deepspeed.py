"""Configuration of DeepSpeed, a JSON file.

Names and values as in ``deepspeed/runtime`` of DeepSpeed 0.19: ZeRO, batches, automatic tensor and
expert parallelism. Whether blocks are computed again is up to the program; the section on
activation checkpointing stands there when a plan needs it.
"""

from __future__ import annotations

import json

from ..configuration import Recompute
from .job import Job, Refusals


def text(job: Job) -> str:
    """Return the file that runs a configuration."""
    c = job.configuration
    zero: dict[str, object] = {"stage": c.zero, "overlap_comm": True, "contiguous_gradients": True}
    made: dict[str, object] = {
        "train_batch_size": c.global_batch,
        "train_micro_batch_size_per_gpu": c.micro_batch,
        "gradient_accumulation_steps": c.micro_batches,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
    }
    if c.tensor > 1:
        made["tensor_parallel"] = {"autotp_size": c.tensor}
    if c.expert > 1:
        made["expert_parallel"] = {"enabled": True, "autoep_size": c.expert}
    if c.recompute is Recompute.FULL:
        made["activation_checkpointing"] = {
            "partition_activations": False,
            "cpu_checkpointing": False,
            "contiguous_memory_optimization": False,
        }
    return json.dumps(made, indent=2) + "\n"


def refusals_of(job: Job) -> Refusals:
    """Return why DeepSpeed's configuration cannot say a configuration."""
    c, refusals = job.configuration, Refusals("deepspeed")
    refusals.one_device_pipeline(job)
    refusals.no_context(job)
    refusals.check(
        c.tensor > 1 and c.sequence_parallel,
        "its automatic tensor parallelism is not sequence parallel",
        "plan with --fix sequence_parallel=false, or --fix tensor=1",
    )
    refusals.check(
        c.expert > 1 and c.tensor > 1,
        "its automatic expert parallelism is exported only without tensor parallelism",
        "plan with --fix tensor=1, or --fix expert=1",
    )
    refusals.check(
        c.expert == 1 and c.expert_tensor > 1,
        "its automatic tensor parallelism leaves experts whole",
        "plan with --fix expert_tensor=1",
    )
    refusals.whole_blocks(job)
    refusals.no_fp8(job)
    return refusals
