"""The answer in words and as plain data: degrees, times, memory, what else there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from milp_plan.kinds.training.efficiency import Efficiency
from milp_plan.kinds.training.report import gigabytes, seconds

from .costs import ROUND_NS, PassTime
from .problem import Deployment, Objective, Phase, ServingProblem
from .search import NOT_CONSIDERED, ServingCandidate, ServingResult
from .work import cache_elements

if TYPE_CHECKING:
    from pandas import DataFrame

_GB = 10**9


@dataclass(frozen=True)
class ServingAnswer:
    """What a run of ``serve`` says.

    Parameters
    ----------
    problem
        What was planned.
    found
        Result of the search.
    efficiency
        Rates that were used.
    fixed
        Fields that the user fixed.
    """

    problem: ServingProblem
    found: ServingResult
    efficiency: Efficiency
    fixed: Mapping[str, int]

    @property
    def best(self) -> ServingCandidate | None:
        """The best deployment."""
        return self.found.best[0] if self.found.best else None

    def __str__(self) -> str:
        """Return the answer for people."""
        return "\n".join(lines(self))

    def __repr__(self) -> str:
        """Return the answer for people."""
        return str(self)

    def to_frame(self) -> DataFrame:
        """Return the best deployments as a table, one a row."""
        from pandas import DataFrame

        rows = [asdict(each.deployment) | _row(self, each) for each in self.found.best]
        return DataFrame(rows)


def deployment_text(problem: ServingProblem, d: Deployment) -> str:
    """Write a deployment in one line."""
    parts = [f"TP {d.tensor}", f"PP {d.pipeline}", f"{d.data} replica{'s' * (d.data > 1)}"]
    if d.expert * d.expert_tensor > 1:
        split = f" x ETP {d.expert_tensor}" if d.expert_tensor > 1 else ""
        parts.append(f"EP {d.expert}{split}")
    if problem.phase is not Phase.PREFILL:
        parts.append(f"{d.requests:,} request{'s' * (d.requests > 1)} a replica")
    if problem.phase is not Phase.DECODE:
        parts.append(f"{d.prompts} prompt{'s' * (d.prompts > 1)} at once")
    return " · ".join(parts)


def short(ns: int) -> str:
    """Write a time of a pass."""
    return f"{ns / 1e6:.3g} ms" if ns < 10**9 else seconds(ns)


def cache_bytes_per_token(problem: ServingProblem) -> int:
    """Return bytes of keys and values of one token, over all devices of a replica."""
    elements = sum(
        cache_elements(block.attention, 1) * count
        for block, count in problem.architecture.runs
        if block.tokens is None
    )
    return round(elements * problem.cache_bytes)


def lines(answer: ServingAnswer) -> Iterator[str]:
    """Write the answer for people, line by line."""
    p = answer.problem
    size = f"prompt {p.prompt:,}"
    if p.phase is not Phase.PREFILL:
        size += f", output {p.output:,}"
    parameters = p.architecture.parameters / 1e9
    yield f"{p.name}: {size}, {parameters:.4g} B parameters, {p.phase}, {p.objective}"
    if answer.best is None:
        yield from _nothing(answer)
    else:
        yield f"  {deployment_text(p, answer.best.deployment)}"
        yield from _figures(answer, answer.best)
        yield from _proof(answer)
        for candidate in answer.found.best[1:]:
            more = candidate.figures.value / answer.best.figures.value - 1
            yield f"  next best  +{100 * more:.1f} %  {_in_short(p, candidate)}"
    for miss in answer.found.misses:
        text = deployment_text(p, miss.deployment)
        yield f"  rejected  {gigabytes(miss.excess_bytes)} too much on stage {miss.stage}  {text}"
    if p.architecture.notes:
        yield f"  model  {'; '.join(p.architecture.notes)}"
    yield f"  not considered  {'; '.join(_left_out(answer))}"


def _rate(tokens: float) -> str:
    return f"{tokens:,.0f}" if tokens >= 10 else f"{tokens:.2g}"


def _in_short(p: ServingProblem, candidate: ServingCandidate) -> str:
    rate = candidate.figures.tokens_per_s / p.cluster.devices
    return f"{_rate(rate)} tokens/s a device  {deployment_text(p, candidate.deployment)}"


def _nothing(answer: ServingAnswer) -> Iterator[str]:
    found = answer.found
    if found.why_empty is not None:
        yield f"  no deployment can run: {found.why_empty}"
    elif not found.finished:
        when = "before the interruption" if found.interrupted else "in time"
        yield f"  no deployment {when}: {found.considered:,} looked at"
    elif found.late:
        yield f"  no deployment meets the limits on times: {found.late:,} that fit are slower"
    else:
        yield "  no deployment fits: each breaks a memory limit"


def _figures(answer: ServingAnswer, best: ServingCandidate) -> Iterator[str]:
    p, figures = answer.problem, best.figures
    kind = "prompt tokens/s" if p.phase is Phase.PREFILL else "tokens/s"
    rate = figures.tokens_per_s
    parts = []
    if figures.first_token_ns is not None:
        parts.append(f"first token {short(figures.first_token_ns)}")
    if figures.token_ns is not None:
        parts.append(f"each further token {short(figures.token_ns)}")
    if p.phase is Phase.BOTH:
        parts.append(f"request {short(figures.request_ns)}")
    parts.append(f"{_rate(rate / p.cluster.devices)} {kind} a device, {_rate(rate)} in all")
    yield f"  {' · '.join(parts)}"
    stage = max(range(len(best.memory)), key=lambda i: best.memory[i].total)
    use, limit = best.memory[stage], p.limit_bytes(best.deployment, stage)
    yield (
        f"  peak {gigabytes(use.total)} of {gigabytes(limit)} on stage {stage}: weights "
        f"{use.weights / _GB:.1f}, cache {use.cache / _GB:.1f} ({cache_bytes_per_token(p):,} bytes "
        f"a token), buffers {use.buffers / _GB:.1f}; {gigabytes(p.reserve_bytes)} left free"
    )
    for name, time in (("prefill", figures.prefill), ("decode", figures.decode)):
        if time is not None:
            yield f"  {name}: {_parts(time)}"
    yield (
        f"  costs {costs_text(answer)}; not fitted to measured inference: captured graphs, "
        f"{ROUND_NS / 1e3:g} µs a round of collectives in a node"
    )


def costs_text(answer: ServingAnswer) -> str:
    """Say for each device class what its rates come from."""
    names = dict.fromkeys(group.device.name for group in answer.problem.cluster.groups)
    return answer.efficiency.origin(names, answer.problem.architecture.has_experts)


def _parts(time: PassTime) -> str:
    parts = {
        "compute and memory": time.compute,
        "tensor": time.tensor,
        "expert": time.expert,
        "pipeline transfers": time.transfer,
    }
    total = max(1, time.total)
    text = ", ".join(f"{n} {ns / total:.1%}" for n, ns in parts.items() if 2000 * ns > total)
    stage = "slowest stage" if len(time.stages) > 1 else "pass"
    return (
        f"{short(time.total)} a pass: {text}; its bytes at the peak rate of memory take "
        f"{short(time.least)} ({time.least / max(time.stages):.0%} of the {stage})"
    )


def _proof(answer: ServingAnswer) -> Iterator[str]:
    found = answer.found
    slow = f", {found.late:,} beyond the limits on times" if found.late else ""
    if found.finished:
        yield (
            "  proved best within the space, by these costs: all of "
            f"{found.considered:,} deployments valued{slow}"
        )
    else:
        when = "before the interruption" if found.interrupted else "in time"
        yield f"  best of {found.considered:,} deployments {when}{slow}; no proof"


def _left_out(answer: ServingAnswer) -> list[str]:
    given = [f"{name} {value}" for name, value in answer.fixed.items()]
    return [*(["other than " + ", ".join(given)] if given else []), *NOT_CONSIDERED]


def data(answer: ServingAnswer) -> dict[str, Any]:
    """Return the answer as plain data; the members are always the same."""
    p, found, best = answer.problem, answer.found, answer.best
    return {
        "verb": "serve",
        "problem": p.name,
        "fingerprint": p.fingerprint,
        "model": p.architecture.name,
        "cluster": p.cluster.name,
        "devices": p.cluster.devices,
        "prompt": p.prompt,
        "output": p.output,
        "phase": str(p.phase),
        "objective": str(p.objective),
        "parameters": p.architecture.parameters,
        "cache_bytes_per_token": cache_bytes_per_token(p),
        "reserve_bytes": p.reserve_bytes,
        "value": best.figures.value if best else None,
        "value_unit": "ns"
        if p.objective is Objective.LATENCY
        else "ns of the cluster for a million tokens",
        "finished": found.finished,
        "considered": found.considered,
        "late": found.late,
        "why_empty": found.why_empty,
        "fixed": dict(answer.fixed),
        "costs": costs_text(answer),
        "best": _candidate(answer, best) if best else None,
        "next_best": [_candidate(answer, entry) for entry in found.best[1:]],
        "rejected": [asdict(miss) for miss in found.misses],
        "not_considered": _left_out(answer),
    }


def _row(answer: ServingAnswer, candidate: ServingCandidate) -> dict[str, Any]:
    figures = candidate.figures
    return {
        "first_token_ns": figures.first_token_ns,
        "token_ns": figures.token_ns,
        "request_ns": figures.request_ns,
        "tokens_per_s_per_device": figures.tokens_per_s / answer.problem.cluster.devices,
        "peak_bytes": max(use.total for use in candidate.memory),
    }


def _candidate(answer: ServingAnswer, candidate: ServingCandidate) -> dict[str, Any]:
    figures = candidate.figures
    passes = {"prefill": figures.prefill, "decode": figures.decode}
    return {
        "deployment": asdict(candidate.deployment),
        **_row(answer, candidate),
        "passes": {name: asdict(time) if time else None for name, time in passes.items()},
        "memory_bytes": [asdict(use) for use in candidate.memory],
    }
