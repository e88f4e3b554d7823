"""Shapes of a model as arguments of Megatron-LM."""

from __future__ import annotations

from collections.abc import Sequence

from ..blocks import Attention, Mlp, Moe
from .job import Job, Refusals

Arguments = dict[str, str]
"""Option without dashes -> value; the empty text for a switch."""

MODEL_LESS = "export a plan of a model that has one shape of block"


def refuse_model(job: Job, refusals: Refusals) -> None:
    """Note what ``pretrain_gpt.py`` cannot build."""
    refusals.text_decoder(job)
    blocks = [block for block, _ in job.problem.architecture.runs]
    first = blocks[0]
    parts = [block.feed_forward for block in blocks]
    shapes = {(b.hidden, b.norm_bias, _core(b.attention)) for b in blocks}
    windows = {b.attention.window for b in blocks} - {None}
    same = len(shapes) == 1 and len(windows) <= 1
    same = same and len({part for part in parts if isinstance(part, Mlp)}) <= 1
    same = same and len({part for part in parts if isinstance(part, Moe)}) <= 1
    refusals.check(not same, "it builds attention and feed-forward parts of one shape", MODEL_LESS)
    known = (_all_biases(job), _query_biases(job)) in {(True, True), (False, True), (False, False)}
    refusals.check(not known, "it has no switch for the biases of this model", MODEL_LESS)
    refusals.check(not first.attention.causal, "it trains causal attention", MODEL_LESS)


def model_arguments(job: Job) -> Arguments:
    """Return arguments for the shape of the model and the length of samples."""
    model, sequence = job.problem.architecture, job.problem.sequence
    block = model.blocks[0]
    attention, moe = block.attention, job.experts
    feed = job.dense or moe
    assert feed is not None
    made: Arguments = {
        "num-layers": str(len(model.blocks)),
        "hidden-size": str(block.hidden),
        "ffn-hidden-size": str(feed.inner),
        "num-attention-heads": str(attention.heads),
        **_attention(attention),
        "seq-length": str(sequence),
        "max-position-embeddings": str(max(sequence, model.positions)),
        "vocab-size": str(model.vocabulary),
        "position-embedding-type": "learned_absolute" if model.positions else "rope",
        "normalization": "LayerNorm" if block.norm_bias else "RMSNorm",
    }
    if feed.gated:
        made["swiglu"] = ""
    if not _all_biases(job):
        made["disable-bias-linear"] = ""
        if _query_biases(job):
            made["add-qkv-bias"] = ""
    if not model.tied:
        made["untie-embeddings-and-output-weights"] = ""
    made |= _windows(job)
    if moe is not None:
        made |= _experts(job, moe)
    if model.prediction:
        made["mtp-num-layers"] = str(model.prediction.modules)
    return made


def _core(attention: Attention) -> tuple[object, ...]:
    """Shape of an attention, its window apart."""
    a = attention
    ranks = (a.query_rank, a.kv_rank, a.rope_size, a.value_size)
    biases = (a.bias, a.output_bias, a.query_key_norm, a.sinks)
    return (a.heads, a.kv_heads, a.head_size, a.causal, ranks, biases)


def _all_biases(job: Job) -> bool | None:
    """Whether output projections and feed-forward parts have biases; ``None`` if some have."""
    runs = job.problem.architecture.runs
    biases = {b.attention.output_bias for b, _ in runs} | {b.feed_forward.bias for b, _ in runs}
    return biases.pop() if len(biases) == 1 else None


def _query_biases(job: Job) -> bool:
    return job.problem.architecture.blocks[0].attention.bias


def _attention(attention: Attention) -> Arguments:
    made: Arguments = {}
    if attention.latent:
        made["multi-latent-attention"] = ""
        if attention.query_rank:
            made["q-lora-rank"] = str(attention.query_rank)
        made["kv-lora-rank"] = str(attention.kv_rank)
        made["qk-head-dim"] = str(attention.head_size)
        made["qk-pos-emb-head-dim"] = str(attention.rope_size)
        made["v-head-dim"] = str(attention.value_size)
    else:
        made["kv-channels"] = str(attention.head_size)
        if attention.kv_heads != attention.heads:
            made["group-query-attention"] = ""
            made["num-query-groups"] = str(attention.kv_heads)
    if attention.latent or attention.query_key_norm:
        made["qk-layernorm"] = ""
    if attention.sinks:
        made["softmax-type"] = "learnable"
    return made


def _windows(job: Job) -> Arguments:
    windows = [block.attention.window for block in job.problem.architecture.blocks]
    widths = [window for window in windows if window is not None]
    if not widths:
        return {}
    made = {"window-size": f"{widths[0]},0"}
    if len(widths) < len(windows):
        made["window-attn-skip-freq"] = pattern([int(w is not None) for w in windows])
    return made


def _experts(job: Job, moe: Moe) -> Arguments:
    made = {
        "num-experts": str(moe.experts),
        "moe-router-topk": str(moe.active),
        "moe-ffn-hidden-size": str(moe.inner),
    }
    if moe.shared_inner:
        made["moe-shared-expert-intermediate-size"] = str(moe.shared_inner)
    blocks = job.problem.architecture.blocks
    if job.dense is not None:
        made["moe-layer-freq"] = pattern([int(isinstance(b.feed_forward, Moe)) for b in blocks])
    if moe.router_bias and not moe.bias:
        made["moe-router-enable-expert-bias"] = ""
        made["moe-router-score-function"] = "sigmoid"
    made["moe-grouped-gemm"] = ""
    made["moe-token-dispatcher-type"] = "alltoall"
    return made


def pattern(bits: Sequence[int]) -> str:
    """Write a bit per layer as the list expression that Megatron evaluates."""
    count = len(bits)
    for period in range(1, count):
        if count % period == 0 and all(bits[i] == bits[i % period] for i in range(count)):
            return f"([{','.join(map(str, bits[:period]))}])*{count // period}"
    runs: list[list[int]] = []
    for bit in bits:
        if runs and runs[-1][0] == bit:
            runs[-1][1] += 1
        else:
            runs.append([bit, 1])
    return f"({'+'.join(f'[{bit}]*{length}' for bit, length in runs)})"
