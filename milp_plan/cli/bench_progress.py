"""Progress of ``bench run``: a live table on a terminal, else a line per result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from milp_plan.core.amounts import seconds_text
from milp_plan.core.budget import now
from milp_plan.face.progress import Context, Hidden, Refreshed

from .output import note

if TYPE_CHECKING:
    from rich.console import Console

    from milp_plan.study.driver import SuiteProgress
    from milp_plan.study.store import Record
    from milp_plan.study.tasks import Task

SILENCE_S = 30.0
"""Maximum seconds between two lines of a log."""
_REFRESH_PER_S = 2


class Show(Context, Protocol):
    """A context manager that shows progress."""

    def state(self, state: SuiteProgress) -> None:
        """Show the state of the suite."""
        ...

    def line(self, text: str) -> None:
        """Write a line that stays."""
        ...


def summary(state: SuiteProgress) -> str:
    """Return the state of a suite in one line."""
    elsewhere = [f"{state.elsewhere} with another driver"] if state.elsewhere else []
    parts = [
        f"{state.known + state.done} of {state.total} done",
        f"{len(state.running)} running",
        f"{state.failed} failed",
        f"{state.left} left",
        *elsewhere,
        f"{state.elapsed_s:.0f} s",
    ]
    if state.estimate_s is not None and state.left:
        parts.append(f"about {state.estimate_s:.0f} s to go")
    return ", ".join(parts)


def result_line(task: Task, record: Record) -> str:
    """Return the result of a run in one line."""
    outcome = record["outcome"]
    if outcome is None or record["status"] != "done":
        return f"{task.title}: {record['status']}: {record['error']}"
    if "ticks_per_unit" not in task.about:
        known = [f"{name} {outcome[name]}, " for name in ("value", "bound") if name in outcome]
        return f"{task.title}: {''.join(known)}{seconds_text(record['wall_s'])}"
    value = "no plan"
    if outcome["value"] is not None:
        value = f"{outcome['value'] / task.about['ticks_per_unit']:.8g}"
    elif outcome["infeasible_because"]:
        value = "infeasible"
    gap = "" if outcome["gap"] is None else f", gap {outcome['gap']:.2%}"
    taken = seconds_text(outcome["seconds"])
    return f"{task.title}: {value}{gap}, {outcome['stop']}, {outcome['verdict']}, {taken}"


class Watch:
    """Passes on events of the driver.

    Parameters
    ----------
    show
        Function that shows them.
    news
        Returns messages of the executor.
    """

    def __init__(self, show: Show, news: Callable[[], list[str]]) -> None:
        self._show, self._news = show, news

    def __call__(self, state: SuiteProgress, task: Task | None, record: Record | None) -> None:
        """Show state, result and news."""
        for text in self._news():
            self._show.line(text)
        if task is not None and record is not None:
            self._show.line(result_line(task, record))
        self._show.state(state)


class Quiet(Hidden):
    """Shows nothing."""

    def state(self, state: SuiteProgress) -> None:
        """Show nothing."""

    def line(self, text: str) -> None:
        """Say nothing."""


class Log(Quiet):
    """Writes a line to standard error for each result, and the state from time to time."""

    def __init__(self) -> None:
        self._said_s = now()

    def state(self, state: SuiteProgress) -> None:
        """Write the state from time to time."""
        if now() - self._said_s >= SILENCE_S:
            self.line(summary(state))

    def line(self, text: str) -> None:
        """Write a line."""
        self._said_s = now()
        note(text)


class Live(Refreshed):
    """Updates the last lines of a terminal; results are written above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._state: SuiteProgress | None = None
        super().__init__(console, _REFRESH_PER_S)

    def state(self, state: SuiteProgress) -> None:
        """Store the state for the next refresh."""
        self._state = state

    def line(self, text: str) -> None:
        """Write a line above."""
        self._console.print(text)

    def _text(self) -> str:
        if self._state is None:
            return "starting"
        moment = now()
        running = [
            f"  {title}: {moment - began:.0f} s"
            for title, began in list(self._state.running.items())[:20]
        ]
        return "\n".join([summary(self._state), *running])


def display(*, quiet: bool) -> Show:
    """Return the display of progress: none, on the terminal, or as a log."""
    if quiet:
        return Quiet()
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    return Live(console) if console.is_terminal else Log()
