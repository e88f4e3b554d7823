"""A Python module that applies a configuration by fully sharded data parallelism of PyTorch."""

from __future__ import annotations

from ..configuration import Offload, Recompute
from .job import Job, Refusals

HEAD = "# PyTorch FSDP2 by milp-plan"

_MODULE = '''\
{head}
# {title}
"""Apply a plan to a model, and run its step; torch 2.6 or newer."""

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import parallelize_module

DATA = {data}  # data-parallel ranks
TENSOR = {tensor}  # tensor-parallel ranks
MICRO_BATCH = {micro_batch}  # samples of one micro-batch on one rank
MICRO_BATCHES = {micro_batches}  # of one rank and step
SEQUENCE = {sequence}  # tokens of a sample
RECOMPUTED = {recomputed}  # the first blocks, which the backward pass computes again
OFFLOADED = {offloaded}  # the first blocks, whose activations wait in the memory of the host
OPTIMIZER_ON_HOST = {on_host}  # with the parameters that it updates, in 32 bits
RESHARD_AFTER_FORWARD = {reshard}
SYNC_EVERY_MICRO_BATCH = {sync}  # shard gradients after each micro-batch, or after the last alone
RESHARD_AFTER_BACKWARD = {reshard_backward}  # or after the last micro-batch alone


def wait_on_host(layer):
    """Let what a block saves for the backward pass wait on the host, its parameters apart.

    Copies are made between kernels, not beside them, so a step takes longer than predicted.
    """
    forward = layer.forward

    def copied_forward(*args, **kwargs):
        parameters = {{p.untyped_storage().data_ptr() for p in layer.parameters()}}

        def pack(tensor):
            if tensor.untyped_storage().data_ptr() in parameters:
                return tensor, None
            options = {{"dtype": tensor.dtype, "pin_memory": tensor.is_cuda}}
            copy = torch.empty(tensor.size(), **options).copy_(tensor, non_blocking=True)
            return copy, tensor.device

        def unpack(packed):
            tensor, device = packed
            return tensor if device is None else tensor.to(device, non_blocking=True)

        with saved_tensors_hooks(pack, unpack):
            return forward(*args, **kwargs)

    layer.forward = copied_forward


def apply(model, layers, tensor_plan=None, device_type="cuda"):
    """Shard a model in place; layers is the ModuleList of its blocks, tensor_plan names layers."""
    mesh = init_device_mesh(device_type, (DATA, TENSOR), mesh_dim_names=("data", "tensor"))
    if TENSOR > 1:
        if tensor_plan is None:
            raise ValueError(f"the plan has {{TENSOR}} tensor-parallel ranks: give a tensor_plan")
        parallelize_module(model, mesh["tensor"], tensor_plan)
    for i in range(RECOMPUTED):
        layers[i] = checkpoint_wrapper(layers[i])
    for i in range(OFFLOADED):
        wait_on_host(layers[i])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {{"mesh": mesh["data"], "mp_policy": policy}}
    if OPTIMIZER_ON_HOST:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=device_type == "cuda")
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
    first = min(job.recomputed or 0, blocks) or blocks
    return _MODULE.format(
        head=HEAD,
        title=job.title,
        data=c.data,
        tensor=c.tensor,
        micro_batch=c.micro_batch,
        micro_batches=c.micro_batches,
        sequence=job.problem.sequence,
        recomputed=first if c.recompute is Recompute.FULL else 0,
        offloaded=first if c.recompute is Recompute.OFFLOAD else 0,
        on_host=c.offload is Offload.OPTIMIZER,
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
    refusals.whole_blocks(job)
    refusals.check(
        c.recompute is Recompute.OFFLOAD and c.tensor > 1,
        "it copies no activations of tensor-parallel blocks to the host",
        "plan with --fix tensor=1, or --fix recompute=full",
    )
    refusals.check(
        c.zero == 0 and c.data > 1,
        "it shards optimizer state at least",
        "plan with --fix zero=1, 2 or 3",
    )
    refusals.parameters_here(job, "plan with --fix zero=1 or --fix offload=none")
    refusals.gradients_at_the_end(job, "plan with --fix zero=1 or --fix offload=none")
    refusals.no_fp8(job)
    return refusals
