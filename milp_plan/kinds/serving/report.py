"""The answer in words and as plain data: degrees, times, memory, what else there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from milp_plan.kinds.training.answer import GB, Answer, gigabytes, seconds

from .costs import ROUND_NS, PassTime
from .problem import Objective, Phase, ServingProblem, deployment_text
from .search import NOT_CONSIDERED, ServingCandidate, ServingResult
from .work import cache_elements

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class ServingAnswer(Answer[ServingProblem, ServingCandidate]):
    """What a run of ``serve`` says.

    Parameters
    ----------
    problem, found, because
        As of :class:`~milp_plan.kinds.training.answer.Answer`.
    bound
        No plan has a lower value; ``None`` where none is known.
    """

    found: ServingResult
    bound: int | None = None

    @property
    def gap(self) -> float | None:
        """How far the best is above the bound, as a part of its value."""
        if self.best is None or self.bound is None:
            return None
        value = self.best.figures.value
        return (value - self.bound) / value

    def lines(self) -> Iterator[str]:
        """Write degrees, times, memory, proof, and what else there is."""
        return lines(self)

    def rows(self) -> Iterator[dict[str, Any]]:
        """List the best deployments."""
        for each in self.found.best:
            yield asdict(each.deployment) | _row(self, each)

    def draw(self) -> Figure:
        """Return passes of a request on stages, and memory by stage."""
        from .picture import picture

        return picture(self)


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
    when = "before the interruption" if answer.found.interrupted else "in time"
    looked = f"{answer.found.considered:,} looked at"
    yield f"  {answer.because or f'no deployment {when}: {looked}'}"


def plan_lines(answer: ServingAnswer) -> Iterator[str]:
    """Write the best deployment and its figures for people, line by line."""
    assert answer.best is not None
    yield deployment_text(answer.problem, answer.best.deployment)
    yield from (line.strip() for line in _figures(answer, answer.best))


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
        f"{use.weights / GB:.1f}, cache {use.cache / GB:.1f} ({cache_bytes_per_token(p):,} bytes "
        f"a token), buffers {use.buffers / GB:.1f}; {gigabytes(p.reserve_bytes)} left free"
    )
    for name, time in (("prefill", figures.prefill), ("decode", figures.decode)):
        if time is not None:
            yield f"  {name}: {_parts(time)}"
    yield (
        f"  costs {p.costs_origin}; not fitted to measured inference: captured graphs, "
        f"{ROUND_NS / 1e3:g} µs a round of collectives in a node"
    )


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
    found, counts = answer.found, f"{answer.found.considered:,} deployments"
    if found.late:
        counts += f", {found.late:,} beyond the limits on times"
    if answer.gap == 0:
        yield f"  proved best within the space, by these costs: all of {counts}"
        return
    ended = " · interrupted" if found.interrupted else ""
    if answer.bound is None or answer.gap is None:
        yield f"  no bound · best of {counts}{ended}"
        return
    bound = f"bound {short(answer.bound)} · gap {100 * answer.gap:.2f} %"
    yield f"  {bound} · best of {counts}{ended}"


def _left_out(answer: ServingAnswer) -> list[str]:
    fixed = ", ".join(answer.problem.fixed_texts)
    return [*([f"other than {fixed}"] if fixed else []), *NOT_CONSIDERED]


def data(answer: ServingAnswer) -> dict[str, Any]:
    """Return the answer as plain data; the problem is said by the kind's ``about``."""
    p, found, best = answer.problem, answer.found, answer.best
    return {
        "objective": str(p.objective),
        "cache_bytes_per_token": cache_bytes_per_token(p),
        "value": best.figures.value if best else None,
        "value_unit": "ns"
        if p.objective is Objective.LATENCY
        else "ns of the cluster for a million tokens",
        "bound": answer.bound,
        "gap": answer.gap,
        "proved": answer.gap == 0 or answer.because is not None,
        "finished": found.finished,
        "considered": found.considered,
        "late": found.late,
        "infeasible_because": answer.because,
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
