"""Job configurations of torchtitan read back as configurations."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

from ..configuration import (
    V_SHAPED,
    Configuration,
    Offload,
    Precision,
    Recompute,
    Schedule,
    even_layers,
)
from ..problem import TrainingProblem
from .findings import Findings
from .job import Job, Launch, Refusals
from .torchtitan import RECOMPUTE, SCHEDULES, flavor, modules, refuse_offload


def read(content: str, file: str, problem: TrainingProblem) -> Launch:
    """Read a job configuration.

    Raises
    ------
    InputError
        No TOML, values that do not parse, that a plan cannot say, or that are not those of the
        problem.
    """
    try:
        tables = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        findings = Findings(file)
        findings.add("TOML", str(error), "a job configuration of torchtitan")
        findings.fail()
    return _Reader(tables, file, problem).launch()


class _Reader:
    def __init__(self, tables: dict[str, Any], file: str, problem: TrainingProblem) -> None:
        self.tables, self.problem = tables, problem
        self.findings = Findings(file)
        self.used = {
            ("training", "dtype"),
            ("training", "mixed_precision_param"),
        }

    def field(self, section: str, key: str, default: object) -> Any:
        """Value of a field."""
        self.used.add((section, key))
        table = self.tables.get(section, {})
        return table.get(key, default) if isinstance(table, dict) else default

    def degree(self, kind: str, key: str = "{}_parallel_degree") -> int:
        """A degree of parallelism."""
        name = key.format(kind)
        return self.findings.positive(name, self.field("parallelism", name, 1))

    def launch(self) -> Launch:
        """Configuration and fields that were not read."""
        problem, findings = self.problem, self.findings
        tensor, context, pipeline, expert = map(
            self.degree, ("tensor", "context", "pipeline", "expert")
        )
        rest = tensor * context * pipeline
        of = "tensor x context x pipeline parallel degree"
        data = findings.share("devices", problem.cluster.devices, rest, of)
        zero = self.sharding(data, context, pipeline)
        local = findings.positive("local_batch_size", self.field("training", "local_batch_size", 8))
        batch = self.field("training", "global_batch_size", -1)
        batch = findings.positive("global_batch_size", local * data if batch == -1 else batch)
        of = "local_batch_size x data parallel degree"
        rounds = findings.share("global_batch_size", batch, local * data, of)
        made = Configuration(
            tensor=tensor,
            context=context,
            expert=expert,
            expert_tensor=self.degree("expert_tensor") if expert > 1 else self.unsplit(tensor),
            pipeline=pipeline,
            data=data,
            micro_batch=local,
            micro_batches=rounds,
            sequence_parallel=tensor > 1,
            recompute=self.recompute(),
            zero=zero,
            offload=self.offload(),
            precision=self.precision(),
        )
        if pipeline > 1:
            made = self.piped(made)
        refusals = Refusals("torchtitan")
        refuse_offload(Job(problem, made), refusals)
        for reason, _ in refusals.reasons:
            findings.add("enable_cpu_offload", "true", f"false: {reason}")
        self.model()
        findings.done()
        tables = {name: table for name, table in self.tables.items() if isinstance(table, dict)}
        given = [(section, key) for section, table in tables.items() for key in table]
        return Launch(made, tuple(".".join(pair) for pair in given if pair not in self.used))

    def unsplit(self, tensor: int) -> int:
        """Degree of experts' matrices where experts are not distributed."""
        self.used.add(("parallelism", "expert_tensor_parallel_degree"))
        return tensor if Job(self.problem, Configuration()).experts is not None else 1

    def piped(self, flat: Configuration) -> Configuration:
        """Put in micro-batches, schedule and stages of a pipeline."""
        findings, local = self.findings, flat.micro_batch
        name = "pipeline_parallel_microbatch_size"
        size = findings.positive(name, self.field("parallelism", name, 1))
        count = findings.share("local_batch_size", local, size, name)
        if flat.micro_batches > 1:
            expected = f"{local * flat.data}: one pass through the pipeline a step"
            findings.add("global_batch_size", flat.global_batch, expected)
        names = {text.lower(): schedule for schedule, text in SCHEDULES.items()}
        found = self.field("parallelism", "pipeline_parallel_schedule", "1F1B")
        key = findings.one_of("pipeline_parallel_schedule", str(found).lower(), tuple(names))
        schedule = names[key]
        layers = self.layers()
        if layers is None:
            layers = self.default(flat.pipeline, schedule)
        of = "pipeline_parallel_degree"
        virtual = findings.share("module_fqns_per_model_part", len(layers), flat.pipeline, of)
        even = layers == even_layers(len(self.problem.architecture.blocks), len(layers))
        return replace(
            flat,
            micro_batch=size,
            micro_batches=count,
            virtual=virtual,
            schedule=schedule,
            layers=() if even else layers,
        )

    def default(self, pipeline: int, schedule: Schedule) -> tuple[int, ...]:
        """Blocks of each chunk where the file lists no modules."""
        name = "pipeline_parallel_{}_stage_less_layers"
        first, last = (self.weight(name.format(end)) for end in ("first", "last"))
        blocks = len(self.problem.architecture.blocks)
        each = self.field("parallelism", "pipeline_parallel_layers_per_stage", None)
        several = schedule is Schedule.INTERLEAVED or schedule in V_SHAPED
        stages = pipeline * (2 if several else 1)
        if each is not None:
            size = self.findings.positive("pipeline_parallel_layers_per_stage", each)
            stages = -(-(blocks + first + last) // size)
        if stages > blocks + first + last:
            expected = f"at most {blocks}, the blocks of the model"
            self.findings.add("pipeline stages", stages, expected)
            self.findings.done()
        return default_layers(blocks, stages, first, last)

    def weight(self, name: str) -> int:
        """Blocks that a stage has less; 1 where the file does not say."""
        found = self.field("parallelism", name, 1)
        return 0 if found == 0 else self.findings.positive(name, found)

    def layers(self) -> tuple[int, ...] | None:
        """Blocks of each chunk, if the file lists modules."""
        parts = self.field("parallelism", "module_fqns_per_model_part", None)
        if parts is None:
            return None
        try:
            flat = [name for part in parts for name in part]
            counts = tuple(sum(name.startswith("layers.") for name in part) for part in parts)
        except (TypeError, AttributeError):
            flat, counts = [], (1,)
        blocks = len(self.problem.architecture.blocks)
        wanted = [name for part in modules((blocks,)) for name in part]
        if flat != wanted or not parts or flat[0] not in parts[0] or "output" not in parts[-1]:
            expected = f"tok_embeddings, layers.0 to layers.{blocks - 1}, norm, output in order"
            self.findings.add("module_fqns_per_model_part", "other modules", expected)
        return counts

    def sharding(self, data: int, context: int, pipeline: int) -> int:
        """What is sharded over data ranks."""
        replicas = self.degree("replicate", "data_parallel_{}_degree")
        shards = self.field("parallelism", "data_parallel_shard_degree", -1)
        policy = self.findings.one_of(
            "fsdp_reshard_after_forward",
            self.field("parallelism", "fsdp_reshard_after_forward", "default"),
            ("default", "always", "never"),
        )
        if shards == -1:
            shards = data // replicas
        shards = self.findings.positive("data_parallel_shard_degree", shards)
        product = replicas * shards
        name = "data_parallel_replicate_degree x data_parallel_shard_degree"
        self.findings.same(name, product, data, "the data ranks of this cluster")
        if replicas > 1 and shards > 1:
            expected = "one of the two degrees 1, as a plan shards over all data ranks or over none"
            self.findings.add(name, f"{replicas} x {shards}", expected)
        if replicas > 1:
            return 0
        if shards * context == 1 or pipeline > 1:
            return 3 if policy == "always" and shards * context > 1 else 1
        return 2 if policy == "never" else 3

    def offload(self) -> Offload:
        """Whether the optimizer's state is on the host."""
        name = "enable_cpu_offload"
        found = self.field("training", name, False)
        if not isinstance(found, bool):
            self.findings.add(name, repr(found), "true or false")
        return Offload.OPTIMIZER if found is True else Offload.NONE

    def recompute(self) -> Recompute:
        """What is computed again."""
        modes = {text: kind for kind, text in RECOMPUTE.items()}
        found = self.field("activation_checkpoint", "mode", None)
        if found in (None, "selective"):
            given = "nothing, torchtitan's default is selective" if found is None else repr(found)
            expected = f"{' or '.join(modes)}, as selective is not modelled"
            self.findings.add("activation_checkpoint.mode", given, expected, "set one of them")
            return Recompute.NONE
        return modes[self.findings.one_of("activation_checkpoint.mode", found, tuple(modes))]

    def precision(self) -> Precision:
        """Element type of products."""
        converters = self.field("model", "converters", [])
        return Precision.FP8 if "float8" in str(converters) else Precision.BF16

    def model(self) -> None:
        """Compare the model and the length of samples, as far as they are given."""
        wanted = flavor(self.problem.architecture)
        given = (self.field("model", "name", None), self.field("model", "flavor", None))
        if wanted is not None and None not in given:
            found = " ".join(map(str, given))
            self.findings.same("model", found, " ".join(wanted), "that of the command")
        length = self.field("training", "seq_len", 2048)
        self.findings.same("seq_len", length, self.problem.sequence, "that of --sequence")


def default_layers(blocks: int, stages: int, first: int, last: int) -> tuple[int, ...]:
    """Return blocks of each stage where a file lists no modules.

    Embedding and head count as ``first`` and ``last`` blocks; if the division leaves a rest, the
    first stages get one more each.
    """
    least, more = divmod(blocks + first + last, stages)
    counts = [least + (i < more) for i in range(stages)]
    counts[0] -= first
    counts[-1] -= last
    return tuple(max(count, 0) for count in counts)
