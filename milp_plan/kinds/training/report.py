"""The answer in words and as plain data: degrees, time, memory, proof, what else there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .answer import GB, Answer, gigabytes, seconds
from .configuration import FASTER, Configuration, Precision
from .costs import StepTime
from .efficiency import MEASURED_UNDER, ErrorBand
from .memory import MemoryUse
from .misses import enough_memory
from .problem import MODEL_NOTES, TrainingProblem
from .profile import kinds_text
from .result import Candidate, SearchResult
from .space import Space, not_considered
from .texts import configuration_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_STAGES = 8


@dataclass(frozen=True, repr=False)
class TrainingAnswer(Answer[TrainingProblem, Candidate]):
    """What a run of ``train`` says.

    Parameters
    ----------
    problem, found, because
        As of :class:`Answer`.
    time, memory
        Of the best configuration by parts; ``None`` where none fits.
    hidden
        Nanoseconds of a step's traffic that computation hides, by kind of parallelism.
    """

    found: SearchResult
    time: StepTime | None
    hidden: Mapping[str, int]
    memory: tuple[MemoryUse, ...]

    def lines(self) -> Iterator[str]:
        """Write degrees, time, memory, proof, and what else there is."""
        return lines(self)

    def full_text(self) -> str:
        """Return the answer with all that was not considered."""
        return "\n".join(lines(self, full=True))

    def rows(self) -> Iterator[dict[str, Any]]:
        """List the best configurations."""
        for each in self.found.best:
            figures = _candidate(self, each)
            yield figures.pop("configuration") | figures | {"peak_bytes": max(each.peaks)}

    def draw(self) -> Figure:
        """Return a picture: timeline of a step, memory by stage, alternatives."""
        from .picture import picture

        return picture(self)

    def memory_parts(self, best: Candidate, stage: int) -> dict[str, int]:
        """Return bytes of a stage's peak by parts; activations are what the replay says."""
        use = self.memory[stage]
        parts = {
            "weights": use.weights_bytes,
            "gradients": use.gradients_bytes,
            "optimizer": use.optimizer_bytes,
            "buffers": use.buffers_bytes,
        }
        return parts | {"activations": best.peaks[stage] - sum(parts.values())}

    @property
    def proved(self) -> bool:
        """Whether nothing in the space is better, or nothing in it fits."""
        gap = self.found.gap
        return self.found.finished if gap is None else gap == 0


def flops_per_device(problem: TrainingProblem, step_ns: int) -> float:
    """Return operations of the model per second and device, without recomputation."""
    return problem.model_flops / problem.cluster.devices / (step_ns / 1e9)


def utilization(
    problem: TrainingProblem, step_ns: int, precision: Precision = Precision.BF16
) -> float:
    """Return the part of the cluster's peak rate that the model's operations take (MFU).

    With 8-bit products the peak rate is that of 8 bits.
    """
    peak = problem.cluster.peak_flops_per_s * FASTER[precision]
    return problem.model_flops / (step_ns / 1e9) / peak


def lines(answer: TrainingAnswer, *, full: bool = False) -> Iterator[str]:
    """Write the answer for people, line by line; ``full``: with all that was not considered."""
    problem = answer.problem
    size = f"batch {problem.global_batch:,}"
    if not problem.architecture.measured_batch:
        size = f"sequence {problem.sequence:,}, {size}"
    yield f"{problem.name}: {size}, {problem.architecture.all_parameters / 1e9:.4g} B parameters"
    if answer.best is None:
        yield from _nothing(answer)
    else:
        yield f"  {configuration_text(answer.best.configuration)}"
        yield from _figures(answer, answer.best)
        yield from _proof(answer)
        yield from _framework(answer)
        yield from _next_best(answer)
    yield from _misses(answer)
    yield from _with_host(answer)
    if MODEL_NOTES in problem.provenance:
        yield f"  model  {problem.provenance[MODEL_NOTES]}"
    names, texts = zip(*_left_out(answer), strict=True)
    left_out = "; ".join(texts) if full else f"{'; '.join(names)} (-v: in full)"
    yield f"  not considered  {left_out}"


def _nothing(answer: TrainingAnswer) -> Iterator[str]:
    found = answer.found
    if answer.because and answer.problem.framework:
        yield f"  {answer.because}"
    elif not found.considered and found.finished:
        reason = Space(answer.problem, answer.problem.fixed).why_empty()
        with_fixed = " with the fixed fields" if answer.problem.fixed else ""
        yield f"  no configuration can run{with_fixed}: {reason}"
    elif found.finished:
        yield f"  no configuration fits: each of {found.considered:,} breaks a memory limit"
    else:
        when = "before the interruption" if found.interrupted else "in time"
        yield f"  no configuration {when}: {found.timed:,} of {found.considered:,} looked at"


def plan_lines(answer: TrainingAnswer) -> Iterator[str]:
    """Write the best configuration and its figures for people, line by line."""
    assert answer.best is not None
    yield configuration_text(answer.best.configuration)
    yield from (line.strip() for line in _figures(answer, answer.best))


def _figures(answer: TrainingAnswer, best: Candidate) -> Iterator[str]:
    problem, step = answer.problem, best.step_ns
    devices_s = step / 1e9 * problem.cluster.devices
    if problem.architecture.measured_batch:
        rate = problem.global_batch / devices_s
        yield f"  step {seconds(step)} · {rate:,.1f} samples/s a device"
        yield f"  layers: {_stages_text(problem, best.configuration)}"
    else:
        flops = flops_per_device(problem, step) / 1e12
        mfu = utilization(problem, step, best.configuration.precision)
        rate = problem.tokens / devices_s
        yield (
            f"  step {seconds(step)} {_error(answer)} · {flops:,.0f} TFLOP/s a device · "
            f"MFU {100 * mfu:.1f} % · {rate:,.0f} tokens/s a device"
        )
    stage = max(range(len(best.peaks)), key=lambda i: best.peaks[i])
    limit = problem.limit_bytes(best.configuration, stage)
    yield (
        f"  peak {gigabytes(best.peaks[stage])} of {gigabytes(limit)} on stage {stage}: "
        f"{_memory(answer, best, stage)}; {gigabytes(problem.reserve_bytes)} of every device "
        "left free"
    )
    yield from _on_host(answer, best)
    yield f"  time: {', '.join(f'{name} {share:.1%}' for name, share in shares(answer))}"
    hidden = ", ".join(f"{name} {share:.1%}" for name, share in overlaps(answer))
    if hidden:
        yield f"  overlaps: {hidden} of a step beside compute"
    measured = "of layers measured; others " if problem.architecture.measured_batch else ""
    yield f"  costs {measured}{answer.problem.costs_origin}"


def _on_host(answer: TrainingAnswer, best: Candidate) -> Iterator[str]:
    """Say how much is on the host, and at which rate it is copied."""
    if not any(best.host_peaks):
        return
    stage = max(range(len(best.host_peaks)), key=lambda i: best.host_peaks[i])
    problem, c = answer.problem, best.configuration
    host = problem.cluster.groups[problem.group_of(c, stage)].device.host
    assert host is not None
    yield (
        f"  host {gigabytes(best.host_peaks[stage])} of {gigabytes(host.memory_bytes)} for a "
        f"device of stage {stage}; copies at {gigabytes(host.achieved_bytes_per_s)}/s each way, "
        "assumed"
    )


def _stages_text(problem: TrainingProblem, c: Configuration) -> str:
    """Count the kinds of measured layers of each stage; of many stages the first and the last."""
    blocks = problem.architecture.blocks
    texts = []
    for stage in range(c.pipeline):
        spans = c.spans(problem.architecture, stage)
        layers = [layer for start, count in spans for layer in blocks[start : start + count]]
        texts.append(f"stage {stage}: {kinds_text(tuple(layers))}")
    return "; ".join(texts if len(texts) <= _MOST_STAGES else [*texts[:3], "...", texts[-1]])


def error_band(answer: TrainingAnswer) -> ErrorBand | None:
    """Return errors on held-out steps; ``None`` where none was of these devices, in 16 bits."""
    efficiency = answer.problem.efficiency
    known = efficiency.band.rows and efficiency.measured(answer.problem.cluster.device_names)
    if answer.problem.architecture.measured_batch:
        return None
    assert answer.best is not None
    fp8 = answer.best.configuration.precision is Precision.FP8
    return efficiency.band if known and not fp8 else None


def _error(answer: TrainingAnswer) -> str:
    band = error_band(answer)
    if band is None:
        return "(error unknown)"
    most = max(1 - band.low, band.high - 1)
    return f"(within {100 * most:.0f} % on 80 % of {band.rows:,} held-out rows)"


def _memory(answer: TrainingAnswer, best: Candidate, stage: int) -> str:
    use = answer.memory_parts(best, stage)
    return ", ".join(f"{name} {amount / GB:.1f}" for name, amount in use.items())


def shares(answer: TrainingAnswer) -> list[tuple[str, float]]:
    """Return parts of the step, the largest first; what is left of the replay is the bubble."""
    assert answer.best is not None
    parts = time_parts(answer, answer.best)
    return sorted(
        (
            (name, ns / answer.best.step_ns)
            for name, ns in parts.items()
            if 2000 * ns > answer.best.step_ns
        ),
        key=lambda part: -part[1],
    )


def overlaps(answer: TrainingAnswer) -> list[tuple[str, float]]:
    """Return traffic that computation hides, as parts of the step."""
    assert answer.best is not None
    step = answer.best.step_ns
    return [(name, ns / step) for name, ns in answer.hidden.items() if 2000 * ns > step]


def time_parts(answer: TrainingAnswer, best: Candidate) -> dict[str, int]:
    """Return nanoseconds of the step by parts along the slowest pipeline device."""
    time = answer.time
    assert time is not None
    parts = {
        "compute": time.compute_ns,
        "tensor": time.tensor_ns,
        "expert": time.expert_ns,
        "context": time.context_ns,
        "pipeline transfers": time.transfer_ns,
        "data parallel": time.data_parallel_ns,
        "optimizer": time.optimizer_ns,
    }
    rest = best.step_ns - sum(parts.values())
    # where stages compute different numbers of blocks again, the parts are those of their mean
    parts["compute"] += min(0, rest)
    return parts | {"pipeline bubble": max(0, rest)}


def _proof(answer: TrainingAnswer) -> Iterator[str]:
    found = answer.found
    counts = f"{found.considered:,} configurations, {found.replayed:,} replayed"
    if answer.proved:
        yield f"  proved best within the space, by these costs: {counts}"
        return
    if found.bound_ns is None:  # a plan that no search found
        return
    ended = " · interrupted" if found.interrupted else ""
    gap = f"gap {100 * (found.gap or 0):.2f} %"
    yield f"  bound {seconds(found.bound_ns)} · {gap} · {counts}{ended}"


def _framework(answer: TrainingAnswer) -> Iterator[str]:
    """Say what planning for a framework leaves out, and what that costs."""
    found, best, name = answer.found, answer.best, answer.problem.framework
    if not name or best is None:
        return
    rates = answer.problem.efficiency.software.name
    if rates != MEASURED_UNDER.get(name) and not rates.startswith(name):
        yield f"  {name}  steps are predicted by rates of {rates}, none is fitted to {name}"
    counts = f"cannot run {found.refused:,} of {found.considered:,} configurations"
    other = found.unrestricted
    if other is None:
        proved = answer.proved and found.compared
        known = "none of these is faster" if proved else "none of these is known to be faster"
        yield f"  {name}  {counts}; {known}"
        return
    less = 1 - other.step_ns / best.step_ns
    yield (
        f"  {name}  {counts}; one of these takes {100 * less:.1f} % less  "
        f"{configuration_text(other.configuration)}: {'; '.join(found.reasons)}"
    )


def _next_best(answer: TrainingAnswer) -> Iterator[str]:
    assert answer.best is not None
    for candidate in answer.found.best[1:]:
        more = candidate.step_ns / answer.best.step_ns - 1
        yield f"  next best  +{100 * more:.1f} %  {configuration_text(candidate.configuration)}"


def _misses(answer: TrainingAnswer) -> Iterator[str]:
    problem, misses = answer.problem, answer.found.misses
    for miss in misses:
        yield (
            f"  rejected  {gigabytes(miss.excess_bytes)} too much on stage {miss.stage}, step "
            f"{seconds(miss.step_ns)}  {configuration_text(miss.configuration)}"
        )
    enough = enough_memory(problem, misses[0]) if misses and answer.best is None else None
    if enough is not None:
        size = f"{-(-enough // 10**8) / 10:.1f}GB"
        yield f"  enough    --memory {size}: a plan of {seconds(misses[0].step_ns)} exists then"


def _with_host(answer: TrainingAnswer) -> Iterator[str]:
    found = answer.found.with_host
    if found is not None:
        text = configuration_text(found.configuration)
        yield f"  enough    --host: a plan of {seconds(found.step_ns)} exists then  {text}"


def _left_out(answer: TrainingAnswer) -> Iterator[tuple[str, str]]:
    """List what was not considered, in few words and in full."""
    if answer.problem.fixed:
        fixed = ", ".join(answer.problem.fixed_texts)
        yield "other values of fixed fields", f"other than {fixed}"
    if answer.problem.framework:
        yield (f"what {answer.problem.framework} cannot run",) * 2
    yield from not_considered(answer.problem).items()


def data(answer: TrainingAnswer) -> dict[str, Any]:
    """Return the answer as plain data; the problem is said by the kind's ``about``."""
    found, best = answer.found, answer.best
    band = error_band(answer) if best else None
    content: dict[str, Any] = {
        "refused": found.refused,
        "unrestricted": _candidate(answer, found.unrestricted) if found.unrestricted else None,
        "unrestricted_refused": list(found.reasons),
        "value": best.step_ns if best else None,
        "bound": found.bound_ns,
        "gap": found.gap,
        "proved": answer.proved,
        "finished": found.finished,
        "considered": found.considered,
        "timed": found.timed,
        "replayed": found.replayed,
        "not_considered": [text for _, text in _left_out(answer)],
        "model_notes": answer.problem.provenance.get(MODEL_NOTES),
        "error_band": asdict(band) if band else None,
        "rejected": [asdict(miss) for miss in found.misses],
        "enough_memory_bytes": None
        if best or not found.misses
        else enough_memory(answer.problem, found.misses[0]),
        "with_host": _candidate(answer, found.with_host) if found.with_host else None,
        "next_best": [_candidate(answer, entry) for entry in found.best[1:]],
        "best": None,
    }
    if best is not None:
        stage = max(range(len(best.peaks)), key=lambda i: best.peaks[i])
        content["best"] = _candidate(answer, best) | {
            "time_ns": time_parts(answer, best),
            "peak_stage": stage,
            "overlapped_ns": dict(answer.hidden),
            "memory_bytes": answer.memory_parts(best, stage),
        }
    return content


def _candidate(answer: TrainingAnswer, candidate: Candidate) -> dict[str, Any]:
    problem, step = answer.problem, candidate.step_ns
    return {
        "configuration": asdict(candidate.configuration),
        "step_ns": step,
        "flops_per_s_per_device": flops_per_device(problem, step),
        "mfu": utilization(problem, step, candidate.configuration.precision),
        "peak_bytes": list(candidate.peaks),
        "host_bytes": list(candidate.host_peaks),
    }
