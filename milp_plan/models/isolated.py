"""Formulations that are not ours run in a process of their own, under limits of time and memory.

Loading the file is the first thing that happens there. Whatever its code does (an exception, an
endless loop, ``sys.exit``, a segmentation fault, too much memory) becomes a
:class:`~milp_plan.core.FormulationFailureError` with one sentence, and the run goes on without it.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import signal
import subprocess
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from milp_plan.core import (
    FormulationError,
    FormulationFailureError,
)
from milp_plan.core.budget import LONGEST_S, now
from milp_plan.core.process import end, spawn
from milp_plan.lp import CompiledModel, Values

from .failure import sentence
from .options import Described, given, options_type
from .protocol import Card, Formulation, Guide, Scale

IMPORT_S = 20.0
"""Seconds that loading a formulation may take, unless the caller has less."""

START_S = 120.0
"""Seconds that our own imports in its process may take: a busy machine, or a slow disk."""

STEP_S = 30.0
"""Seconds for any other step where the caller sets no limit."""

EXIT_S = 5.0
"""Seconds to wait for the exit code of a process that has closed its pipes."""

MEMORY_SHARE = 0.8
"""Part of the machine's memory that a formulation may use."""

MOST_FAILURES = 3
"""Failures one after the other after which the formulation is not asked any more."""

ESSENTIAL = ("import", "restricts", "unsupported")
"""Steps after whose failure nothing the formulation says could be relied on."""

MOST_PROBLEMS = 3
"""Problems the process keeps: a run asks again and again about the same few."""

_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_of_machine() -> int:
    """Bytes of memory that this process can have: the machine's, or its control group's."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _CGROUPS:
        try:
            limits.append(int(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return min(limits)


class _Worker:
    """A worker that has been started, and what it was told."""

    def __init__(self) -> None:
        self.process = spawn("milp_plan.models.formulation_process", quiet=False)
        self.problems: dict[int, Any] = {}
        self.next_key = 0

    def exchange(self, message: bytes | None, limit_s: float) -> tuple[Any, ...] | None:
        """Send a question, and wait for what comes back; ``None`` when nothing will.

        Raises
        ------
        TimeoutError
            Nothing came within the limit.
        """
        answers: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        arguments = (self.process, message, answers)
        threading.Thread(target=_converse, args=arguments, daemon=True).start()
        try:
            return answers.get(timeout=min(limit_s, LONGEST_S))
        except queue.Empty:
            raise TimeoutError from None

    def key(self, problem: Any) -> tuple[int, tuple[int, ...]] | int:
        """Return the key of a problem it has, or a new one and those to forget for it."""
        for key, known in self.problems.items():
            if known is problem:
                return key
        old = tuple(self.problems)[: max(0, len(self.problems) - MOST_PROBLEMS + 1)]
        for key in old:
            del self.problems[key]
        self.next_key += 1
        self.problems[self.next_key] = problem
        return self.next_key, old


def _converse(
    process: subprocess.Popen[bytes],
    message: bytes | None,
    answers: queue.SimpleQueue[tuple[Any, ...] | None],
) -> None:
    """Write and read in a thread: neither ends while the other side does nothing."""
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        if message is not None:
            process.stdin.write(message)
            process.stdin.flush()
        answers.put(pickle.load(process.stdout))
    except (EOFError, OSError, ValueError, pickle.UnpicklingError):
        answers.put(None)


class ProcessClient:
    """Keeps the process of one formulation, and says how its steps went wrong.

    Parameters
    ----------
    name
        What the formulation is called until it has said so itself.
    reference
        Path of the file or package, or the value of an entry point.
    """

    def __init__(self, name: str, reference: Path | str) -> None:
        self.name, self.reference = name, reference
        self.restricts: dict[str, bool] = {}
        self.columns: Sequence[tuple[str, Hashable]] = ()
        self.failures = 0
        self.last: FormulationFailureError | None = None
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        atexit.register(self.close)

    def describe(self, limit_s: float, memory_bytes: int) -> Described:
        """Load the formulation.

        Raises
        ------
        FormulationFailureError
            It does not load; says why.
        """
        with self._lock:
            self.close()
            return self._load(limit_s, memory_bytes)

    def ask(self, step: str, limits: tuple[float, int], problem: Any, *content: Any) -> Any:
        """Ask for one step, about a problem unless that is ``None``.

        Raises
        ------
        FormulationError
            It refuses, in words of its own.
        FormulationFailureError
            It raised or timed out; or it did so too often, and is not asked any more.
        """
        if self.last is not None and self.failures >= MOST_FAILURES:
            raise self.last
        limit_s, memory_bytes = limits
        with self._lock:
            until = now() + limit_s
            if self._worker is None and step in {"encode", "decode"}:
                self._fail(step, "killed", "lost the process that built the model")
            if self._worker is None:
                self._load(limit_s, memory_bytes)
            assert self._worker is not None
            if problem is not None:
                key = self._worker.key(problem)
                if isinstance(key, tuple):
                    key, forgotten = key
                    told = (key, problem, forgotten)
                    self._request("problem", step, until - now(), memory_bytes, told)
                content = (key, *content)
            answer = self._request(step, step, until - now(), memory_bytes, content)
            self.failures = 0
            return answer

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            end(self._worker.process)
            self._worker = None

    def _load(self, limit_s: float, memory_bytes: int) -> Described:
        self._worker = _Worker()
        try:
            ready = self._worker.exchange(None, START_S)
        except TimeoutError:
            ready = None
        except BaseException:
            self.close()
            raise
        if ready is None:
            self._fail("import", "error", "has no process: it did not start")
        content = (self.reference,)
        found = self._request("import", "import", limit_s, memory_bytes, content)
        assert isinstance(found, Described)
        return found

    def _request(
        self, question: str, step: str, limit_s: float, memory_bytes: int, content: tuple[Any, ...]
    ) -> Any:
        """Put one question on behalf of a step."""
        worker = self._worker
        assert worker is not None
        message = pickle.dumps((question, memory_bytes, *content), pickle.HIGHEST_PROTOCOL)
        limit_s = max(0.05, limit_s)
        try:
            said = worker.exchange(message, limit_s)
        except TimeoutError:
            self._fail(step, "time_limit", f"did not finish within {limit_s:.3g} s")
        except BaseException:  # Ctrl-C: what the process is doing, nobody waits for
            self.close()
            raise
        if said is None:
            self._fail_by_exit(step)
        if said[0] == "refused":
            raise FormulationError(said[1])
        if said[0] == "failed":
            _, kind, words = said
            if kind == "memory_limit":
                self._fail(step, kind, _out_of_memory(memory_bytes))
            self._fail(step, kind, words, alive=question != "import")
        try:
            return pickle.loads(said[1])
        except Exception as error:  # of a type that only its own module knows
            self._fail(step, "error", f"returned what cannot be read here: {error}", alive=True)

    def _fail_by_exit(self, step: str) -> NoReturn:
        """Say how the process ended that said nothing more."""
        assert self._worker is not None
        try:
            code = self._worker.process.wait(timeout=EXIT_S)
        except subprocess.TimeoutExpired:
            self._fail(step, "killed", "ended the conversation with its process")
        if code >= 0:
            self._fail(step, "error", f"ended the process with code {code}")
        name = signal.strsignal(-code) or "unknown"
        self._fail(step, "killed", f"was killed by signal {-code} ({name.lower()})")

    def _fail(self, step: str, kind: str, words: str, *, alive: bool = False) -> NoReturn:
        if not alive:
            self.close()
        self.failures += MOST_FAILURES if step in ESSENTIAL else 1
        file = self.reference.name if isinstance(self.reference, Path) else self.reference
        self.last = FormulationFailureError(sentence(self.name, file, step, words), kind)
        raise self.last


def _out_of_memory(limit: int) -> str:
    return f"ran out of memory (limit {limit / 2**30:.1f} GiB)"


@dataclass
class Isolated:
    """A formulation in its own process, to be used like any other.

    Parameters
    ----------
    client
        Keeps the process.
    card, handles
        What it says about itself.
    Options
        A dataclass like its own, made from plain data.
    limit_s
        Seconds that each step may take.
    memory_bytes
        Memory that its process may take.
    """

    client: ProcessClient
    card: Card
    handles: type
    Options: type
    limit_s: float = STEP_S
    memory_bytes: int = field(default_factory=lambda: int(MEMORY_SHARE * memory_of_machine()))

    def within(self, limit_s: float) -> Isolated:
        """Return the same formulation with another limit for each step."""
        return replace(self, limit_s=limit_s)

    def _ask(self, step: str, problem: Any, *content: Any) -> Any:
        return self.client.ask(step, (self.limit_s, self.memory_bytes), problem, *content)

    def restricts(self, options: Any) -> bool:
        """Ask whether better plans than all others may be missing; true where it does not say."""
        known, key = self.client.restricts, repr(options)
        if key not in known:
            try:
                known[key] = self._ask("restricts", None, given(options))
            except FormulationFailureError:
                known[key] = True
        return known[key]

    def unsupported(self, problem: Any, options: Any) -> str | None:
        """Ask why the problem is not for the formulation."""
        answer: str | None = self._ask("unsupported", problem, given(options))
        return answer

    def build(self, problem: Any, options: Any, guide: Guide) -> CompiledModel:
        """Have the model built and compiled."""
        model: CompiledModel = self._ask("build", problem, given(options), guide)
        self.client.columns = model.columns
        return model

    def scale(self, problem: Any, options: Any, guide: Guide) -> Scale:
        """Ask what the objective counts."""
        answer: Scale = self._ask("scale", problem, given(options), guide)
        return answer

    def encode(self, problem: Any, options: Any, model: CompiledModel, plan: Any) -> Values | None:
        """Ask for a start of the model, which must be the one that was built last."""
        vector = self._ask("encode", problem, given(options), plan)
        return None if vector is None else model.name_values(vector)

    def decode(self, problem: Any, options: Any, guide: Guide, values: Values) -> Any:
        """Ask for the plan of a solution of the model that was built last."""
        vector = np.array([values[family][index] for family, index in self.client.columns])
        answer: Any = self._ask("decode", problem, given(options), guide, vector)
        return answer

    def refined(self, problem: Any, options: Any, guide: Guide, plan: Any) -> Guide | None:
        """Ask for the next question, with rows that a plan breaks."""
        more: Guide | None = self._ask("refined", problem, given(options), guide, plan)
        return more


def isolate(
    name: str, reference: Path | str, limit_s: float | None = None
) -> tuple[Isolated, str | None]:
    """Load a formulation in a process of its own; with it, why that failed.

    One that failed answers every question with its error, and has a card that promises nothing.
    """
    client = ProcessClient(name, reference)
    loading = Isolated(client, _unknown(name), object, options_type(()))
    try:
        seconds = IMPORT_S if limit_s is None else min(limit_s, IMPORT_S)
        found = client.describe(seconds, loading.memory_bytes)
    except FormulationFailureError as error:
        return loading, str(error)
    client.name = found.card.name
    made = options_type(found.options)
    return replace(loading, card=found.card, handles=found.handles, Options=made), None


def _unknown(name: str) -> Card:
    """Return the card of a formulation that could not say what it is."""
    return Card(name, "it does not load", "unknown", (), exact=False)


def within(formulation: Formulation[Any, Any], limit_s: float) -> Formulation[Any, Any]:
    """Return a formulation whose steps end after some seconds where that can be helped."""
    return formulation.within(limit_s) if isinstance(formulation, Isolated) else formulation
