"""Serving: hand calculations, the checker's rules, the search against all deployments."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.core.budget import Budget
from milp_plan.kinds.serving.api import answer_for, check, serving_problem
from milp_plan.kinds.serving.bounds import width_bound
from milp_plan.kinds.serving.costs import ServingCosts
from milp_plan.kinds.serving.picture import passes
from milp_plan.kinds.serving.problem import (
    Deployment,
    Objective,
    Phase,
    ServingPlan,
    ServingProblem,
)
from milp_plan.kinds.serving.report import cache_bytes_per_token
from milp_plan.kinds.serving.search import MISSES, Search
from milp_plan.kinds.serving.work import PassCounter
from milp_plan.kinds.training import (
    Architecture,
    Attention,
    Block,
    DeviceRates,
    Efficiency,
    Mlp,
    Moe,
    Precision,
    model,
    shipped,
)
from milp_plan.kinds.training.ranks import Layout
from tests.cli.cases import call
from tests.support.seeds import few
from tests.support.training import answered

FLOPS, BANDWIDTH = 989.4e12, 3.35e12
"""Of H100: dense bf16 operations and bytes of memory per second."""


def test_decode_of_70b_on_four_reads_weights_and_cache_once_a_token() -> None:
    asked = serving_problem("llama3-70b", "4xH100", prompt=2048, output=256, phase=Phase.DECODE)
    answer = answered(asked)
    assert answer.best is not None
    assert answer.best.deployment == Deployment(tensor=4)
    token = 2 * 80 * 8 * 128 * 2  # keys and values, blocks, their heads, elements, bytes
    assert cache_bytes_per_token(asked) == token == 327_680
    block = 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672
    weights = 2 * (80 * (block + 2 * 8192) + 2 * 128256 * 8192 + 8192)
    use = answer.best.memory[0]
    assert use.weights == pytest.approx(weights / 4, rel=1e-6)
    assert use.cache == token * (2048 + 256) / 4
    read = 2 * (80 * block + 128256 * 8192) + token * (2048 + 128)
    least = read / 4 / BANDWIDTH
    decode, figures = answer.best.figures.decode, answer.best.figures
    assert decode is not None
    assert figures.token_ns is not None
    assert decode.least / 1e9 == pytest.approx(least, rel=0.01)
    assert least < figures.token_ns / 1e9 < 2 * least
    assert figures.tokens_per_s == pytest.approx(1e9 / figures.token_ns)


def test_prefill_of_mixtral_on_four_takes_its_operations() -> None:
    asked = serving_problem("mixtral-8x7b", "4xH100", prompt=2048, phase=Phase.PREFILL)
    answer = answered(asked)
    assert answer.best is not None
    expert = 3 * 4096 * 14336
    block = 2 * 4096**2 + 2 * 4096 * 1024 + 2 * expert + 8 * 4096  # two of eight experts, router
    flops = 32 * (2 * 2048 * block + 2 * 2048**2 * 4096) + 2 * 4096 * 32000
    first = answer.best.figures.first_token_ns
    assert first is not None
    assert flops / 4 / FLOPS < first / 1e9 < 4 * flops / 4 / FLOPS
    d = answer.best.deployment
    dense = 32 * (block - 2 * expert + 2 * 4096) + 2 * 32000 * 4096 + 4096
    expected = 2 * (dense / d.tensor + 32 * 8 * expert / (d.expert * d.expert_tensor))
    assert answer.best.memory[0].weights == pytest.approx(expected, rel=1e-6)


def test_throughput_takes_as_many_requests_as_fit_and_beats_latency() -> None:
    size: dict[str, Any] = {"prompt": 2048, "output": 256}
    fast = answered(serving_problem("llama3-70b", "4xH100", **size))
    asked = serving_problem("llama3-70b", "4xH100", objective=Objective.THROUGHPUT, **size)
    full = answered(asked)
    assert fast.best is not None
    assert full.best is not None
    assert full.best.figures.tokens_per_s > 10 * fast.best.figures.tokens_per_s
    d = full.best.deployment
    assert check(asked, d).ok
    more = check(asked, replace(d, requests=d.requests + 1))
    assert {violation.rule for violation in more.violations} == {"memory"}
    limited = replace(asked, token_ns=25_000_000)
    slower = answered(limited)
    assert slower.best is not None
    assert (slower.best.figures.token_ns or 0) <= 25_000_000
    assert slower.best.figures.value > full.best.figures.value
    one_more = replace(slower.best.deployment, requests=slower.best.deployment.requests + 1)
    assert "time" in {violation.rule for violation in check(limited, one_more).violations}


def test_fp8_halves_weights_and_a_second_request_is_nearly_free() -> None:
    one, eight = (
        serving_problem(
            *("llama3-8b", "1xH100"), prompt=512, output=64, phase=Phase.DECODE, precision=precision
        )
        for precision in (Precision.BF16, Precision.FP8)
    )
    figures = [ServingCosts(p) for p in (one, eight)]
    alone, both = Deployment(), Deployment(requests=2)
    assert figures[1].memory(alone)[0].weights * 2 == figures[0].memory(alone)[0].weights
    token = [costs.figures(alone).token_ns or 0 for costs in figures]
    assert token[1] < 0.7 * token[0]
    assert (figures[0].figures(both).token_ns or 0) < 1.05 * token[0]


def test_caches_of_latent_attention_windows_and_towers() -> None:
    def cache(name: str, prompt: int) -> int:
        asked = serving_problem(name, "8xH200", prompt=prompt, phase=Phase.PREFILL)
        return ServingCosts(asked).memory(Deployment(data=8))[0].cache

    assert cache("deepseek-v3", 4096) == 61 * (512 + 64) * 2 * 4096
    full, window = 2 * 8 * 64 * 2 * 4096, 2 * 8 * 64 * 2 * 128
    assert cache("gpt-oss-20b", 4096) == 12 * (full + window)
    assert cache("llava-7b", 4096) == cache("llama2-7b", 4096)
    assert cache("llama2-7b", 17) == cache("llama2-7b", 32)


def test_a_single_token_reads_the_experts_that_it_visits() -> None:
    part = Moe(64, 4, 1024)
    blocks = (Block(512, Attention(8, 8, 64), part),)
    d = Deployment()
    for tokens, read in ((1, 4.0), (10_000, 64.0)):
        layout = Layout(d.configuration(tokens, Precision.BF16), 8)
        counter = PassCounter(
            *(Architecture("moe", blocks, 1000, 16), layout, SOFTWARE),
            sequence=1,
            context=16,
            cache_bytes=2,
        )
        assert counter.experts_read(part, tokens) == pytest.approx(read)


def test_a_single_token_visits_one_copy_of_the_experts_whole() -> None:
    """Each of two tensor ranks with all experts read those of half a token."""
    problem = serving_problem("qwen3-30b-a3b", "2xH100", prompt=100, output=10)
    costs, block = ServingCosts(problem), problem.architecture.blocks[0]
    part = block.feed_forward
    assert isinstance(part, Moe)
    read = {}
    for name, d in {"one": Deployment(data=2), "two": Deployment(tensor=2)}.items():
        counter = costs.counter(d, 1, 1, 100)
        read[name] = counter.experts_read(part, counter.own(1))
        assert counter.own(1) == 1
    assert read["one"] == read["two"] == pytest.approx(8)
    shared = costs.counter(Deployment(tensor=2, expert=2), 1, 1, 100)
    assert shared.experts_read(part, shared.own(1)) == pytest.approx(4)


SOFTWARE = shipped().software


def tiny(rng: random.Random) -> Architecture:
    heads = rng.choice((4, 8, 12))
    hidden = heads * 64
    parts: list[Mlp | Moe] = [Mlp(rng.randrange(16, 40_000)), Moe(8, 2, rng.randrange(16, 20_000))]
    blocks = (Block(hidden, Attention(heads, heads, 64), rng.choice(parts)),) * rng.randint(1, 24)
    return Architecture("tiny", blocks, rng.randrange(100, 200_000), 4096)


@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_of_all_deployments(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.choice((1, 2))
    asked = serving_problem(
        tiny(rng),
        f"{nodes}x4xH100",
        prompt=rng.randrange(1, 10_000),
        output=rng.randrange(1, 2_000),
        phase=rng.choice(tuple(Phase)),
        objective=rng.choice(tuple(Objective)),
        requests=rng.randrange(1, 200),
        memory_bytes=rng.choice((2 * 10**9, 10**10, 8 * 10**10)),
    )
    values = []
    for t, p, e, split in product((1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4)):
        data = asked.cluster.devices // (t * p)
        if not data:
            continue
        requests = -(-(asked.requests or 1) // data)
        for prompts in (1, 2, 4, 8, 16, 32, 64):
            large = prompts > 1 and prompts * asked.prompt > 32_768
            if large or (asked.phase is Phase.DECODE and prompts > 1):
                continue
            verdict = check(asked, Deployment(t, e, split, p, data, requests, prompts))
            if verdict.ok and verdict.value is not None:
                values.append(verdict.value)
    best = answered(asked).best
    assert (best.figures.value if best else None) == min(values, default=None)


def test_an_interruption_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("serve", "llama3-8b", "4xH100", "--prompt", "512", "--json")
    best = json.loads(call(*words).stdout)["value"]
    usual, calls = ServingCosts.figures, []

    def interrupted(costs: ServingCosts, deployment: Deployment) -> object:
        calls.append(deployment)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return usual(costs, deployment)

    monkeypatch.setattr(ServingCosts, "figures", interrupted)
    done = call(*words)
    data = json.loads(done.stdout)
    assert done.exit_code == Exit.INTERRUPTED
    assert not data["finished"]
    assert 0 < data["bound"] <= best <= data["value"]


def test_a_search_that_is_cut_off_lists_the_nearest_misses_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that time ended hard listed every deployment that did not fit, in no order."""

    def cut(_costs: ServingCosts, _deployment: Deployment) -> object:
        raise TimeoutError

    monkeypatch.setattr(ServingCosts, "figures", cut)
    problem = serving_problem("deepseek-v3", "2x8xH200", prompt=100)
    search = Search(problem, ServingCosts(problem), Budget(None))
    with pytest.raises(TimeoutError):
        search.run()
    lacking = [miss.excess_bytes for miss in search.found.misses]
    assert lacking == sorted(lacking)
    assert len(lacking) == MISSES


def test_the_checker_names_every_broken_rule() -> None:
    asked = serving_problem("llama3-8b", "8xH100", prompt=1024, output=128)
    good = Deployment(tensor=4, data=2)
    assert check(asked, good).ok
    for broken, rule in (
        (replace(good, data=1), "degrees"),
        (replace(good, tensor=0), "degrees"),
        (replace(good, expert=2), "degrees"),
        (replace(good, prompts=2), "requests"),
        (replace(good, requests=0), "requests"),
        (replace(good, requests=10**400), "requests"),
        (replace(good, requests=10_000), "memory"),
    ):
        assert {v.rule for v in check(asked, broken).violations} == {rule}
    slow = replace(asked, first_token_ns=1, token_ns=1)
    assert [v.rule for v in check(slow, good).violations] == ["time", "time"]
    plan = ServingPlan(asked.name, asked.fingerprint, good, 1)
    assert [v.rule for v in check(asked, plan).violations] == ["claim"]
    assert [v.rule for v in check(replace(asked, fixed={"tensor": 2}), good).violations] == [
        "fixed"
    ]
    other = ServingPlan("another", "0" * 64, good)
    assert {v.rule for v in check(asked, other).violations} == {"identity"}


def test_what_serves_no_tokens_is_refused() -> None:
    with pytest.raises(InputError, match="generates no tokens"):
        serving_problem(model("vit-l"), "1xH100", prompt=16)
    with pytest.raises(InputError, match="prompt"):
        serving_problem("llama3-8b", "1xH100", prompt=0)


IDEAL = DeviceRates(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)
"""Kernels and links at their published rates, without latencies."""


def ideal(cluster: str, **asked: Any) -> ServingProblem:
    """Two blocks of 1,024 without biases or gates, 32,000 words, at the rates of data sheets."""
    block = Block(1024, Attention(8, 8, 128), Mlp(4096, gated=False))
    small = Architecture("small", (block, block), 32_000, 4096, tied=True)
    rates = Efficiency({"H100": IDEAL})
    return serving_problem(small, cluster, efficiency=rates, reserve_bytes=0, **asked)


def test_words_as_texts_ask_the_same_as_their_members() -> None:
    """A phase that was a text was read as both phases."""
    size = {"prompt": 2048, "output": 256}
    spelled = serving_problem("llama3-70b", "4xH100", **size, phase="decode", precision="fp8")
    known = {"phase": Phase.DECODE, "precision": Precision.FP8}
    assert spelled == serving_problem("llama3-70b", "4xH100", **size, **known)
    assert spelled.phase is Phase.DECODE
    with pytest.raises(InputError, match="objective: found 'speed', expected one of latency"):
        serving_problem("llama3-70b", "4xH100", **size, objective="speed")


def test_a_decode_pass_takes_the_bytes_of_each_piece_by_hand() -> None:
    """Projections, attention, feed-forward part, embedding, head: all are bound by memory."""
    problem = ideal("1xH100", prompt=1000, output=200, phase=Phase.DECODE)
    h, f, seen, words = 1024, 4096, 1000 + 100, 32_000
    products = 4 * h * h + (h + 3 * h) + (h + h)  # weights; in and out of both products
    rope_and_norms = 2 * (h + h) + 4 * h
    cache = seen * 2 * h
    feed = 2 * h * f + 2 * (h + f) + 2 * f
    rows, head = 2 * h, h * words + h + words
    elements = 2 * (products + rope_and_norms + cache + feed) + rows + head
    logits = 4 * 2 * words  # bytes: 32-bit floats, written and read
    token = answer_for(problem, ServingPlan(problem.name, None, Deployment())).best
    assert token is not None
    assert token.figures.token_ns == pytest.approx((2 * elements + logits) / BANDWIDTH * 1e9, abs=1)
    assert token.figures.value == token.figures.token_ns == check(problem, Deployment()).value


def test_a_prefill_pass_takes_the_larger_of_operations_and_bytes_of_each_piece_by_hand() -> None:
    """Of 16 prompts of 4,096 tokens, projections and head are bound by bytes, the rest is not."""
    problem = ideal("1xH100", prompt=4096, phase=Phase.PREFILL)
    h, f, words, tokens = 1024, 4096, 32_000, 16 * 4096
    products = 4 * h * h + tokens * (4 * h + 2 * h)  # weights; in and out of both products
    projections = 2 * (products + tokens * (2 * (h + h) + 4 * h)) / BANDWIDTH  # rope, norms
    assert 2 * tokens * 4 * h * h / FLOPS < projections
    core = 16 * 2 * 4096**2 * h / FLOPS  # scores and values of half of the square
    feed = 2 * tokens * 2 * h * f / FLOPS
    moved = 2 * 2 * h * tokens + 2 * (h * words + 16 * (h + words)) + 4 * 2 * 16 * words
    expected = 2 * (projections + core + feed) + moved / BANDWIDTH
    verdict = check(problem, Deployment(requests=16, prompts=16))
    assert (verdict.value or 0) / 1e9 == pytest.approx(expected, rel=1e-5)


def test_a_pipeline_makes_tokens_in_turn_by_hand() -> None:
    """Three requests in two groups of a stage each: a token waits for both passes."""
    asked = {"prompt": 1000, "output": 201, "objective": Objective.THROUGHPUT}
    problem = ideal("2xH100", **asked)
    d = Deployment(pipeline=2, requests=3, prompts=2)
    costs = ServingCosts(problem)
    prefill, decode = costs.prefill(d), costs.decode(d)
    assert prefill is not None
    assert decode is not None
    verdict = check(problem, d)
    token = max(sum(decode.stages), 2 * max(decode.stages))
    assert decode.stages[1] > decode.stages[0]  # which has the head
    assert verdict.components["token"] == token == 2 * decode.stages[1]
    assert verdict.components["first_token"] == sum(prefill.stages)
    busy = 2 * max(prefill.stages) + 200 * token  # two passes of prompts, 200 further tokens
    assert verdict.value == -(-busy * 10**6 // (3 * 201))
    bars = list(passes(answer_for(problem, ServingPlan(problem.name, None, d))))
    for stage in (0, 1):
        ends = sorted((start, start + length) for at, _, start, length in bars if at == stage)
        assert all(end <= start for (_, end), (start, _) in pairwise(ends))


MODELS = ("llama3-8b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite", "llama2-70b")
CLUSTERS = ("4xH100", "2x8xA100", "2x4xH100+1x4xA100", "8xH200")


@pytest.mark.parametrize("seed", few(range(24), 10))
def test_no_plan_is_below_the_bound_on_widths(seed: int) -> None:
    """Published models and clusters; any deployment that the law allows, beyond the space too."""
    rng = random.Random(f"widths {seed}")
    phase = rng.choice(tuple(Phase))
    problem = serving_problem(
        MODELS[seed % len(MODELS)],
        CLUSTERS[seed % len(CLUSTERS)],
        prompt=rng.randrange(1, 20_000),
        output=1 if phase is Phase.PREFILL else rng.randrange(2, 4000),
        phase=phase,
        objective=rng.choice(tuple(Objective)),
        requests=rng.choice((None, None, rng.randrange(1, 500))),
        precision=Precision.BF16,
        cache_precision=rng.choice(tuple(Precision)),
    )
    bound = width_bound(problem, Budget(None))
    assert bound is not None
    devices, valid = problem.cluster.devices, 0
    for _ in range(400):
        tensor = rng.choice([d for d in range(1, devices + 1) if devices % d == 0])
        pipeline = rng.choice([d for d in range(1, devices + 1) if devices // tensor % d == 0])
        data = devices // tensor // pipeline
        expert, split = rng.choice((1, 1, 2, 4, 8)), rng.choice((1, 1, tensor))
        least = -(-(problem.requests or 1) // data)
        requests = least + int(rng.choice((0, 10 ** rng.uniform(0, 3.5))))
        prompts = rng.randint(1, min(requests, 40))
        d = Deployment(tensor, expert, split, pipeline, data, requests, prompts)
        verdict = check(problem, d)
        if verdict.ok:
            valid += 1
            assert bound.value <= (verdict.value or 0), d
    best = answered(problem)
    assert (best.best is not None) or not valid
    if best.best is not None:
        assert bound.value <= best.best.figures.value
        assert best.gap == 0
