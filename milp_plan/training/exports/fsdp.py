"""A Python module that applies a configuration by fully sharded data parallelism of PyTorch."""

from __future__ import annotations

from ..configuration import Recompute
from .job import Job, Refusals

HEAD = "# PyTorch FSDP2 by milp-plan"

_MODULE = '''\
{head}
# {title}
"""Apply a plan to a model, and run its step; torch 2.6 or newer."""

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import parallelize_module

DATA = {data}  # data-parallel ranks
TENSOR = {tensor}  # tensor-parallel ranks
MICRO_BATCH = {micro_batch}  # samples of one micro-batch on one rank
MICRO_BATCHES = {micro_batches}  # of one rank and step
SEQUENCE = {sequence}  # tokens of a sample
RECOMPUTED = {recomputed}  # the first blocks, which the backward pass computes again
RESHARD_AFTER_FORWARD = {reshard}
SYNC_EVERY_MICRO_BATCH = {sync}  # shard gradients after each micro-batch, or after the last alone
RESHARD_AFTER_BACKWARD = {reshard_backward}  # or after the last micro-batch alone


def apply(model, layers, tensor_plan=None, device_type="cuda"):
    """Shard a model in place; layers is the ModuleList of its blocks, tensor_plan names layers."""
    mesh = init_device_mesh(device_type, (DATA, TENSOR), mesh_dim_names=("data", "tensor"))
    if TENSOR > 1:
        if tensor_plan is None:
            raise ValueError(f"the plan has {{TENSOR}} tensor-parallel ranks: give a tensor_plan")
        parallelize_module(model, mesh["tensor"], tensor_plan)
    for i in range(RECOMPUTED):
        layers[i] = checkpoint_wrapper(layers[i])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {{"mesh": mesh["data"], "mp_policy": policy}}
    for layer in layers:
        fully_shard(layer, reshard_after_forward=RESHARD_AFTER_FORWARD, **options)
    fully_shard(model, reshard_after_forward=RESHARD_AFTER_FORWARD, **options)
    return model


def step(model, optimizer, micro_batches, loss_of):
    """Run one step; loss_of(model, micro_batch) is the mean loss of a micro-batch."""
    for i, micro_batch in enumerate(micro_batches):
        last = i == MICRO_BATCHES - 1
        model.set_requires_gradient_sync(SYNC_EVERY_MICRO_BATCH or last)
        model.set_reshard_after_backward(RESHARD_AFTER_BACKWARD or last)
        (loss_of(model, micro_batch) / MICRO_BATCHES).backward()
    optimizer.step()
    optimizer.zero_grad()
'''


def text(job: Job) -> str:
    """Return a module with ``apply`` and ``step``."""
    c, blocks = job.configuration, len(job.problem.architecture.blocks)
    full = c.recompute is Recompute.FULL
    return _MODULE.format(
        head=HEAD,
        title=job.title,
        data=c.data,
        tensor=c.tensor,
        micro_batch=c.micro_batch,
        micro_batches=c.micro_batches,
        sequence=job.problem.sequence,
        recomputed=(min(job.recomputed or 0, blocks) or blocks) if full else 0,
        reshard=c.zero == 3,
        sync=c.zero >= 2,
        reshard_backward=c.zero == 3,
    )


def refusals_of(job: Job) -> Refusals:
    """Return why FSDP2 with a tensor-parallel plan cannot run a configuration."""
    c, refusals = job.configuration, Refusals("fsdp2")
    refusals.one_device_pipeline(job)
    refusals.no_context(job)
    refusals.no_experts(job)
    refusals.check(
        c.recompute is Recompute.ATTENTION,
        "it computes whole blocks again",
        "plan with --fix recompute=full or --fix recompute=none",
    )
    refusals.check(
        c.zero == 0 and c.data > 1,
        "it shards optimizer state at least",
        "plan with --fix zero=1, 2 or 3",
    )
    refusals.no_fp8(job)
    return refusals
