"""Launch scripts of Megatron-LM read back as configurations."""

from __future__ import annotations

from ..configuration import Configuration, Offload, Precision, Recompute, Schedule, even_layers
from ..problem import TrainingProblem
from .arguments import arguments_of
from .findings import Findings
from .job import Job, Launch
from .layout import read_layout
from .megatron import DROPOUT, STRATEGIES, modules
from .megatron_model import Arguments, model_arguments

IGNORED = frozenset(
    {
        *("nnodes", "nproc-per-node", "nproc_per_node", "node-rank", "node_rank"),
        *("master-addr", "master_addr", "master-port", "master_port"),
        *("no-gradient-accumulation-fusion", "ckpt-format", "use-precision-aware-optimizer"),
        *("overlap-grad-reduce", "overlap-param-gather", "max-position-embeddings", "fp8-recipe"),
    }
)
"""Options that say nothing of a configuration and are read all the same."""


def read_script(text: str, file: str, problem: TrainingProblem) -> Launch:
    """Read the arguments in a script or a list of arguments.

    Raises
    ------
    InputError
        Values that do not parse, that a plan cannot say, or that are not those of the problem.
    """
    return _Reader(arguments_of(text, file), file, problem).launch()


class _Reader:
    def __init__(self, given: Arguments, file: str, problem: TrainingProblem) -> None:
        self.given, self.problem = given, problem
        self.findings = Findings(file)
        self.used = set(IGNORED)

    def text(self, name: str) -> str | None:
        """Value of an option; ``None`` if it is not there."""
        self.used.add(name)
        return self.given.get(name)

    def switch(self, name: str) -> bool:
        """Whether a switch is there."""
        return self.text(name) is not None

    def number(self, name: str, default: int) -> int:
        """Value of an option as a number."""
        text = self.text(name)
        return default if text is None else self.findings.positive(f"--{name}", text)

    def launch(self) -> Launch:
        """Configuration and options that were not read."""
        problem, findings = self.problem, self.findings
        tensor = self.number("tensor-model-parallel-size", 1)
        pipeline = self.number("pipeline-model-parallel-size", 1)
        context = self.number("context-parallel-size", 1)
        expert = self.number("expert-model-parallel-size", 1)
        split = self.number("expert-tensor-parallel-size", tensor)
        self.devices()
        rest = tensor * pipeline * context
        of = "tensor x pipeline x context parallel size"
        data = findings.share("devices", problem.cluster.devices, rest, of)
        micro_batch = self.micro_batch()
        batch = self.number("global-batch-size", micro_batch * data)
        of = "micro-batch size x data parallel size"
        count = findings.share("--global-batch-size", batch, micro_batch * data, of)
        virtual, layers = self.chunks(pipeline)
        even = even_layers(len(problem.architecture.blocks), pipeline * virtual)
        recompute, recomputed = self.recomputation()
        moe = Job(problem, Configuration()).experts is not None
        made = Configuration(
            tensor=tensor,
            context=context,
            expert=expert,
            expert_tensor=split if moe else 1,
            pipeline=pipeline,
            data=data,
            micro_batch=micro_batch,
            micro_batches=count,
            virtual=virtual,
            schedule=Schedule.INTERLEAVED if virtual > 1 else Schedule.ONE_F_ONE_B,
            sequence_parallel=self.switch("sequence-parallel") and tensor > 1,
            recompute=recompute,
            recomputed=recomputed,
            zero=self.sharding(),
            offload=self.offload(),
            precision=self.precision(),
            layers=() if layers == even else layers,
        )
        self.model(made)
        findings.done()
        self.used |= {name for name in DROPOUT if self.given.get(name) in ("0", "0.0")}
        unread = tuple(f"--{name}" for name in self.given if name not in self.used)
        return Launch(made, unread)

    def devices(self) -> None:
        """Compare nodes and processes with the cluster, where the script says plain numbers."""
        nodes = self.given.get("nnodes", "")
        each = self.given.get("nproc-per-node", self.given.get("nproc_per_node", ""))
        if nodes.isdigit() and each.split(" ")[0].isdigit():
            found = int(nodes) * int(each.split(" ")[0])
            self.findings.same(
                "--nnodes x --nproc-per-node", found, self.problem.cluster.devices, "devices"
            )

    def micro_batch(self) -> int:
        """Samples of a micro-batch, which Megatron-LM has no default for."""
        if self.text("micro-batch-size") is None:
            self.findings.add("--micro-batch-size", "nothing", "a number", "add the option")
        return self.number("micro-batch-size", 1)

    def precision(self) -> Precision:
        """Element type of products."""
        fp8 = self.text("fp8-format")
        if fp8 is not None:
            self.findings.one_of("--fp8-format", fp8, ("e4m3", "hybrid"))
        if not (self.switch("bf16") | self.switch("fp16")):
            self.findings.add("--bf16", "nothing", "--bf16, as a plan has 16-bit weights", "add it")
        return Precision.BF16 if fp8 is None else Precision.FP8

    def chunks(self, pipeline: int) -> tuple[int, tuple[int, ...]]:
        """Virtual stages, and blocks of each chunk, of no more chunks than blocks."""
        blocks = len(self.problem.architecture.blocks)
        most = self.number("num-virtual-stages-per-pipeline-rank", 1)
        if pipeline * most > blocks:
            expected = f"at most {blocks}, the blocks of the model"
            self.findings.add("pipeline stages x virtual stages", pipeline * most, expected)
            self.findings.done()
        return self.stages(pipeline)

    def stages(self, pipeline: int) -> tuple[int, tuple[int, ...]]:
        """Virtual stages, and blocks of each chunk; empty where all have as many."""
        blocks = len(self.problem.architecture.blocks)
        names = ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank")
        layout = self.text("pipeline-model-parallel-layout")
        if sum(name in self.given for name in (*names, "pipeline-model-parallel-layout")) > 1:
            expected = f"one of --{names[0]}, --{names[1]} and a layout"
            self.findings.add("pipeline stages", "several options", expected)
        if layout is not None:
            return self.layout(layout, pipeline)
        name = "account-for-{}-in-pipeline-split"
        ends = [self.switch(name.format(end)) for end in ("embedding", "loss")]
        virtual = self.number(names[1], 1)
        each = self.text(names[0])
        if each is not None:
            each_number = self.findings.positive(f"--{names[0]}", each)
            of = f"{pipeline} pipeline stages x layers of a virtual stage"
            virtual = self.findings.share(
                "--num-layers", blocks + sum(ends), pipeline * each_number, of
            )
        first, last = (self.text(f"decoder-{end}-pipeline-num-layers") for end in ("first", "last"))
        if first is not None or last is not None:
            return virtual, self.ends(first, last, pipeline, virtual)
        of = f"{pipeline} pipeline stages x {virtual} virtual stages"
        share = self.findings.share("--num-layers", blocks + sum(ends), pipeline * virtual, of)
        if not any(ends):
            return virtual, ()
        counts = [share] * (pipeline * virtual)
        counts[0] -= ends[0]
        counts[-1] -= ends[1]
        return virtual, tuple(counts)

    def ends(
        self, first: str | None, last: str | None, pipeline: int, virtual: int
    ) -> tuple[int, ...]:
        """Blocks of each stage where those of the first or the last are given."""
        if virtual > 1 or pipeline == 1:
            self.findings.add(
                "--decoder-first-pipeline-num-layers",
                f"{pipeline} stages, {virtual} virtual",
                "several stages without virtual ones",
                "write --pipeline-model-parallel-layout",
            )
            return ()
        blocks = len(self.problem.architecture.blocks)
        name = "--decoder-{}-pipeline-num-layers"
        given = [
            None if text is None else self.findings.positive(name.format(end), text)
            for end, text in (("first", first), ("last", last))
        ]
        middle = pipeline - sum(count is not None for count in given)
        rest = blocks - sum(count or 0 for count in given)
        if middle == 0 or rest < middle:
            self.findings.same("blocks of the first and last stage", rest, 0, "blocks left over")
            return ()
        each = self.findings.share("--num-layers", rest, middle, "stages between")
        counts = [each] * middle
        return tuple(c for c in (given[0], *counts, given[1]) if c is not None)

    def layout(self, text: str, pipeline: int) -> tuple[int, tuple[int, ...]]:
        """Virtual stages and blocks of each chunk of a layout."""
        name = "--pipeline-model-parallel-layout"
        counts = read_layout(text)
        if isinstance(counts, str):
            self.findings.add(name, repr(text), f"a layout such as Et*2|(t*3|)*2,t*2,L ({counts})")
            return 1, ()
        blocks = len(self.problem.architecture.blocks)
        self.findings.same(f"t of {name}", sum(counts), blocks, "the blocks of the model")
        of = "--pipeline-model-parallel-size"
        virtual = self.findings.share(f"stages of {name}", len(counts), pipeline, of)
        return virtual, counts

    def recomputation(self) -> tuple[Recompute, int]:
        """What is computed again, and for how many blocks of a chunk."""
        granularity = self.text("recompute-granularity")
        if self.switch("recompute-activations"):
            granularity = "selective"
        chosen = self.text("recompute-modules")
        method = self.text("recompute-method")
        count = self.number("recompute-num-layers", 1)
        offloaded = self.offloaded(granularity)
        if granularity is None:
            return (Recompute.OFFLOAD, offloaded) if offloaded else (Recompute.NONE, 0)
        kind = self.findings.one_of("--recompute-granularity", granularity, ("selective", "full"))
        if kind == "selective":
            return self.selective(chosen or "core_attn"), 0
        if self.findings.one_of("--recompute-method", method, ("uniform", "block")) == "uniform":
            self.findings.same(
                "--recompute-num-layers", count, 1, "as a plan computes blocks again one by one"
            )
            return Recompute.FULL, 0
        return Recompute.FULL, count

    def selective(self, chosen: str) -> Recompute:
        """What is computed again of each block."""
        kinds = modules(Job(self.problem, Configuration()))
        for kind, names in kinds.items():
            if set(names.split()) == set(chosen.split()):
                return kind
        expected = f"{' or '.join(kinds.values())}, which is what a plan can say"
        self.findings.add("--recompute-modules", chosen, expected)
        return Recompute.ATTENTION

    def offloaded(self, granularity: str | None) -> int:
        """Blocks whose activations wait on the host."""
        if self.switch("fine-grained-activation-offloading"):
            expected = "--cpu-offloading-num-layers, as a plan offloads blocks as a whole"
            self.findings.add("--fine-grained-activation-offloading", "the switch", expected)
        name = "cpu-offloading-num-layers"
        if self.text(name) in (None, "0"):
            return 0
        if granularity is not None:
            expected = "nothing, as Megatron-LM does not combine it with recomputation"
            self.findings.add(f"--{name}", self.given[name], expected)
        count, blocks = self.number(name, 1), len(self.problem.architecture.blocks)
        if count >= blocks:
            self.findings.add(f"--{name}", count, f"less than {blocks}, the blocks of the model")
        return count

    def offload(self) -> Offload:
        """Whether the optimizer's state is on the host."""
        fraction = self.text("optimizer-offload-fraction")
        if not self.switch("optimizer-cpu-offload"):
            return Offload.NONE
        if fraction not in (None, "1", "1.0"):
            expected = "1.0, as a plan has all of the optimizer's state on the host, or nothing"
            self.findings.add("--optimizer-offload-fraction", fraction, expected)
        return Offload.OPTIMIZER

    def sharding(self) -> int:
        """What is sharded over data ranks, 0 to 3."""
        distributed = int(self.switch("use-distributed-optimizer"))
        strategy = self.text("data-parallel-sharding-strategy")
        kept = self.switch("torch-fsdp2-no-reshard-after-forward")
        if self.switch("use-torch-fsdp2"):
            return 2 if kept else 3
        if not self.switch("use-megatron-fsdp"):
            return distributed
        levels = {"no_shard": 0, "optim": 1} | {text: level for level, text in STRATEGIES.items()}
        name = "--data-parallel-sharding-strategy"
        return levels[self.findings.one_of(name, strategy or "no_shard", tuple(levels))]

    def model(self, configuration: Configuration) -> None:
        """Compare shapes of the model and the length of samples, as far as they are given."""
        for name, value in model_arguments(Job(self.problem, configuration)).items():
            self.used.add(name)
            if name in self.given and value.isdigit() and name not in IGNORED:
                of = "that of the model" if name != "seq-length" else "that of --sequence"
                self.findings.same(f"--{name}", self.given[name], value, of)
