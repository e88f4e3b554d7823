"""Training plans as configuration of frameworks: texts, refusals, and what is read back."""

from __future__ import annotations

import ast
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import InputError, UnsupportedProblemError
from milp_plan.kinds.training import Configuration, Precision, Recompute, Schedule
from milp_plan.kinds.training.api import training_problem
from milp_plan.kinds.training.commands import FRAMEWORKS
from milp_plan.kinds.training.configuration import Offload
from milp_plan.kinds.training.exports import FORMATS, export, read_configuration
from milp_plan.kinds.training.exports.arguments import arguments_of
from milp_plan.kinds.training.exports.layout import layout_text, read_layout
from milp_plan.kinds.training.exports.megatron_model import pattern
from milp_plan.kinds.training.exports.megatron_read import read_script
from milp_plan.kinds.training.exports.torchtitan_read import default_layers, read
from milp_plan.kinds.training.problem import TrainingProblem
from milp_plan.kinds.training.space import divisors
from tests.cli.cases import call

MEGATRON_OPTIONS = """
    tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size
    expert-model-parallel-size expert-tensor-parallel-size num-layers-per-virtual-pipeline-stage
    pipeline-model-parallel-layout micro-batch-size global-batch-size sequence-parallel
    recompute-granularity recompute-method recompute-num-layers recompute-modules
    use-distributed-optimizer overlap-grad-reduce overlap-param-gather use-megatron-fsdp
    data-parallel-sharding-strategy no-gradient-accumulation-fusion ckpt-format
    cpu-offloading-num-layers optimizer-cpu-offload optimizer-offload-fraction
    use-precision-aware-optimizer bf16 fp8-format fp8-recipe num-layers hidden-size
    ffn-hidden-size num-attention-heads kv-channels group-query-attention num-query-groups
    seq-length max-position-embeddings vocab-size position-embedding-type normalization swiglu
    disable-bias-linear add-qkv-bias untie-embeddings-and-output-weights qk-layernorm softmax-type
    window-size window-attn-skip-freq multi-latent-attention q-lora-rank kv-lora-rank qk-head-dim
    qk-pos-emb-head-dim v-head-dim mtp-num-layers num-experts moe-router-topk moe-ffn-hidden-size
    moe-shared-expert-intermediate-size moe-layer-freq moe-router-enable-expert-bias
    moe-router-score-function moe-grouped-gemm moe-token-dispatcher-type
    attention-dropout hidden-dropout
    nnodes nproc-per-node node-rank master-addr master-port
"""
"""Options of megatron/training/arguments.py, NVIDIA/Megatron-LM at 000c4ac, and of torchrun."""


def job(
    model: str = "llama3-8b", cluster: str = "8xH100", batch: int = 64, **fields: Any
) -> tuple[TrainingProblem, Configuration]:
    """A problem, and a configuration that can run on it: data ranks and micro-batches follow."""
    problem = training_problem(model, cluster, global_batch=batch)
    c = Configuration(**fields)
    c = replace(c, data=problem.cluster.devices // (c.tensor * c.context * c.pipeline))
    c = replace(c, micro_batches=batch // (c.data * c.micro_batch))
    c = replace(c, sequence_parallel=c.tensor > 1 and c.sequence_parallel)
    assert problem.why_not(c) is None
    return problem, c


def arguments(text: str) -> dict[str, str]:
    """Options of a script."""
    return arguments_of(text, "launch.sh")


LLAMA_405B = """\
  --tensor-model-parallel-size 8
  --pipeline-model-parallel-size 16
  --context-parallel-size 1
  --pipeline-model-parallel-layout "Et*7|(t*8|)*14,t*7L"
  --micro-batch-size 1
  --global-batch-size 2048
  --sequence-parallel
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
  --attention-dropout 0.0
  --hidden-dropout 0.0
  --bf16
  --num-layers 126
  --hidden-size 16384
  --ffn-hidden-size 53248
  --num-attention-heads 128
  --kv-channels 128
  --group-query-attention
  --num-query-groups 8
  --seq-length 8192
  --max-position-embeddings 8192
  --vocab-size 128256
  --position-embedding-type rope
  --normalization RMSNorm
  --swiglu
  --disable-bias-linear
  --untie-embeddings-and-output-weights
)
torchrun --nnodes 2048 --nproc-per-node 8 """

DEEPSEEK = """\
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 16
  --context-parallel-size 1
  --expert-model-parallel-size 64
  --expert-tensor-parallel-size 1
  --pipeline-model-parallel-layout "Et*3|(t*2|)*29,|mL"
  --micro-batch-size 1
  --global-batch-size 8192
  --recompute-granularity selective
  --recompute-modules core_attn
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
  --attention-dropout 0.0
  --hidden-dropout 0.0
  --bf16
  --fp8-format hybrid
  --num-layers 61
  --hidden-size 7168
  --ffn-hidden-size 18432
  --num-attention-heads 128
  --multi-latent-attention
  --q-lora-rank 1536
  --kv-lora-rank 512
  --qk-head-dim 128
  --qk-pos-emb-head-dim 64
  --v-head-dim 128
  --qk-layernorm
  --seq-length 4096
  --max-position-embeddings 4096
  --vocab-size 129280
  --position-embedding-type rope
  --normalization RMSNorm
  --swiglu
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --num-experts 256
  --moe-router-topk 8
  --moe-ffn-hidden-size 2048
  --moe-shared-expert-intermediate-size 2048
  --moe-layer-freq "([0]*3+[1]*58)"
  --moe-router-enable-expert-bias
  --moe-router-score-function sigmoid
  --moe-grouped-gemm
  --moe-token-dispatcher-type alltoall
  --mtp-num-layers 1
)
"""

LLAMA_8B = """\
[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 8
global_batch_size = 32
seq_len = 8192
dtype = "float32"
mixed_precision_param = "bfloat16"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 4
fsdp_reshard_after_forward = "never"
tensor_parallel_degree = 2
context_parallel_degree = 1
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatch_size = 1
module_fqns_per_model_part = [
  ["tok_embeddings", FIRST],
  [SECOND, "norm", "output"],
]

[activation_checkpoint]
mode = "full"
"""
for _name, _part in (("FIRST", range(17)), ("SECOND", range(17, 32))):
    LLAMA_8B = LLAMA_8B.replace(_name, ", ".join(f'"layers.{i}"' for i in _part))


def test_llama_405b_as_its_report_runs_it() -> None:
    """Degrees of arXiv:2407.21783, table 4: 8-way tensor, 16-way pipeline, 128-way data."""
    problem, c = job(
        "llama3-405b", "2048x8xH100", 2048, tensor=8, pipeline=16,
        layers=(7, *(8,) * 14, 7),
    )  # fmt: skip
    text = export(problem, c, "megatron")
    assert text.startswith(
        "#!/usr/bin/env bash\n# Megatron-LM arguments by milp-plan\n# llama3-405b"
    )
    assert LLAMA_405B in text


def test_deepseek_v3_with_a_layout_of_empty_chunks_and_multi_token_prediction() -> None:
    """Degrees of arXiv:2412.19437, section 3.2: 16-way pipeline, 64-way experts, no tensor."""
    problem, c = job(
        "deepseek-v3", "256x8xH800", 8192, pipeline=16, expert=64, virtual=2,
        schedule=Schedule.INTERLEAVED, recompute=Recompute.ATTENTION, precision=Precision.FP8,
        layers=(3, *(2,) * 29, 0, 0),
    )  # fmt: skip
    assert DEEPSEEK in export(problem, c, "megatron")


def test_llama_8b_in_torchtitan_with_a_stage_that_is_longer() -> None:
    problem, c = job(
        "llama3-8b", "2x8xH100", 32, tensor=2, pipeline=2, recompute=Recompute.FULL, layers=(17, 15)
    )
    text = export(problem, c, "torchtitan")
    assert text.endswith(LLAMA_8B)
    assert read(text, "job.toml", problem).configuration == c


def test_nanotron_deepspeed_and_fsdp2() -> None:
    problem, c = job(tensor=2, pipeline=2, recompute=Recompute.FULL, micro_batch=2, context=2)
    text = export(problem, c, "nanotron")
    for line in (
        *("  dp: 1", "  pp: 2", "  tp: 2", "  context_parallel_size: 2", "  pp_engine: 1f1b"),
        *("  tp_mode: REDUCE_SCATTER", "  recompute_layer: true", "  zero_stage: 1"),
        *(
            "  sequence_length: 8192",
            "  micro_batch_size: 2",
            "  batch_accumulation_per_replica: 32",
        ),
        *("    hidden_size: 4096", "    num_key_value_heads: 8", "    tie_word_embeddings: false"),
    ):
        assert line in text.splitlines()
    problem, c = job(tensor=2, zero=2, sequence_parallel=False)
    data = json.loads(export(problem, c, "deepspeed"))
    assert data["train_batch_size"] == 64
    assert data["train_micro_batch_size_per_gpu"] == 1
    assert data["gradient_accumulation_steps"] == 16
    assert data["zero_optimization"]["stage"] == 2
    assert data["tensor_parallel"] == {"autotp_size": 2}
    assert "activation_checkpointing" not in data
    problem, c = job(tensor=2, zero=3, recompute=Recompute.FULL, recomputed=5, micro_batch=4)
    text = export(problem, c, "fsdp2")
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert (values["DATA"], values["TENSOR"]) == (4, 2)
    assert (values["MICRO_BATCH"], values["MICRO_BATCHES"], values["RECOMPUTED"]) == (4, 4, 5)
    assert values["RESHARD_AFTER_FORWARD"] is values["SYNC_EVERY_MICRO_BATCH"] is True
    other = export(problem, replace(c, zero=1, recomputed=0), "fsdp2")
    assert "RECOMPUTED = 32 " in other
    assert "SYNC_EVERY_MICRO_BATCH = False" in other


def test_what_saves_memory_in_megatron() -> None:
    problem, c = job(
        "deepseek-v2-lite", expert=8, recompute=Recompute.LIGHT, offload=Offload.OPTIMIZER,
        precision=Precision.FP8,
    )  # fmt: skip
    text = export(problem, c, "megatron")
    assert "  --recompute-modules layernorm moe_act mla_up_proj\n" in text
    options = arguments(text)
    assert options["recompute-granularity"] == "selective"
    assert (options["fp8-format"], options["fp8-recipe"]) == ("hybrid", "tensorwise")
    assert options["optimizer-offload-fraction"] == "1.0"
    assert {"optimizer-cpu-offload", "use-precision-aware-optimizer"} < set(options)
    assert read_script(text, "launch.sh", problem).configuration == c
    problem, c = job(recompute=Recompute.OFFLOAD, recomputed_by_chunk=(31,))
    options = arguments(export(problem, c, "megatron"))
    assert options["cpu-offloading-num-layers"] == "31"
    assert not any(name.startswith(("recompute", "optimizer")) for name in options)


def test_what_saves_memory_in_other_frameworks() -> None:
    problem, c = job(offload=Offload.OPTIMIZER)
    data = json.loads(export(problem, c, "deepspeed"))["zero_optimization"]
    assert data["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    text = export(problem, replace(c, recompute=Recompute.OFFLOAD, recomputed=5), "fsdp2")
    assert {"RECOMPUTED = 0", "OFFLOADED = 5", "OPTIMIZER_ON_HOST = True"} < {
        line.split("  #")[0] for line in text.splitlines()
    }
    problem, c = job(pipeline=2, offload=Offload.OPTIMIZER)
    assert "enable_cpu_offload = true\n" in export(problem, c, "torchtitan")
    once, c = job(offload=Offload.OPTIMIZER, zero=2, micro_batch=8)
    for name in ("deepspeed", "fsdp2", "torchtitan"):
        assert export(once, c, name)


MODELS = (
    "llama3-8b",
    "llama3-8b",
    "llama3-8b",
    "gpt3-6.7b",
    "qwen3-30b-a3b",
    "mixtral-8x7b",
    "deepseek-v2-lite",
    "gpt-oss-20b",
)


def random_job(draw: random.Random) -> tuple[TrainingProblem, Configuration] | None:
    """Any configuration that can run, memory apart; nothing where the draw is none."""
    devices = draw.choice((8, 16, 32, 64))
    batch = devices * draw.choice((1, 4, 16))
    problem = training_problem(
        draw.choice(MODELS), f"{devices}xH100", global_batch=batch, sequence=4096
    )
    tensor, context = draw.choice((1, 1, 2, 4)), draw.choice((1, 1, 1, 2))
    pipeline = draw.choice((1, 2, 4))
    if devices % (tensor * context * pipeline):
        return None
    data = devices // (tensor * context * pipeline)
    schedule = draw.choice(tuple(Schedule)) if pipeline > 1 else Schedule.ONE_F_ONE_B
    several = {Schedule.INTERLEAVED: 3, Schedule.ZB_V: 2, Schedule.DUALPIPE_V: 2}.get(schedule, 1)
    recompute = draw.choice(tuple(Recompute))
    micro_batch = draw.choice(divisors(batch // data))
    experts = "a3b" in problem.name or "mixtral" in problem.name
    c = Configuration(
        tensor=tensor, context=context, pipeline=pipeline, data=data, virtual=several,
        expert=draw.choice((1, 2, 4)) if experts else 1,
        expert_tensor=draw.choice((1, tensor)) if experts else 1,
        micro_batch=micro_batch, micro_batches=batch // data // micro_batch, schedule=schedule,
        sequence_parallel=tensor > 1 and draw.random() < 0.8, recompute=recompute,
        recomputed=draw.choice((0, 2)) if recompute in (Recompute.FULL, Recompute.OFFLOAD) else 0,
        zero=draw.choice((0, 1, 1, 2, 3)),
        offload=draw.choice(tuple(Offload)),
        precision=draw.choice(tuple(Precision)),
        layers=_uneven(draw, len(problem.architecture.blocks), pipeline * several),
    )  # fmt: skip
    broken = problem.why_not(c)
    return None if broken else (problem, c)


def _uneven(draw: random.Random, blocks: int, chunks: int) -> tuple[int, ...]:
    if draw.random() < 0.5:
        return ()
    cuts = sorted(draw.randint(0, blocks) for _ in range(chunks - 1))
    counts = tuple(b - a for a, b in zip([0, *cuts], [*cuts, blocks], strict=True))
    return counts if len(set(counts)) > 1 else ()


def test_what_is_written_is_read_back() -> None:
    draw, tried, back = random.Random(7), 0, {"megatron": 0, "torchtitan": 0}
    written: dict[str, set[object]] = {name: set() for name in back}
    while tried < 600:
        made = random_job(draw)
        if made is None:
            continue
        tried += 1
        problem, c = made
        for name in back:
            try:
                text = export(problem, c, name)
            except UnsupportedProblemError:
                continue
            back[name] += 1
            written[name] |= {c.recompute, c.offload}
            reader = read_script if name == "megatron" else read
            launch = reader(text, "file", problem)
            alone = name == "torchtitan" and c.data * c.context == 1
            wanted = replace(c, zero=launch.configuration.zero) if alone else c
            assert launch.configuration == wanted, text
            assert launch.unread == ()
            if name == "megatron":
                assert set(arguments(text)) <= set(MEGATRON_OPTIONS.split())
    assert back["megatron"] > 100
    assert back["torchtitan"] > 20
    assert written["megatron"] == {*Recompute, *Offload}
    assert written["torchtitan"] == {Recompute.NONE, Recompute.FULL, *Offload}


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("megatron", {"pipeline": 2, "schedule": Schedule.ZB_H1}, "zb-h1", "--fix schedule=1f1b"),
    ("megatron", {"pipeline": 2, "schedule": Schedule.GPIPE}, "gpipe", "--fix schedule=1f1b"),
    ("megatron", {"recompute": Recompute.LIGHT}, "there are neither", "--fix recompute=full"),
    ("megatron", {"recompute": Recompute.OFFLOAD}, "the last block", "--fix recomputed=31"),
    ("megatron", {"recompute": Recompute.OFFLOAD, "recomputed": 2, "pipeline": 2},
     "without a pipeline", "--fix pipeline=1"),
    ("megatron", {"offload": Offload.OPTIMIZER, "zero": 0}, "stage 1", "--fix zero=1"),
    ("megatron", {"offload": Offload.OPTIMIZER, "zero": 2}, "stage 1", "--fix zero=1"),
    ("torchtitan", {"pipeline": 2, "schedule": Schedule.V_HALF, "virtual": 2}, "v-half", "1f1b"),
    ("torchtitan", {"recompute": Recompute.ATTENTION, "zero": 3}, "attention alone", "full"),
    ("torchtitan", {"recompute": Recompute.FULL, "recomputed": 3}, "the first", "recomputed=0"),
    ("torchtitan", {"tensor": 2, "sequence_parallel": False}, "sequence parallel", "=true"),
    ("torchtitan", {"zero": 1}, "shards gradients", "--fix zero=2"),
    ("torchtitan", {"zero": 2, "pipeline": 2}, "after the last micro-batch", "--fix zero=1"),
    ("torchtitan", {"zero": 0, "tensor": 2}, "every data rank", "--fix zero"),
    ("torchtitan", {"recompute": Recompute.LIGHT, "zero": 3}, "norms and the like alone", "full"),
    ("torchtitan", {"recompute": Recompute.OFFLOAD, "zero": 3}, "not copy the activations", "full"),
    ("torchtitan", {"offload": Offload.OPTIMIZER, "zero": 0}, "several ranks", "offload=none"),
    ("torchtitan", {"offload": Offload.OPTIMIZER, "zero": 1, "pipeline": 8}, "several", "none"),
    ("torchtitan", {"offload": Offload.OPTIMIZER, "zero": 2}, "of the 8 micro-batches", "none"),
    ("torchtitan", {"offload": Offload.OPTIMIZER, "zero": 3}, "parameters to the host", "none"),
    ("nanotron", {"recompute": Recompute.LIGHT}, "norms and the like alone", "recompute=full"),
    ("nanotron", {"recompute": Recompute.OFFLOAD}, "not copy the activations", "recompute=full"),
    ("nanotron", {"offload": Offload.OPTIMIZER}, "runs on the devices", "--fix offload=none"),
    ("nanotron", {"zero": 3}, "stage 3", "--fix zero=1"),
    ("nanotron", {"pipeline": 2, "layers": (17, 15)}, "chooses the blocks", "--fix layers="),
    ("nanotron", {"pipeline": 2, "schedule": Schedule.ZB_H1}, "zb-h1", "--fix schedule=1f1b"),
    ("nanotron", {"precision": Precision.FP8}, "8-bit", "--fix precision=bf16"),
    ("deepspeed", {"pipeline": 2}, "2 stages", "--fix pipeline=1"),
    ("deepspeed", {"context": 2}, "context", "--fix context=1"),
    ("deepspeed", {"tensor": 2}, "sequence parallel", "--fix sequence_parallel=false"),
    ("deepspeed", {"recompute": Recompute.LIGHT}, "norms and the like alone", "recompute=full"),
    ("deepspeed", {"recompute": Recompute.OFFLOAD}, "not copy the activations", "recompute=full"),
    ("deepspeed", {"offload": Offload.OPTIMIZER, "zero": 0}, "from stage 1 on", "--fix zero=1"),
    ("deepspeed", {"offload": Offload.OPTIMIZER, "zero": 3}, "of the 8 micro-batches", "zero=1"),
    ("fsdp2", {"pipeline": 2}, "2 stages", "--fix pipeline=1"),
    ("fsdp2", {"zero": 0}, "shards optimizer state", "--fix zero=1"),
    ("fsdp2", {"recompute": Recompute.ATTENTION}, "whole blocks", "--fix recompute=full"),
    ("fsdp2", {"recompute": Recompute.LIGHT}, "whole blocks", "--fix recompute=full"),
    ("fsdp2", {"recompute": Recompute.OFFLOAD, "tensor": 2}, "tensor-parallel", "--fix tensor=1"),
    ("fsdp2", {"offload": Offload.OPTIMIZER, "zero": 3}, "parameters to the host", "zero=1"),
    ("fsdp2", {"offload": Offload.OPTIMIZER, "zero": 2}, "of the 8 micro-batches", "zero=1"),
    ("megatron", {"model": "vit-l"}, "not a decoder", "export a plan"),
    ("megatron", {"model": "llava-7b"}, "not a decoder", "export a plan"),
    ("megatron", {"model": "mixtral-8x7b", "tensor": 2, "sequence_parallel": False},
     "experts", "--fix sequence_parallel=true"),
    ("megatron", {"model": "mixtral-8x7b", "recompute": Recompute.OFFLOAD, "recomputed": 2},
     "SwiGLU", "--fix recompute=full"),
    ("megatron", {"model": "gpt3-6.7b", "recompute": Recompute.OFFLOAD, "recomputed": 2},
     "SwiGLU", "--fix recompute=full"),
    ("torchtitan", {"model": "gpt3-6.7b", "zero": 3}, "no model of the shape", "export a plan"),
    ("torchtitan", {"model": "deepseek-v3", "zero": 3}, "multi-token", "--model-file"),
    ("torchtitan", {"model": "qwen3-8b", "pipeline": 2}, "does not divide", "--fix pipeline=1"),
    ("torchtitan", {"model": "qwen3-30b-a3b", "zero": 3, "tensor": 2},
     "experts have the tensor degree", "--fix expert=2"),
    ("torchtitan", {"model": "qwen3-30b-a3b", "zero": 3, "tensor": 4, "expert": 2},
     "groups of 4 tensor", "--fix expert"),
    ("nanotron", {"model": "gpt3-6.7b"}, "another shape", "a plan of a Llama"),
    ("nanotron", {"model": "qwen3-8b"}, "another shape", "a plan of a Llama"),
    ("fsdp2", {"model": "mixtral-8x7b", "expert": 2}, "distributes no experts", "--fix expert=1"),
    ("deepspeed", {"model": "mixtral-8x7b", "expert": 2, "tensor": 2},
     "without tensor", "--fix tensor=1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "reason", "remedy"), REFUSED)
def test_what_a_framework_cannot_do_is_refused_with_a_remedy(
    name: str, fields: dict[str, Any], reason: str, remedy: str
) -> None:
    problem, c = job(**fields)
    with pytest.raises(UnsupportedProblemError) as caught:
        export(problem, c, name)
    first = str(caught.value).splitlines()
    assert first[0] == f"{name} cannot run this plan:"
    assert any(reason in line and remedy in line for line in first[1:]), first


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (
            "Ettt|(tt|)*29,|mL",
            (3, *(2,) * 29, 0, 0),
        ),  # the parser's own example, its last two joined
        ("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", (2, *(2,) * 34, 3, 2, 2, 2, 1)),
        ("E|(t|)*3,tmm L", (0, 1, 1, 1, 1)),
        ("E|(tt|t|)*2,L", (0, 2, 1, 2, 1, 0)),
        ("EtL", (1,)),
    ],
)
def test_layouts_are_read(text: str, counts: tuple[int, ...]) -> None:
    assert read_layout(text) == counts


@pytest.mark.parametrize(
    "text", ["", "tt|L", "Et|m|L", "EtxL", "Et|tLt", "LtE", "Et*99999L", "(" * 9, "E(t*999)*9999L"]
)
def test_layouts_that_a_plan_cannot_say_are_words(text: str) -> None:
    assert isinstance(read_layout(text), str)


def test_layouts_come_back() -> None:
    draw = random.Random(3)
    for _ in range(300):
        counts = tuple(draw.choice((0, 1, 2, 2, 2, 9)) for _ in range(draw.randint(1, 40)))
        assert read_layout(layout_text(counts, draw.randint(0, 3))) == counts


@pytest.mark.parametrize("bits", [[1, 0] * 4, [0, 0, 1, 1, 1], [1], [1, 1, 1], [1, 0, 0, 1]])
def test_patterns_of_layers_are_what_megatron_evaluates(bits: list[int]) -> None:
    assert eval(pattern(bits)) == bits


SCRIPT = """
TP=4 # a comment
PP=${PIPELINE:-2}
BATCH=(--micro-batch-size 2 --global-batch-size=64)
python pretrain_gpt.py \\
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} --sequence-parallel \\
    --recompute-activations --use-distributed-optimizer "${BATCH[@]}" --bf16 --lr 3.0e-4 \\
    --num-virtual-stages-per-pipeline-rank 2 --account-for-loss-in-pipeline-split \\
    --account-for-embedding-in-pipeline-split --num-query-groups 8
"""


def test_a_launch_drops_nothing_as_its_plan_counts_no_masks() -> None:
    """Megatron-LM drops a tenth by default."""
    problem, c = job(cluster="2x8xH100")
    text = export(problem, c, "megatron")
    assert {arguments(text)[name] for name in ("attention-dropout", "hidden-dropout")} == {"0.0"}
    assert read_script(text, "launch.sh", problem).unread == ()
    dropping = text.replace("hidden-dropout 0.0", "hidden-dropout 0.1")
    assert read_script(dropping, "launch.sh", problem).unread == ("--hidden-dropout",)


def test_a_limit_on_the_groups_of_experts_is_said() -> None:
    """A plan counts traffic to at most four nodes, and the script had no word of it."""
    problem, c = job("deepseek-v3", "32x8xH100", expert=64, batch=1024)
    text = export(problem, c, "megatron")
    assert "add --moe-router-num-groups and --moe-router-group-topk 4.\n" in text
    assert not any("group-topk" in name for name in arguments(text))


def test_a_script_written_by_hand_is_read() -> None:
    problem, _ = job(cluster="2x8xH100")
    text = SCRIPT.replace("pipeline-rank 2", "pipeline-rank 1")
    launch = read_script(text, "launch.sh", problem)
    c = launch.configuration
    assert (c.tensor, c.pipeline, c.data, c.virtual) == (4, 2, 2, 1)
    assert (c.micro_batch, c.micro_batches, c.zero, c.recompute) == (2, 16, 1, Recompute.ATTENTION)
    assert (c.sequence_parallel, c.layers) == (True, ())
    assert launch.unread == ("--lr",)
    with pytest.raises(InputError, match=r"--num-layers: found 34, expected a multiple of 4"):
        read_script(SCRIPT, "launch.sh", problem)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("--micro-batch-size 2", "--micro-batch-size two", "--micro-batch-size: found 'two'"),
        ("--micro-batch-size 2", "", "--micro-batch-size: found nothing"),
        ("size=64", "size=65", "--global-batch-size: found 65"),
        ("--bf16", "", "--bf16: found nothing"),
        ("$TP", "3", "devices: found 16, expected a multiple of 6"),
        ("--num-query-groups 8", "--num-query-groups 4", "--num-query-groups: found 4"),
        ("--lr", "--num-layers-per-virtual-pipeline-stage 2 --lr", "pipeline stages"),
        ("--lr", "--recompute-granularity some --lr", "recompute-granularity"),
        ("--lr", "--use-megatron-fsdp --data-parallel-sharding-strategy x --lr", "strategy"),
        ("--lr", "--pipeline-model-parallel-layout 'Et|L' --lr", "t of --pipeline-model"),
        ("--lr", "--nnodes 4 --nproc-per-node 8 --lr", "found 32, expected 16"),
        ("pipeline-rank 2", "pipeline-rank 999999999", "found 1999999998, expected at most 32"),
        ("--lr", "'--lr", "quotation"),
        ("--lr", "--recompute-granularity selective --recompute-modules layernorm --lr",
         "expected core_attn,"),
        ("--lr", "--recompute-activations --cpu-offloading-num-layers 3 --lr",
         "expected nothing, as Megatron"),
        ("--lr", "--cpu-offloading-num-layers some --lr",
         "--cpu-offloading-num-layers: found 'some'"),
        ("--lr", "--cpu-offloading-num-layers 32 --lr", "less than 32, the blocks of the model"),
        ("--lr", "--fine-grained-activation-offloading --lr",
         "expected --cpu-offloading-num-layers"),
        ("--lr", "--optimizer-cpu-offload --optimizer-offload-fraction 0.5 --lr",
         "fraction: found 0.5"),
    ],
)  # fmt: skip
def test_defects_of_a_script_name_the_option(old: str, new: str, message: str) -> None:
    problem, _ = job(cluster="2x8xH100")
    assert old in SCRIPT
    text = SCRIPT.replace("--recompute-activations", "").replace(old, new)
    with pytest.raises(InputError, match=re.escape(message)):
        read_script(text, "launch.sh", problem)


def test_no_offloaded_layers_are_none() -> None:
    problem, c = job()
    text = "--micro-batch-size 1 --global-batch-size 64 --bf16 --cpu-offloading-num-layers 0"
    assert read_script(text, "launch.sh", problem).configuration == replace(c, zero=0)


@pytest.mark.parametrize(
    ("blocks", "stages", "weights", "counts"),
    [
        (32, 4, (1, 1), (8, 9, 8, 7)),  # 34 over 4: 9, 9, 8, 8
        (3, 2, (2, 2), (2, 1)),  # the example of generate_llm_fqn_per_model_part
        (32, 8, (0, 0), (4,) * 8),
    ],
)
def test_stages_that_a_file_does_not_list_are_those_of_torchtitan(
    blocks: int, stages: int, weights: tuple[int, int], counts: tuple[int, ...]
) -> None:
    assert default_layers(blocks, stages, *weights) == counts


PUBLISHED = """
[model]
name = "llama3"
flavor = "8B"
[optimizer]
lr = 3e-4
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 1
pipeline_parallel_degree = 1
context_parallel_degree = 1
[activation_checkpoint]
mode = "full"
"""
"""After torchtitan/models/llama3/train_configs/llama3_8b.toml, with whole blocks recomputed."""


def test_a_file_in_the_manner_of_those_published_is_read() -> None:
    problem, c = job(batch=8, zero=3, recompute=Recompute.FULL)
    launch = read(PUBLISHED, "llama3_8b.toml", problem)
    assert launch.configuration == c
    assert launch.unread == ("optimizer.lr",)
    piped = PUBLISHED.replace("pipeline_parallel_degree = 1", "pipeline_parallel_degree = 4")
    piped = piped.replace("local_batch_size = 1", "local_batch_size = 4")
    found = read(piped, "llama3_8b.toml", problem).configuration
    assert (found.layers, found.micro_batches, found.zero) == ((8, 9, 8, 7), 4, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('mode = "full"', 'mode = "selective"', "activation_checkpoint.mode: found 'selective'"),
        ('mode = "full"', "", "mode: found nothing, torchtitan's default is selective, expected"),
        ('"8B"', '"70B"', "model: found llama3 70B, expected llama3 8B"),
        ("seq_len = 8192", "seq_len = 4096", "seq_len: found 4096, expected 8192"),
        ("replicate_degree = 1", "replicate_degree = 2", "2 x 4"),
        ("tensor_parallel_degree = 1", "tensor_parallel_degree = true", "tensor_parallel_degree"),
        ("tensor_parallel_degree = 1", "tensor_parallel_degree = 3", "multiple of 3"),
        ("pipeline_parallel_degree = 1", "pipeline_parallel_degree = 999999999", "at most 32"),
        ("shard_degree = -1", "shard_degree = 'all'", "data_parallel_shard_degree: found 'all'"),
        ('"8B"', "8", "model: found llama3 8"),
        ("[optimizer]", "[optimizer", "TOML"),
        ("seq_len", "enable_cpu_offload = true\nseq_len", "expected false: it moves sharded"),
        ("seq_len", "enable_cpu_offload = 1\nseq_len", "enable_cpu_offload: found 1"),
        ("[parallelism]", "[parallelism]\nfsdp_reshard_after_forward = 'often'", "often"),
        ("pipeline_parallel_degree = 1",
         "pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [['layers.0'], ['norm']]",
         "module_fqns_per_model_part"),
    ],
)  # fmt: skip
def test_defects_of_a_job_name_the_field(old: str, new: str, message: str) -> None:
    problem, _ = job(batch=8)
    assert old in PUBLISHED
    with pytest.raises(InputError, match=re.escape(message)):
        read(PUBLISHED.replace(old, new, 1), "job.toml", problem)


def test_a_launch_edited_by_hand_is_checked(tmp_path: Path) -> None:
    asked = ("train", "llama3-8b", "8xH100", "--global-batch", "32", "--sequence", "4096")
    script, plan = tmp_path / "launch.sh", tmp_path / "plan.json"
    fixed = ("--fix", "pp=2", "--fix", "schedule=1f1b", "--fix", "recompute=none")
    written = ("--export", "megatron", "-o", script, "--plan-output", plan, "--json")
    data = json.loads(call(*asked, *fixed, *written).stdout)
    for file in (script, plan):
        checked = json.loads(call(*asked, "--check", file, "--json").stdout)
        assert (checked["valid"], checked["value"]) == (True, data["value"])
    job_file = tmp_path / "job.toml"
    again = call(*asked, "--check", plan, "--export", "torchtitan", "-o", job_file)
    assert again.exit_code == Exit.DONE, again.stderr
    assert "by rates of megatron-core" in job_file.read_text()
    assert json.loads(call(*asked, "--check", job_file, "--json").stdout)["value"] == data["value"]
    edited = script.read_text().replace("  --bf16", "  --recompute-activations\n  --bf16\n  --lr 1")
    script.write_text(edited)
    slower = call(*asked, "--check", script, "--json")
    assert json.loads(slower.stdout)["value"] > data["value"]
    assert "not read: --lr" in slower.stderr
    assert call(*asked, *fixed, "--export", "megatron", "-o", script).exit_code == Exit.DONE
    tight = call(*asked, "--memory", "15GB", "--check", script)
    assert tight.exit_code == Exit.NOT_VALID
    anyhow = ("--framework", "any")
    refused = call(*asked, *fixed, *anyhow, "--export", "deepspeed", "-o", tmp_path / "x.json")
    assert refused.exit_code == Exit.BAD_INPUT
    assert "--fix pipeline=1" in refused.stderr
    assert call(*asked, "--export", "deepspeed").exit_code == Exit.USAGE


@pytest.mark.parametrize("name", ["megatron", "torchtitan", "nanotron"])
@pytest.mark.parametrize("kind", [each for each in Recompute if each is not Recompute.NONE])
def test_other_numbers_of_recomputed_blocks_in_each_chunk_are_refused(
    name: str, kind: Recompute
) -> None:
    problem, c = job(pipeline=2, recompute=kind, recomputed_by_chunk=(7, 3))
    remedy = "plan with --fix recompute=full|--fix recomputed_by_chunk="
    with pytest.raises(UnsupportedProblemError, match=remedy):
        export(problem, c, name)


def test_numbers_of_recomputed_blocks_that_come_to_the_same_are_written() -> None:
    problem, c = job(pipeline=2, recompute=Recompute.FULL, recomputed_by_chunk=(7, 7))
    assert arguments(export(problem, c, "megatron"))["recompute-num-layers"] == "7"
    short = replace(c, layers=(26, 6), recomputed_by_chunk=(7, 6))
    assert arguments(export(problem, short, "megatron"))["recompute-num-layers"] == "7"
    whole = replace(c, layers=(26, 6), recomputed_by_chunk=(26, 6))
    assert arguments(export(problem, whole, "megatron"))["recompute-method"] == "uniform"
    assert 'mode = "full"' in export(problem, whole, "torchtitan")
    problem, c = job(zero=3, recompute=Recompute.FULL, recomputed_by_chunk=(7,))
    assert "RECOMPUTED = 7 " in export(problem, c, "fsdp2")


def test_files_that_are_nothing_of_this_are_refused(tmp_path: Path) -> None:
    problem, _ = job()
    file = tmp_path / "x.txt"
    file.write_text("echo hello\n")
    with pytest.raises(InputError, match="something else"):
        read_configuration(file, problem)
    with pytest.raises(InputError, match="one of megatron"):
        export(problem, job()[1], "jax")
    with pytest.raises(UnsupportedProblemError, match="does not divide the 32 heads"):
        export(problem, replace(job()[1], tensor=3), "megatron")
    assert tuple(FORMATS) == FRAMEWORKS
