"""What every export starts from, and how it refuses what its framework cannot do."""

from __future__ import annotations

from dataclasses import dataclass, field

from milp_plan.core import UnsupportedProblemError

from ..answer import seconds
from ..blocks import Mlp, Moe
from ..configuration import Configuration, Offload, Precision, Recompute
from ..problem import TrainingProblem
from ..texts import configuration_text


@dataclass(frozen=True, slots=True)
class Job:
    """A configuration to launch.

    Parameters
    ----------
    problem
        Model, cluster and batch.
    configuration
        How the step is divided.
    step_ns
        Predicted time of a step in nanoseconds; ``None`` if unknown.
    """

    problem: TrainingProblem
    configuration: Configuration
    step_ns: int | None = None

    @property
    def title(self) -> str:
        """Problem, configuration and predicted step, on one line."""
        step, rates = "", self.problem.efficiency.software.name
        if self.step_ns is not None:
            step = f"; predicted step {seconds(self.step_ns)} by rates of {rates}"
        return f"{self.problem.name}: {configuration_text(self.configuration)}{step}"

    @property
    def experts(self) -> Moe | None:
        """The first mixture of experts of the model."""
        parts = [block.feed_forward for block, _ in self.problem.architecture.runs]
        return next((part for part in parts if isinstance(part, Moe)), None)

    @property
    def dense(self) -> Mlp | None:
        """The first dense feed-forward part of the model."""
        parts = [block.feed_forward for block, _ in self.problem.architecture.runs]
        return next((part for part in parts if isinstance(part, Mlp)), None)

    @property
    def layers(self) -> tuple[int, ...]:
        """Blocks of each chunk, in the order of the model."""
        return self.configuration.chunk_layers(self.problem.architecture)

    @property
    def recomputed(self) -> int | None:
        """Blocks of each chunk that are computed again, the first ones; 0 for all.

        A chunk with fewer blocks computes them all again. ``None`` where chunks differ otherwise.
        """
        numbers = self.configuration.recomputed_by_chunk
        if not numbers:
            return self.configuration.recomputed
        if numbers == self.layers:
            return 0
        most = max(numbers)
        same = all(n == min(most, own) for n, own in zip(numbers, self.layers, strict=True))
        return most if most and same else None


@dataclass(frozen=True, slots=True)
class Launch:
    """A configuration that was read from a framework's file.

    Parameters
    ----------
    configuration
        What the file says.
    unread
        Options of the file that are no part of a plan, as the file writes them.
    """

    configuration: Configuration
    unread: tuple[str, ...] = ()


@dataclass
class Refusals:
    """Reasons why a framework cannot run a configuration.

    Parameters
    ----------
    framework
        Its name.
    reasons
        A sentence each, and what to do.
    """

    framework: str
    reasons: list[tuple[str, str]] = field(default_factory=list)

    def check(self, refused: bool, reason: str, remedy: str) -> None:
        """Note a reason, and what to do, if it applies."""
        if refused:
            self.reasons.append((reason, remedy))

    def done(self) -> None:
        """Raise if anything was noted.

        Raises
        ------
        UnsupportedProblemError
            Says every reason.
        """
        if self.reasons:
            text = "\n  ".join(map("; ".join, self.reasons))
            raise UnsupportedProblemError(f"{self.framework} cannot run this plan:\n  {text}")

    def text_decoder(self, job: Job) -> None:
        """Refuse models that are not one decoder over tokens."""
        model = job.problem.architecture
        other = model.output_classes or not model.vocabulary
        other = other or any(b.tokens is not None or b.frozen for b, _ in model.runs)
        self.check(
            bool(other),
            f"{model.name} is not a decoder over tokens alone",
            "export a plan of the language model, and set up the rest by hand",
        )

    def one_device_pipeline(self, job: Job) -> None:
        """Refuse pipelines."""
        pipeline = job.configuration.pipeline
        self.check(
            pipeline > 1,
            f"its configuration has no pipeline, the plan has {pipeline} stages",
            "plan with --fix pipeline=1",
        )

    def no_context(self, job: Job) -> None:
        """Refuse context parallelism."""
        context = job.configuration.context
        self.check(
            context > 1,
            f"it has no context parallelism of this kind, the plan has degree {context}",
            "plan with --fix context=1",
        )

    def no_experts(self, job: Job) -> None:
        """Refuse expert parallelism."""
        c = job.configuration
        self.check(
            c.expert * c.expert_tensor > 1,
            f"its configuration distributes no experts, the plan has expert degree {c.expert} x "
            f"{c.expert_tensor}",
            "plan with --fix expert=1 --fix expert_tensor=1",
        )

    def whole_blocks(self, job: Job) -> None:
        """Refuse recomputation of parts of a block."""
        parts = {Recompute.ATTENTION: "attention", Recompute.LIGHT: "norms and the like"}
        part = parts.get(job.configuration.recompute)
        self.check(
            part is not None,
            f"it computes whole blocks again, not their {part} alone",
            "plan with --fix recompute=full or --fix recompute=none",
        )

    def every_block(self, job: Job) -> None:
        """Refuse everything but recomputation of every block, and none."""
        self.whole_blocks(job)
        self.check(
            job.configuration.recompute is Recompute.FULL and job.recomputed != 0,
            "it cannot choose the first blocks of a chunk for recomputation",
            "plan with --fix recomputed=0 --fix recomputed_by_chunk=",
        )
        self.check(
            job.configuration.recompute is Recompute.OFFLOAD,
            "it does not copy the activations of a block to the host",
            "plan with --fix recompute=full or --fix recompute=none",
        )

    def no_offload(self, job: Job) -> None:
        """Refuse optimizer state on the host."""
        self.check(
            job.configuration.offload is not Offload.NONE,
            "its optimizer runs on the devices",
            "plan with --fix offload=none",
        )

    def parameters_here(self, job: Job, remedy: str) -> None:
        """Refuse optimizer state on the host where sharded parameters go there with it."""
        c = job.configuration
        self.check(
            c.offload is Offload.OPTIMIZER and c.zero == 3,
            "it moves sharded parameters to the host as well, and copies them for every pass",
            remedy,
        )

    def gradients_at_the_end(self, job: Job, remedy: str) -> None:
        """Refuse optimizer state on the host where gradients go there more than once a step."""
        c = job.configuration
        self.check(
            c.offload is Offload.OPTIMIZER and c.zero >= 2 and c.micro_batches > 1,
            "it copies sharded gradients to the host after each of the "
            f"{c.micro_batches} micro-batches, the plan copies them once a step",
            remedy,
        )

    def no_fp8(self, job: Job) -> None:
        """Refuse 8-bit products."""
        self.check(
            job.configuration.precision is Precision.FP8,
            "its configuration has no 8-bit products",
            "plan with --fix precision=bf16",
        )
