"""Sections of a nanotron configuration, YAML: parallelism, tokens, optimizer sharding, model.

Names and values as in ``nanotron/config``; ``recompute_layer`` and ``context_parallel_size`` are
newer than its release 0.4 and written only where a plan needs them.
"""

from __future__ import annotations

from ..blocks import Attention, Mlp
from ..configuration import Recompute, Schedule, even_layers
from .job import Job, Refusals

HEAD = "# nanotron configuration by milp-plan"

ENGINES = {Schedule.ONE_F_ONE_B: "1f1b", Schedule.GPIPE: "afab"}
"""Pipeline engines that it has."""


def text(job: Job) -> str:
    """Return the sections that a plan decides; the rest of the file is the user's."""
    c, model = job.configuration, job.problem.architecture
    block, feed = model.blocks[0], job.dense
    assert feed is not None
    parallelism: dict[str, object] = {
        "dp": c.data,
        "pp": c.pipeline,
        "tp": c.tensor,
        "expert_parallel_size": 1,
        "pp_engine": ENGINES[c.schedule] if c.pipeline > 1 else "1f1b",
        "tp_mode": "REDUCE_SCATTER" if c.tensor > 1 and c.sequence_parallel else "ALL_REDUCE",
        "tp_linear_async_communication": c.tensor > 1 and c.sequence_parallel,
    }
    if c.context > 1:
        parallelism["context_parallel_size"] = c.context
    if c.recompute is Recompute.FULL:
        parallelism["recompute_layer"] = True
    shape: dict[str, object] = {
        "is_llama_config": True,
        "hidden_size": block.hidden,
        "intermediate_size": feed.inner,
        "num_hidden_layers": len(model.blocks),
        "num_attention_heads": block.attention.heads,
        "num_key_value_heads": block.attention.kv_heads,
        "max_position_embeddings": job.problem.sequence,
        "tie_word_embeddings": model.tied,
        "vocab_size": model.vocabulary,
    }
    tokens = {
        "sequence_length": job.problem.sequence,
        "micro_batch_size": c.micro_batch,
        "batch_accumulation_per_replica": c.micro_batches,
    }
    lines = [HEAD, f"# {job.title}", "# Put these sections into your configuration."]
    if c.pipeline > 1:
        stages = ", ".join(map(str, job.layers))
        lines += [f"# Blocks of each stage in the plan: {stages}; nanotron divides by itself."]
    lines += ["parallelism:", *_fields(parallelism, 1), "tokens:", *_fields(tokens, 1)]
    lines += ["optimizer:", *_fields({"zero_stage": c.zero if c.data * c.context > 1 else 0}, 1)]
    lines += ["model:", "  dtype: bfloat16", "  model_config:", *_fields(shape, 2)]
    return "\n".join(lines) + "\n"


def _fields(fields: dict[str, object] | dict[str, int], depth: int) -> list[str]:
    plain = {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in fields.items()}
    return [f"{'  ' * depth}{key}: {value}" for key, value in plain.items()]


def refusals_of(job: Job) -> Refusals:
    """Return why nanotron cannot run a configuration."""
    c, refusals = job.configuration, Refusals("nanotron")
    refusals.text_decoder(job)
    refusals.check(
        not _is_llama(job),
        f"its Llama has another shape than {job.problem.architecture.name}",
        "export a plan of a Llama",
    )
    refusals.no_experts(job)
    refusals.every_block(job)
    refusals.no_offload(job)
    refusals.no_fp8(job)
    refusals.check(
        c.pipeline > 1 and c.schedule not in ENGINES,
        f"its pipelines run 1f1b or gpipe, not {c.schedule}",
        "plan with --fix schedule=1f1b",
    )
    even = even_layers(len(job.problem.architecture.blocks), c.chunks)
    refusals.check(
        c.pipeline > 1 and job.layers != even,
        "it chooses the blocks of each stage itself",
        f"plan with --fix layers={','.join(map(str, even))}",
    )
    refusals.check(
        c.zero > 1 and c.data * c.context > 1,
        f"it shards optimizer state alone (stage 1), not what stage {c.zero} shards",
        "plan with --fix zero=1",
    )
    return refusals


def _is_llama(job: Job) -> bool:
    """Whether every block is that of a Llama: RMS norms, SwiGLU, no biases, heads of usual size."""
    model = job.problem.architecture
    block = model.blocks[0]
    a, feed = block.attention, block.feed_forward
    usual = isinstance(feed, Mlp) and feed.gated and not feed.bias and not block.norm_bias
    plain = a == Attention(a.heads, a.kv_heads, block.hidden // a.heads)
    whole = block.hidden % a.heads == 0 and len(model.runs) == 1
    return usual and plain and whole and not model.positions and model.prediction is None
