"""Jobs that people bring: each takes one call, and its hand calculation stands here."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from milp_plan.core import InputError
from milp_plan.kinds.training import Configuration, Moe, Schedule, api
from milp_plan.kinds.training.problem import TrainingPlan, TrainingProblem
from milp_plan.kinds.training.reasons import REASONS
from tests.support.training import answered

H100, A100, V100 = 989.4e12, 312e12, 125e12
"""Dense bf16 operations per second; fp16 on V100."""


def llama(layers: int, hidden: int, keys: int, inner: int, vocabulary: int) -> int:
    """Parameters: projections of q and o, of k and v, three of the dense part, two norms."""
    block = 2 * hidden**2 + 2 * hidden * keys + 3 * hidden * inner + 2 * hidden
    return layers * block + 2 * vocabulary * hidden + hidden


def decoder_flops(
    layers: int, hidden: int, weights: int, vocabulary: int, sequence: int, batch: int
) -> int:
    """Three passes of 2 operations a weight and token; scores and values of half of the square."""
    tokens = sequence * batch
    matrices = 6 * tokens * (layers * weights + vocabulary * hidden)
    return matrices + 3 * batch * layers * 2 * 2 * sequence**2 // 2 * hidden


@dataclass(frozen=True)
class Job:
    """A model on a cluster, and what a hand calculation says of it."""

    model: str
    cluster: str
    sequence: int
    batch: int
    parameters: int
    flops: int
    peak_flops_per_s: float

    @property
    def least_s(self) -> float:
        """No step is shorter: operations over the peak rate."""
        return self.flops / self.peak_flops_per_s


LLAMA_8B = (32, 4096, 1024, 14336, 128256)
LLAMA_70B = (80, 8192, 1024, 28672, 128256)
LLAMA_405B = (126, 16384, 1024, 53248, 128256)


def llama_job(
    name: str, shape: tuple[int, int, int, int, int], on: tuple[str, float], *size: int
) -> Job:
    layers, hidden, keys, inner, vocabulary = shape
    weights = 2 * hidden**2 + 2 * hidden * keys + 3 * hidden * inner
    flops = decoder_flops(layers, hidden, weights, vocabulary, *size)
    return Job(name, on[0], *size, llama(*shape), flops, on[1])


def gpt3() -> Job:
    """12 h^2 weights a block, with 13 h of biases and norms; tied embedding, positions."""
    layers, hidden, vocabulary = 96, 12288, 50257
    block = 12 * hidden**2 + 13 * hidden
    count = layers * block + (vocabulary + 2048) * hidden + 2 * hidden
    flops = decoder_flops(layers, hidden, 12 * hidden**2, vocabulary, 2048, 1536)
    return Job("gpt3-175b", "128x8xA100", 2048, 1536, count, flops, 1024 * A100)


def deepseek() -> Job:
    """671.0 B parameters, and 11.6 B of its module for a further token."""
    hidden, vocabulary, sequence, batch = 7168, 129280, 4096, 15360
    attention = hidden * 1536 + 1536 * 128 * 192 + hidden * 576 + 512 * 128 * 256
    attention += 128 * 128 * hidden
    norms = 1536 + 512 + 2 * hidden
    expert = 3 * hidden * 2048
    routed = attention + norms + 257 * expert + 257 * hidden - hidden + 256
    dense = attention + norms + 3 * hidden * 18432
    main = 3 * dense + 58 * routed + 2 * vocabulary * hidden + hidden
    count = main + routed + 2 * hidden**2 + 3 * hidden
    visited = 9 * expert + 256 * hidden
    weights = 62 * attention + 3 * 3 * hidden * 18432 + 59 * visited
    weights += 2 * vocabulary * hidden + 2 * hidden**2
    scores = 62 * 2 * (sequence**2 // 2) * 128 * (192 + 128)
    flops = 6 * batch * sequence * weights + 3 * batch * scores
    return Job("deepseek-v3", "256x8xH800", sequence, batch, count, flops, 2048 * H100)


def llava() -> Job:
    """Llama 2 7B, a frozen tower of 24 blocks that runs forward alone, and a projector."""
    tower, tokens, sequence, batch = 1024, 577, 2048, 256
    block = 12 * tower**2 + 13 * tower
    patches = (3 * 14**2 + 1) * tower + tower + tokens * tower
    projector = (tower + 1) * 4096 + (4096 + 1) * 4096
    count = llama(32, 4096, 4096, 11008, 32000) + 24 * block + patches + projector
    weights = 4 * 4096**2 + 3 * 4096 * 11008
    flops = decoder_flops(32, 4096, weights, 32000, sequence, batch)
    flops += batch * 24 * (2 * tokens * 12 * tower**2 + 4 * tokens**2 * tower)
    return Job("llava-7b", "2x8xH100", sequence, batch, count, flops, 16 * H100)


JOBS = {
    "8B on 8": llama_job("llama3-8b", LLAMA_8B, ("8xH100", 8 * H100), 8192, 128),
    "8B on 64": llama_job("llama3-8b", LLAMA_8B, ("8x8xH100", 64 * H100), 8192, 512),
    "70B on 64": llama_job("llama3-70b", LLAMA_70B, ("8x8xH100", 64 * H100), 8192, 1024),
    "405B on 16,384": llama_job(
        "llama3-405b", LLAMA_405B, ("2048x8xH100", 16_384 * H100), 8192, 2048
    ),
    "GPT-3 on 1,024": gpt3(),
    "DeepSeek-V3 on 2,048": deepseek(),
    "8B on two classes": llama_job(
        "llama3-8b", LLAMA_8B, ("8x8xA100+8x8xV100", 64 * (A100 + V100)), 2048, 1024
    ),
    "vision and language on 16": llava(),
    "8B at 128 k tokens on 32": llama_job(
        "llama3-8b", LLAMA_8B, ("4x8xH100", 32 * H100), 131_072, 32
    ),
}
QUICK = ("8B on 8", "8B on two classes", "vision and language on 16", "8B at 128 k tokens on 32")


def problem(job: Job) -> TrainingProblem:
    return api.training_problem(
        job.model, job.cluster, global_batch=job.batch, sequence=job.sequence
    )


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_parameters_and_operations_are_those_of_the_hand_calculation(job: Job) -> None:
    of = problem(job)
    assert of.architecture.all_parameters == job.parameters
    assert of.model_flops == job.flops
    assert of.cluster.peak_flops_per_s == job.peak_flops_per_s


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in JOBS],
)
def test_the_answer_keeps_the_hand_calculation(name: str) -> None:
    """A step takes at least its operations at the peak rate; weights are all there, once."""
    job = JOBS[name]
    of = problem(job)
    answer = answered(of)
    assert answer.best is not None
    assert answer.proved
    assert job.least_s < answer.best.step_ns / 1e9 < 6 * job.least_s
    c = answer.best.configuration
    for stage, peak in enumerate(answer.best.peaks):
        assert peak <= of.limit_bytes(c, stage)
    frozen = sum(block.parameters for block in of.architecture.blocks if block.frozen)
    trained = of.architecture.all_parameters - frozen
    routed = sum(
        block.expert_parameters
        for block in of.architecture.blocks
        if isinstance(block.feed_forward, Moe)
    )
    if of.architecture.prediction:
        routed += of.architecture.prediction.block.expert_parameters
    share = (trained - routed) / c.tensor + routed / (c.expert * c.expert_tensor)
    if c.zero == 3:
        share /= c.data * c.context
    weights = sum(use.weights_bytes for use in answer.memory)
    assert weights == pytest.approx(2 * share, rel=0.05)


def test_405b_with_the_published_degrees_takes_about_the_published_time() -> None:
    """Grattafiori et al., table 4: TP 8, PP 16, DP 128 on 16,384 H100, 400 TFLOP/s a GPU."""
    of = problem(JOBS["405B on 16,384"])
    used = Configuration(
        tensor=8,
        pipeline=16,
        data=128,
        micro_batches=16,
        virtual=7,
        schedule=Schedule.INTERLEAVED,
    )
    verdict = api.check(of, used)
    assert verdict.value is not None
    rate = of.model_flops / (verdict.value / 1e9) / of.cluster.devices
    assert rate == pytest.approx(400e12, rel=0.1)


def test_a_pass_that_waits_for_what_is_sent_waits_for_a_known_reason() -> None:
    """Where sends go beside passes, the chain broke at each of them."""
    problem = api.training_problem("llama3-8b", "8x1xH100", global_batch=32)
    c = Configuration(pipeline=8, micro_batches=32, schedule=Schedule.ZB_H1)
    plan = TrainingPlan(problem.name, problem.fingerprint, c)
    chain = REASONS.why(problem, plan, api.check(problem, plan)).chain
    assert any(link.name.startswith("sending forward of stage") for link in chain)
    assert {link.cause for link in chain} == {"start", "value", "device"}


def test_a_sequence_of_zero_is_refused_and_not_replaced() -> None:
    with pytest.raises(InputError, match="sequence: found 0"):
        api.training_problem("llama3-8b", "8xH100", global_batch=8, sequence=0)


def test_a_fraction_of_a_byte_is_refused_as_such() -> None:
    with pytest.raises(InputError, match=r"memory_bytes: found 1500000000\.5 of type float"):
        api.training_problem("llama3-8b", "8xH100", global_batch=8, memory_bytes=1500000000.5)  # type: ignore[arg-type]
