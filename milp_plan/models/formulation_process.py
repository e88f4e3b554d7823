"""The process in which a formulation lives that is not ours: it answers one question at a time.

Questions come as pickled tuples ``(step, memory_bytes, *content)`` on standard input; answers go
back on standard output: ``("ready",)`` once, then ``("answer", content)``, ``("refused", words)``
or ``("failed", kind, words)``. Whatever else is written goes to standard error.
"""

from __future__ import annotations

import inspect
import os
import pickle
import sys
from collections.abc import Hashable
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from milp_plan.core import FormulationError
from milp_plan.core.plan import AnyPlan
from milp_plan.core.process import watch
from milp_plan.lp import CompiledModel
from milp_plan.lp.loading import load_pyomo

from . import registry
from .failure import InvalidAnswerError, raised
from .options import Described, described, made
from .protocol import Card, Formulation, Guide, Scale
from .validated import compile_source, uncollected


class FormulationProcess:
    """A formulation, and what it has been told and has built so far."""

    def __init__(self) -> None:
        self.formulation: Any = None
        self.files: tuple[Path, ...] = ()
        self.problems: dict[int, Any] = {}
        self.guide = Guide()
        self.source: Any = None
        self.model: CompiledModel | None = None

    def answer(self, step: str, *content: Any) -> Any:
        """Answer one question; steps are called like what they ask of the formulation."""
        return getattr(self, f"do_{step}")(*content)

    def do_import(self, reference: Path | str) -> Described:
        """Load the formulation: from a path, or by the value of an entry point."""
        if isinstance(reference, Path):
            self.files = (reference,)
            loaded = registry.from_file(reference)
        else:
            loaded = registry.from_entry(reference)
            self.files = (Path(inspect.getfile(type(loaded))),)
        self.formulation = loaded
        return Described(_plain_card(loaded), loaded.handles, described(loaded.Options))

    def do_problem(self, key: int, problem: Any, forgotten: tuple[int, ...]) -> None:
        """Keep a problem for the questions to come."""
        for old in forgotten:
            self.problems.pop(old, None)
        self.problems[key] = problem

    def options(self, chosen: dict[str, Any]) -> Any:
        """Return the formulation's own options."""
        return made(self.formulation.Options, chosen)

    def same(self, guide: Guide) -> Guide:
        """Return the guide of the question before where this one says the same: it keeps things."""
        self.guide = self.guide if guide == self.guide else guide
        return self.guide

    def do_restricts(self, chosen: dict[str, Any]) -> bool:
        """Ask whether better plans than all others may be missing."""
        return bool(self.formulation.restricts(self.options(chosen)))

    def do_unsupported(self, key: int, chosen: dict[str, Any]) -> str | None:
        """Ask why a problem is not for the formulation."""
        reason = self.formulation.unsupported(self.problems[key], self.options(chosen))
        return None if reason is None else str(reason)

    def do_build(self, key: int, chosen: dict[str, Any], guide: Any) -> CompiledModel:
        """Build and compile; the model goes out with names that anybody can read."""
        guide = self.same(guide)
        self.source = self.model = None
        with uncollected():
            self.source = self.formulation.build(self.problems[key], self.options(chosen), guide)
            self.model = compile_source(self.source)
        return replace(self.model, columns=_plain_columns(self.model))

    def do_scale(self, key: int, chosen: dict[str, Any], guide: Any) -> Any:
        """Ask what the objective counts."""
        guide = self.same(guide)
        scale = self.formulation.scale(self.problems[key], self.options(chosen), guide)
        return _expected(scale, Scale)

    def do_encode(self, key: int, chosen: dict[str, Any], plan: Any) -> Any:
        """Ask for a start of the model that was built last: a vector."""
        assert self.model is not None
        values = self.formulation.encode(
            self.problems[key], self.options(chosen), self.source, plan
        )
        return None if values is None else self.model.vector(values)

    def do_decode(self, key: int, chosen: dict[str, Any], guide: Any, vector: Any) -> Any:
        """Ask for the plan of a solution of the model that was built last."""
        assert self.model is not None
        guide, values = self.same(guide), self.model.name_values(vector)
        plan = self.formulation.decode(self.problems[key], self.options(chosen), guide, values)
        return None if plan is None else _expected(plan, AnyPlan)

    def do_refined(self, key: int, chosen: dict[str, Any], guide: Any, plan: Any) -> Any:
        """Ask which rows to add for a plan that breaks a law, if the formulation has such rows."""
        refined = getattr(self.formulation, "refined", None)
        if refined is None:
            return None
        more = refined(self.problems[key], self.options(chosen), guide, plan)
        return None if more is None else _expected(more, Guide)


AHEAD = ("milp_plan.api", "milp_plan.lp.from_pyomo")
"""What every formulation imports; it counts for no formulation's time."""


def _expected(answer: Any, kind: type) -> Any:
    if not isinstance(answer, kind):
        raise InvalidAnswerError(
            f"returned a {type(answer).__name__}, expected a {kind.__name__.removeprefix('Any')}"
        )
    return answer


def _plain_card(formulation: Formulation[Any, Any]) -> Card:
    card = formulation.card
    if not isinstance(card, Card):
        raise FormulationError(f"its card is a {type(card).__name__}, expected a Card")
    plain = {"str": str, "bool": bool}
    return Card(
        **{
            entry.name: plain.get(str(entry.type), tuple)(getattr(card, entry.name))
            for entry in fields(Card)
        }
    )


def _plain_columns(model: CompiledModel) -> list[tuple[str, Hashable]]:
    """Return names of columns without types that only the formulation knows; all differ."""
    found: dict[tuple[str, Hashable], None] = {}
    for place, (family, index) in enumerate(model.columns):
        name = (str(family), _plain(index))
        found[name if name not in found else (name[0], (name[1], place))] = None
    return list(found)


def _plain(index: Any) -> Hashable:
    if isinstance(index, tuple):
        return tuple(_plain(part) for part in index)
    return index if index is None or type(index) in (int, str, float, bool) else str(index)


def limit_memory(limit: int | None) -> None:
    """Limit the memory of this process, in bytes, where the system can; ``None`` is no limit."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = hard if limit is None else limit
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> None:
    """Answer questions until no more come."""
    out = os.fdopen(os.dup(1), "wb")
    questions = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # nothing but answers may reach the pipe
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # and nobody else reads the questions
    watch(int(sys.argv[1]))
    load_pyomo()
    for module in AHEAD:
        import_module(module)

    def say(*message: Any) -> None:
        pickle.dump(message, out, protocol=pickle.HIGHEST_PROTOCOL)
        out.flush()

    say("ready")
    worker = FormulationProcess()
    while True:
        try:
            step, limit, *content = pickle.load(questions)
        except EOFError:
            return
        say(*_tried(worker, step, limit, content))


def _leave(code: object) -> NoReturn:
    """End like ``sys.exit``, but at once: threads that go on would keep the process."""
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    sys.stderr.flush()
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def _tried(
    worker: FormulationProcess, step: str, limit: int, content: list[Any]
) -> tuple[Any, ...]:
    """Answer, or say how it went wrong; ``sys.exit`` alone does what it says."""
    try:
        limit_memory(limit)
        answer = worker.answer(step, *content)
        limit_memory(None)
        return ("answer", pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL))
    except SystemExit as asked:
        _leave(asked.code)
    except MemoryError:
        limit_memory(None)
        return ("failed", "memory_limit", "ran out of memory")
    except BaseException as error:  # whatever it is, we are asked to say so
        limit_memory(None)
        if step in {"encode", "decode"} and isinstance(error, FormulationError):
            return ("refused", str(error))
        if step == "import" and isinstance(error, FormulationError):
            return ("failed", "error", f"failed: {error}")
        returned = isinstance(error, InvalidAnswerError)
        return ("failed", "error", str(error) if returned else raised(error, *worker.files))


if __name__ == "__main__":
    main()
