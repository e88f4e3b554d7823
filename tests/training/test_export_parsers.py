"""Exported plans read by the frameworks' own parsers, where they are installed.

None of them is a dependency. ``pip install --no-deps torchtitan==0.2.2 megatron-core deepspeed
nanotron`` beside PyTorch is enough, with what they import (tyro, dacite, pydantic, hjson, ...).
"""

from __future__ import annotations

import ast
import importlib.util
import json
import random
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from milp_plan.core import UnsupportedProblemError
from milp_plan.kinds.training import Recompute, Schedule
from milp_plan.kinds.training.configuration import Offload
from milp_plan.kinds.training.exports import export
from milp_plan.kinds.training.exports.layout import layout_text
from milp_plan.kinds.training.replay import ChunkCost, shop_and_words

from .test_exports import arguments, job, random_job


def texts(name: str, count: int) -> list[str]:
    """Exports of random configurations that the framework can run."""
    draw, found = random.Random(11), []
    while len(found) < count:
        made = random_job(draw)
        if made is None:
            continue
        try:
            found.append(export(*made, name))
        except UnsupportedProblemError:
            continue
    return found


def test_torchtitan_reads_its_files(tmp_path: Path) -> None:
    manager = pytest.importorskip("torchtitan.config.manager")
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    file = tmp_path / "job.toml"
    for text in texts("torchtitan", 20):
        file.write_text(text)
        config = manager.ConfigManager().parse_args(["--job.config_file", str(file)])
        assert f"global_batch_size = {config.training.global_batch_size}\n" in text
        schedules.get_schedule_class(config.parallelism.pipeline_parallel_schedule)


def test_interleaved_zero_bubble_with_one_stage_a_rank_is_zb_h1() -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    _, c = job(pipeline=4, schedule=Schedule.ZB_H1, batch=16)
    theirs = object.__new__(schedules.ScheduleInterleavedZeroBubble)
    theirs.pp_group_size, theirs.n_local_stages, theirs._num_stages = c.pipeline, 1, c.pipeline
    theirs._n_microbatches = theirs.microbatches_per_round = c.micro_batches
    theirs.number_of_rounds, theirs.rank = 1, 0
    shop, words = shop_and_words(c, (ChunkCost(1, 1, 1),) * c.pipeline)
    letters = {"forward": "F", "backward-input": "I", "backward-weight": "W"}
    for rank, word in enumerate(words):
        ours = [letters[shop.kinds[kind].role] for kind in word]
        actions = theirs._calculate_single_rank_operations(rank)
        assert ours == [str(action)[1] for action in actions if action is not None]


def test_megatron_reads_layouts_as_we_do() -> None:
    module = pytest.importorskip("megatron.core.transformer.pipeline_parallel_layer_layout")
    draw = random.Random(5)
    for _ in range(100):
        stages = draw.choice((2, 4))
        counts = [draw.choice((0, 1, 2, 5)) for _ in range(stages * draw.randint(1, 8))]
        text = layout_text(counts, 1)
        layout = module.PipelineParallelLayerLayout(text, stages)
        layout.validate_layer_layout(sum(counts), 1)
        flat = [
            sum(layer.name == "decoder" for layer in layout.layout[chunk % stages][chunk // stages])
            for chunk in range(len(counts))
        ]
        assert flat == counts


def test_megatron_knows_the_options_of_a_model() -> None:
    config = pytest.importorskip("megatron.core.transformer.transformer_config")
    known = {field.name for field in fields(config.MLATransformerConfig)}
    written = {name.replace("-", "_") for text in texts("megatron", 60) for name in arguments(text)}
    for name in ("recompute_granularity", "recompute_modules", "window_attn_skip_freq"):
        assert name in known
    shapes = {
        name for name in written if name.startswith(("moe_", "recompute_", "num_layers", "qk"))
    }
    own = {"num_layers_per_virtual_pipeline_stage"}  # of the launcher alone
    assert shapes - own <= known
    assert {name for name in written if name.startswith("cpu_offloading")} <= known
    optimizer = pytest.importorskip("megatron.core.optimizer.optimizer_config")
    offload = {name for name in written if name.startswith("optimizer_")}
    assert offload <= {field.name for field in fields(optimizer.OptimizerConfig)}


def test_deepspeed_reads_its_files() -> None:
    zero = pytest.importorskip("deepspeed.runtime.zero.config")
    tensor = pytest.importorskip("deepspeed.runtime.tensor_parallel.config")
    expert = pytest.importorskip("deepspeed.module_inject.auto_ep_config")
    for text in texts("deepspeed", 20):
        data = json.loads(text)
        read = zero.DeepSpeedZeroConfig(**data["zero_optimization"])
        assert read.stage in range(4)
        written = "offload_optimizer" in data["zero_optimization"]
        assert written == (read.offload_optimizer is not None)
        tensor.TPTrainingConfig(**data.get("tensor_parallel", {}))
        parsed = expert.parse_autoep_config(data.get("expert_parallel", {}))
        assert parsed.autoep_size == data.get("expert_parallel", {}).get("autoep_size", 1)


def test_nanotron_has_the_fields_of_its_sections() -> None:
    """From its sources: release 0.4 does not import, for a circle between its modules."""
    yaml = pytest.importorskip("yaml")
    found = importlib.util.find_spec("nanotron")
    if found is None or found.origin is None:
        pytest.skip("nanotron is not installed")
    folder = Path(found.origin).parent / "config"
    names = {
        node.name: {a.target.id for a in node.body if isinstance(a, ast.AnnAssign)}
        for file in folder.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    problem, c = job(tensor=2, pipeline=2)
    data = yaml.safe_load(export(problem, c, "nanotron"))
    assert set(data["parallelism"]) <= names["ParallelismArgs"]
    assert set(data["tokens"]) <= names["TokensArgs"]
    assert set(data["optimizer"]) <= names["OptimizerArgs"]
    assert set(data["model"]) <= names["ModelArgs"]
    assert set(data["model"]["model_config"]) <= names["LlamaConfig"]


FSDP = """
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
import launch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(32))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
model = Net()
launch.apply(model, model.layers, device_type="cpu")
optimizer = torch.optim.AdamW(model.parameters())
batches = [torch.ones(launch.MICRO_BATCH, 16)] * launch.MICRO_BATCHES
launch.step(model, optimizer, batches, lambda m, x: m(x).float().mean())
print("ran")
"""


@pytest.mark.parametrize("kind", [Recompute.FULL, Recompute.OFFLOAD])
@pytest.mark.parametrize(
    ("zero", "offload"),
    [(1, Offload.NONE), (2, Offload.NONE), (3, Offload.NONE), (1, Offload.OPTIMIZER)],
)
def test_fsdp_modules_run(zero: int, offload: Offload, kind: Recompute, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    problem, c = job(zero=zero, recompute=kind, recomputed=3, offload=offload, micro_batch=2)
    (tmp_path / "launch.py").write_text(export(problem, c, "fsdp2"))
    (tmp_path / "go.py").write_text(FSDP)
    command = [sys.executable, "go.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "ran" in done.stdout, done.stderr


def test_activations_on_the_host_are_copies_and_parameters_are_not() -> None:
    torch = pytest.importorskip("torch")
    problem, c = job(recompute=Recompute.OFFLOAD)
    module: dict[str, Any] = {}
    exec(export(problem, c, "fsdp2"), module)
    layer = torch.nn.Linear(4, 4)
    inputs = torch.ones(2, 4)
    module["wait_on_host"](layer)
    outputs = layer(inputs)
    inputs.zero_()
    outputs.sum().backward()
    assert (layer.weight.grad == 2).all()
    inputs.requires_grad_()
    outputs = layer(inputs)
    with torch.no_grad():
        layer.weight.fill_(3)
    outputs.sum().backward()
    assert (inputs.grad == 12).all()
