"""Job configuration of torchtitan, a TOML file.

Names, values and defaults as in ``torchtitan/config/job_config.py`` of torchtitan 0.2; names of
schedules as in ``torch.distributed.pipelining.schedules``.
"""

from __future__ import annotations

from functools import lru_cache

from ..architecture import Architecture
from ..blocks import Block
from ..configuration import Configuration, Offload, Precision, Recompute, Schedule
from ..models import model
from .job import Job, Refusals

HEAD = "# torchtitan configuration by milp-plan"

FLAVORS = {
    "llama3-8b": ("llama3", "8B"),
    "llama3-70b": ("llama3", "70B"),
    "llama3-405b": ("llama3", "405B"),
    "qwen3-0.6b": ("qwen3", "0.6B"),
    "qwen3-1.7b": ("qwen3", "1.7B"),
    "qwen3-4b": ("qwen3", "4B"),
    "qwen3-8b": ("qwen3", "8B"),
    "qwen3-14b": ("qwen3", "14B"),
    "qwen3-32b": ("qwen3", "32B"),
    "qwen3-30b-a3b": ("qwen3", "30B-A3B"),
    "qwen3-235b-a22b": ("qwen3", "235B-A22B"),
    "deepseek-v2-lite": ("deepseek_v3", "16B"),
    "deepseek-v2": ("deepseek_v3", "236B"),
    "deepseek-v3": ("deepseek_v3", "671B"),
    "gpt-oss-20b": ("gpt_oss", "20b"),
    "gpt-oss-120b": ("gpt_oss", "120b"),
}
"""Our name of a model -> its name and flavor there."""

PIPELINED = ("llama3", "deepseek_v3")
"""Models that it divides into pipeline stages."""

SCHEDULES = {
    Schedule.GPIPE: "GPipe",
    Schedule.ONE_F_ONE_B: "1F1B",
    Schedule.INTERLEAVED: "Interleaved1F1B",
    Schedule.ZB_H1: "InterleavedZeroBubble",
    Schedule.ZB_V: "ZBVZeroBubble",
    Schedule.DUALPIPE_V: "DualPipeV",
}
"""Schedules that it has; interleaved zero bubble with one stage a rank is ZB-H1."""

RECOMPUTE = {Recompute.NONE: "none", Recompute.FULL: "full"}


def flavor(architecture: Architecture) -> tuple[str, str] | None:
    """Return name and flavor of a model of the same shape, whatever it is called here."""
    return _flavor(architecture.runs, architecture.vocabulary)


@lru_cache(maxsize=8)
def _flavor(runs: tuple[tuple[Block, int], ...], vocabulary: int) -> tuple[str, str] | None:
    for name, found in FLAVORS.items():
        known = model(name)
        if known.runs == runs and known.vocabulary == vocabulary:
            return found
    return None


def text(job: Job) -> str:
    """Return the file that runs a configuration."""
    name = flavor(job.problem.architecture)
    assert name is not None
    c = job.configuration
    piped = c.pipeline > 1
    replicated = c.zero == 0 and c.data > 1
    sections: dict[str, dict[str, object]] = {
        "model": {"name": name[0], "flavor": name[1]},
        "training": {
            "local_batch_size": c.micro_batch * (c.micro_batches if piped else 1),
            "global_batch_size": c.global_batch,
            "seq_len": job.problem.sequence,
            "dtype": "float32",
            "mixed_precision_param": "bfloat16",
        },
        "parallelism": {
            "data_parallel_replicate_degree": c.data if replicated else 1,
            "data_parallel_shard_degree": 1 if replicated else c.data,
            "fsdp_reshard_after_forward": "always" if c.zero == 3 else "never",
            "tensor_parallel_degree": c.tensor,
            "context_parallel_degree": c.context,
            "pipeline_parallel_degree": c.pipeline,
        },
        "activation_checkpoint": {"mode": RECOMPUTE[c.recompute]},
    }
    if c.offload is Offload.OPTIMIZER:
        sections["training"]["enable_cpu_offload"] = True
    if c.expert > 1:
        sections["parallelism"]["expert_parallel_degree"] = c.expert
        sections["parallelism"]["expert_tensor_parallel_degree"] = c.expert_tensor
    if piped:
        sections["parallelism"]["pipeline_parallel_schedule"] = SCHEDULES[c.schedule]
        sections["parallelism"]["pipeline_parallel_microbatch_size"] = c.micro_batch
        sections["parallelism"]["module_fqns_per_model_part"] = modules(job.layers)
    if c.precision is Precision.FP8:
        sections["model"]["converters"] = ["quantize.linear.float8"]
    lines = [HEAD, f"# {job.title}", "# Add tokenizer, data set, optimizer and learning rate."]
    for section, fields in sections.items():
        lines += ["", f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


def modules(layers: tuple[int, ...]) -> list[list[str]]:
    """Return names of the modules of each chunk."""
    start = 0
    parts = []
    for count in layers:
        parts.append([f"layers.{i}" for i in range(start, start + count)])
        start += count
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return parts


def _toml(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + "".join(f"  {_toml(part)},\n" for part in value) + "]"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def refusals_of(job: Job) -> Refusals:
    """Return why torchtitan cannot run a configuration."""
    c, model_ = job.configuration, job.problem.architecture
    name = flavor(model_)
    refusals = Refusals("torchtitan")
    refusals.check(
        name is None,
        f"it has no model of the shape of {model_.name}",
        f"export a plan of one of {', '.join(FLAVORS)}",
    )
    refusals.check(
        model_.prediction is not None,
        "it has no multi-token prediction",
        "plan with --model-file and a config.json without num_nextn_predict_layers",
    )
    _refuse_pipeline(job, name, refusals)
    refusals.every_block(job)
    refusals.check(
        c.tensor > 1 and not c.sequence_parallel,
        "its tensor parallelism is sequence parallel",
        "plan with --fix sequence_parallel=true",
    )
    split = c.tensor * (2 * c.context if c.context > 1 else 1)
    refusals.check(
        job.problem.sequence % split != 0,
        f"it divides a sequence by {split}",
        f"choose another --sequence than {job.problem.sequence}",
    )
    refusals.check(
        job.experts is not None and c.expert == 1 and c.expert_tensor != c.tensor,
        "without expert parallelism its experts have the tensor degree",
        "plan with --fix expert=2 (or more), or --fix tensor=1",
    )
    borrowed = c.context * (c.tensor if c.expert_tensor == 1 else 1)
    refusals.check(
        c.expert > 1 and c.expert % borrowed != 0,
        f"its expert ranks are whole groups of {borrowed} tensor and context ranks",
        f"plan with --fix expert={borrowed} (or a multiple)",
    )
    _refuse_sharding(c, refusals)
    refuse_offload(job, refusals)
    return refusals


def _refuse_pipeline(job: Job, name: tuple[str, str] | None, refusals: Refusals) -> None:
    c = job.configuration
    if c.pipeline == 1:
        return
    refusals.check(
        name is not None and name[0] not in PIPELINED,
        f"it does not divide {name[0] if name else ''} into pipeline stages",
        "plan with --fix pipeline=1",
    )
    refusals.check(
        c.schedule not in SCHEDULES,
        f"it has no schedule {c.schedule}",
        f"plan with --fix schedule= one of {', '.join(SCHEDULES)}",
    )
    refusals.check(
        c.schedule is Schedule.DUALPIPE_V and c.recompute is not Recompute.NONE,
        "DualPipeV takes no recomputation",
        "plan with --fix recompute=none",
    )


def _refuse_sharding(c: Configuration, refusals: Refusals) -> None:
    ranks = c.data * c.context
    alone = c.tensor * c.context * c.pipeline * c.expert == 1
    refusals.check(
        c.zero == 0 and ranks > 1 and not alone,
        "it has optimizer state on every data rank only where nothing else is divided",
        "plan with --fix zero=1, or without a pipeline 2 or 3",
    )
    refusals.check(
        c.zero == 1 and ranks > 1 and c.pipeline == 1,
        "without a pipeline it shards gradients with optimizer state, at every micro-batch",
        "plan with --fix zero=2 or --fix zero=3",
    )
    refusals.check(
        c.zero == 2 and ranks > 1 and c.pipeline > 1,
        "its pipelines shard gradients once, after the last micro-batch",
        "plan with --fix zero=1",
    )


def refuse_offload(job: Job, refusals: Refusals) -> None:
    """Note where its offload moves nothing to the host, or more than optimizer state.

    It moves sharded parameters in 32 bits and their gradients. Where parameters are whole on the
    devices during a step, in 16 bits, that is what the optimizer needs and nothing else.
    """
    c = job.configuration
    refusals.check(
        c.offload is Offload.OPTIMIZER and (c.zero == 0 or c.data * c.context == 1),
        "it moves optimizer state to the host only where it is sharded over several ranks",
        "plan with --fix offload=none",
    )
    refusals.parameters_here(job, "plan with --fix offload=none")
    refusals.gradients_at_the_end(job, "plan with --fix offload=none")
