"""Launch arguments of Megatron-LM: a shell script, and such scripts read back.

Names, values and defaults as in ``megatron/training/arguments.py`` of Megatron-LM (core 0.15 and
0.16); ranks are in the order ``tp-cp-ep-dp-pp``, which is that of a configuration.
"""

from __future__ import annotations

import re

from ..blocks import Mlp
from ..configuration import Configuration, Offload, Precision, Recompute, Schedule, even_layers
from .job import Job, Refusals
from .layout import layout_text
from .megatron_model import Arguments, model_arguments, refuse_model

HEAD = "# Megatron-LM arguments by milp-plan"

DROPOUT = ("attention-dropout", "hidden-dropout")
"""Shares that are dropped: 0.1 by default, while costs without dropout count no masks."""

STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
"""Optimizer sharding above 1 -> sharding strategy of Megatron FSDP."""

_SCRIPT = """\
#!/usr/bin/env bash
{head}
# {title}
# Run it on every node with NODE_RANK and MASTER_ADDR set. Add data, tokenizer, learning rate, and
# what a plan does not depend on: rotary base, norm epsilon, the kind of activation function.
{more}{environment}
ARGUMENTS=(
{arguments}
)
torchrun --nnodes {nodes} --nproc-per-node {devices} --node-rank "${{NODE_RANK:-0}}" \\
  --master-addr "${{MASTER_ADDR:-localhost}}" --master-port "${{MASTER_PORT:-6000}}" \\
  pretrain_gpt.py "${{ARGUMENTS[@]}}" "$@"
"""


def script(job: Job) -> str:
    """Return the script that launches a configuration."""
    groups = (parallel_arguments(job.configuration, job), model_arguments(job))
    lines = [f"  --{name} {_quoted(value)}".rstrip() for g in groups for name, value in g.items()]
    cluster = job.problem.cluster
    node = cluster.groups[0].node_devices
    sharded = job.configuration.zero >= 2
    environment = (
        "unset CUDA_DEVICE_MAX_CONNECTIONS  # fully sharded data parallelism needs more than one"
        if sharded
        else "export CUDA_DEVICE_MAX_CONNECTIONS=1"
    )
    nodes = job.experts.nodes if job.experts is not None else 0
    more = (
        f"# The experts of a token lie in {nodes} groups: add --moe-router-num-groups and "
        f"--moe-router-group-topk {nodes}.\n"
        if nodes
        else ""
    )
    return _SCRIPT.format(
        head=HEAD,
        title=job.title,
        more=more,
        environment=environment,
        arguments="\n".join(lines),
        nodes=cluster.devices // node,
        devices=node,
    )


def _quoted(value: str) -> str:
    """Write a value as one word of a shell, or names as a word each."""
    plain = re.sub("[-_. ]", "", value).isalnum()
    return value if not value or plain else f'"{value}"'


def refusals_of(job: Job) -> Refusals:
    """Return why Megatron-LM cannot run a configuration."""
    c, refusals = job.configuration, Refusals("megatron")
    refuse_model(job, refusals)
    orders = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
    refusals.check(
        c.pipeline > 1 and c.schedule not in orders,
        f"its pipelines run 1f1b or interleaved, not {c.schedule}",
        "plan with --fix schedule=1f1b or --fix schedule=interleaved",
    )
    refusals.check(
        job.experts is not None and c.tensor > 1 and not c.sequence_parallel,
        "it trains experts with tensor parallelism only under sequence parallelism",
        "plan with --fix sequence_parallel=true",
    )
    refusals.check(
        c.context > 1 and job.problem.sequence % (2 * c.context) != 0,
        f"context parallelism divides a sequence by {2 * c.context}",
        f"choose another --sequence than {job.problem.sequence}, or --fix context=1",
    )
    refusals.check(
        c.tensor > 1 and c.sequence_parallel and job.problem.sequence % (c.tensor * c.context) != 0,
        f"sequence parallelism divides a sequence by {c.tensor * c.context}",
        f"choose another --sequence than {job.problem.sequence}, or fix sequence_parallel=false",
    )
    _refuse_saving(job, refusals)
    nodes = {group.node_devices for group in job.problem.cluster.groups}
    refusals.check(
        len(nodes) > 1,
        "one torchrun starts as many processes on every node",
        "plan for groups with nodes of one size",
    )
    prediction = job.problem.architecture.prediction
    refusals.check(
        prediction is not None and job.problem.architecture.positions > 0,
        "multi-token prediction needs rotary positions",
        "export a plan of a model without either",
    )
    return refusals


def _refuse_saving(job: Job, refusals: Refusals) -> None:
    """Note what it cannot compute again, and what it cannot move to the host."""
    c = job.configuration
    parts = c.recompute in (Recompute.ATTENTION, Recompute.LIGHT)
    refusals.check(
        job.recomputed is None or (parts and job.recomputed != 0),
        "it recomputes the same number of blocks on every stage, or parts of all blocks",
        "plan with --fix recomputed=0 --fix recomputed_by_chunk=",
    )
    refusals.check(
        c.recompute is Recompute.LIGHT and Recompute.LIGHT not in modules(job),
        "it computes norms again only before latent attention and experts, and there are neither",
        "plan with --fix recompute=full or --fix recompute=none",
    )
    if c.recompute is Recompute.OFFLOAD:
        _refuse_offload(job, refusals)
    refusals.check(
        c.offload is Offload.OPTIMIZER and c.zero != 1,
        "the host updates parameters only where optimizer state alone is sharded (stage 1)",
        "plan with --fix zero=1 or --fix offload=none",
    )


def _refuse_offload(job: Job, refusals: Refusals) -> None:
    """Note where Transformer Engine does not copy all activations of the first blocks."""
    c, blocks = job.configuration, job.problem.architecture.blocks
    refusals.check(
        c.pipeline > 1,
        "it copies activations of whole blocks to the host only without a pipeline",
        "plan with --fix pipeline=1, or --fix recompute=full",
    )
    refusals.check(
        c.pipeline == 1 and job.recomputed == 0,
        "it leaves the activations of the last block on the devices",
        f"plan with --fix recompute=offload --fix recomputed={len(blocks) - 1}",
    )
    refusals.check(
        not all(isinstance(b.feed_forward, Mlp) and b.feed_forward.gated for b in blocks),
        "it copies activations of dense blocks with SwiGLU alone to the host",
        "plan with --fix recompute=full or --fix recompute=none",
    )


def modules(job: Job) -> dict[Recompute, str]:
    """Return the modules that are computed again in each way that the model has.

    Transformer Engine fuses all norms but those before latent attention and experts with the
    product behind them.
    """
    blocks = job.problem.architecture.blocks
    light = {
        "moe_act": job.experts is not None,
        "mla_up_proj": any(block.attention.latent for block in blocks),
    }
    names = [name for name, there in light.items() if there]
    found = {Recompute.ATTENTION: "core_attn"}
    return found | ({Recompute.LIGHT: " ".join(["layernorm", *names])} if names else {})


def parallel_arguments(c: Configuration, job: Job) -> Arguments:
    """Return arguments for degrees, batches, pipeline, recomputation and sharding."""
    made: Arguments = {
        "tensor-model-parallel-size": str(c.tensor),
        "pipeline-model-parallel-size": str(c.pipeline),
        "context-parallel-size": str(c.context),
    }
    if job.experts is not None:
        made["expert-model-parallel-size"] = str(c.expert)
        made["expert-tensor-parallel-size"] = str(c.expert_tensor)
    made |= _stages(c, job)
    made["micro-batch-size"] = str(c.micro_batch)
    made["global-batch-size"] = str(c.global_batch)
    if c.tensor > 1 and c.sequence_parallel:
        made["sequence-parallel"] = ""
    made |= _saving(c, job)
    made |= _sharding(c)
    if not job.problem.efficiency.software.dropout:
        made |= dict.fromkeys(DROPOUT, "0.0")
    made["bf16"] = ""
    if c.precision is Precision.FP8:
        made["fp8-format"] = "hybrid"
        if c.recompute is Recompute.LIGHT:  # which it does not do under delayed scaling
            made["fp8-recipe"] = "tensorwise"
    return made


def _saving(c: Configuration, job: Job) -> Arguments:
    """Recomputation, or offload of activations; it has either."""
    if c.recompute is Recompute.FULL:
        return {
            "recompute-granularity": "full",
            "recompute-method": "block" if job.recomputed else "uniform",
            "recompute-num-layers": str(job.recomputed or 1),
        }
    if c.recompute is Recompute.OFFLOAD:
        return {"cpu-offloading-num-layers": str(job.recomputed)}
    known = modules(job)
    if c.recompute not in known:
        return {}
    return {"recompute-granularity": "selective", "recompute-modules": known[c.recompute]}


def _stages(c: Configuration, job: Job) -> Arguments:
    """Blocks of every chunk: by a number where all have as many, otherwise by a layout."""
    if c.pipeline == 1:
        return {}
    layers, model = job.layers, job.problem.architecture
    if len(set(layers)) > 1:
        modules = model.prediction.modules if model.prediction else 0
        return {"pipeline-model-parallel-layout": layout_text(layers, modules)}
    assert layers == even_layers(len(model.blocks), c.chunks)
    return {"num-layers-per-virtual-pipeline-stage": str(layers[0])} if c.virtual > 1 else {}


def _sharding(c: Configuration) -> Arguments:
    if c.zero == 0:
        return {"overlap-grad-reduce": ""}
    overlap = {"overlap-grad-reduce": "", "overlap-param-gather": ""}
    made = {"use-distributed-optimizer": ""} | overlap
    if c.zero >= 2:
        made |= {
            "use-megatron-fsdp": "",
            "data-parallel-sharding-strategy": STRATEGIES[c.zero],
            "no-gradient-accumulation-fusion": "",
            "ckpt-format": "fsdp_dtensor",
        }
    if c.offload is Offload.OPTIMIZER:
        made |= {
            "optimizer-cpu-offload": "",
            "optimizer-offload-fraction": "1.0",
            "use-precision-aware-optimizer": "",
        }
    return made
