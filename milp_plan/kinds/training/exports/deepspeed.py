"""Configuration of DeepSpeed, a JSON file.

Names and values as in ``deepspeed/runtime`` of DeepSpeed 0.19: ZeRO and its offload, batches,
automatic tensor and expert parallelism (from 0.19.2, with stage 3 later: 0.19.8 has it). Whether
blocks are computed again is up to the program; the section on activation checkpointing stands there
when a plan needs it. Its ``cpu_checkpointing`` moves inputs of blocks that are computed again to
the host, which no plan does.
"""

from __future__ import annotations

import json

from ..configuration import Offload, Recompute
from .job import Job, Refusals


def text(job: Job) -> str:
    """Return the file that runs a configuration."""
    c = job.configuration
    zero: dict[str, object] = {"stage": c.zero, "overlap_comm": True, "contiguous_gradients": True}
    if c.offload is Offload.OPTIMIZER:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
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
    refusals.every_block(job)
    refusals.check(
        c.offload is Offload.OPTIMIZER and c.zero == 0,
        "it moves optimizer state to the host from stage 1 on",
        "plan with --fix zero=1 or --fix offload=none",
    )
    refusals.gradients_at_the_end(job, "plan with --fix zero=1 or --fix offload=none")
    refusals.no_fp8(job)
    return refusals
