"""Progress of a run: a live line on a terminal or in a notebook, else a log."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from milp_plan.core.amounts import share_text
from milp_plan.core.budget import now
from milp_plan.run import Progress, kind_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SILENCE_S = 10.0
"""Maximum seconds between two lines of a log while the solver reports."""
HASTE_S = 0.2
"""Minimum seconds between two lines of a phase: some searches improve a hundred times a second."""
_REFRESH_PER_S = 4


class Context(Protocol):
    """A display that is started and stopped."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Display(Context, Protocol):
    """A context manager that shows progress."""

    def __call__(self, progress: Progress) -> None:
        """Show a progress report."""
        ...


class Hidden:
    """A context manager that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Refreshed(Hidden):
    """Updates the last lines of a terminal regularly."""

    def __init__(self, console: Console, per_s: int) -> None:
        from rich.live import Live as RichLive

        self._live = RichLive(
            console=console,
            get_renderable=self._render,
            refresh_per_second=per_s,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _text(self) -> str:
        """Return the current content."""
        raise NotImplementedError

    def _render(self) -> RenderableType:
        from rich.text import Text

        return Text(self._text(), no_wrap=True, overflow="ellipsis")


def line(problem: Any, progress: Progress, elapsed_s: float) -> str:
    """Return phase, incumbent, bound, gap and elapsed time in one line."""
    measure = kind_of(problem).measure(problem)
    parts = [
        f"{problem.name}: {progress.phase}",
        f"incumbent {measure.text(progress.incumbent)}",
        f"bound {measure.text(progress.bound)}",
        f"gap {share_text(progress.gap)}",
        f"{elapsed_s:.1f} s",
    ]
    return ", ".join([*parts, progress.note] if progress.note else parts)


class Quiet(Hidden):
    """Shows nothing."""

    def __call__(self, progress: Progress) -> None:
        """Show nothing."""


class Log(Quiet):
    """Writes a line when phase, incumbent or bound change.

    Notes count nodes and rounds: a line for each would drown the news.
    """

    def __init__(self, problem: Any, write: Callable[[str], None]) -> None:
        self._problem, self._write = problem, write
        self._last: tuple[str, int | None, int | None] | None = None
        self._said_s = 0.0

    def __call__(self, progress: Progress) -> None:
        """Write a line if something is new, or after some time."""
        news = (progress.phase, progress.incumbent, progress.bound)
        known = self._last or ("", None, None)
        turn = known[0] != progress.phase or (known[1] is None and progress.incumbent is not None)
        patience_s = SILENCE_S if news == known else HASTE_S
        if not turn and progress.elapsed_s - self._said_s < patience_s:
            return
        self._last, self._said_s = news, progress.elapsed_s
        self._write(line(self._problem, progress, progress.elapsed_s))


class Live(Refreshed):
    """Updates one line of a terminal; its clock also advances between reports."""

    def __init__(self, problem: Any, console: Console) -> None:
        self._problem = problem
        self._progress: Progress | None = None
        self._seen_s = now()
        super().__init__(console, _REFRESH_PER_S)

    def __call__(self, progress: Progress) -> None:
        """Store the report for the next refresh."""
        self._progress, self._seen_s = progress, now()

    def _text(self) -> str:
        if self._progress is None:
            return f"{self._problem.name}: starting"
        elapsed = self._progress.elapsed_s + now() - self._seen_s
        return line(self._problem, self._progress, elapsed)


class Notebook(Quiet):
    """Updates one line under a notebook's cell; it disappears at the end."""

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        self._said_s = -HASTE_S
        self._handle: Any = None

    def __enter__(self) -> Self:
        from IPython.display import display

        first = {"text/plain": f"{self._problem.name}: starting"}
        self._handle = display(first, raw=True, display_id=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.update({"text/plain": ""}, raw=True)

    def __call__(self, progress: Progress) -> None:
        """Show the report, unless another one was shown a moment ago."""
        if now() - self._said_s < HASTE_S:
            return
        self._said_s = now()
        text = line(self._problem, progress, progress.elapsed_s)
        self._handle.update({"text/plain": text}, raw=True)


def in_notebook() -> bool:
    """Return whether this runs in a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def chosen(problem: Any, mode: bool | Literal["auto"], write: Callable[[str], None]) -> Display:
    """Return the display of progress.

    Parameters
    ----------
    problem
        The problem.
    mode
        Whether to show progress; ``"auto"``: only on a terminal or in a notebook.
    write
        Writes a line of a log, where there is neither.
    """
    if mode is False:
        return Quiet()
    if in_notebook():
        return Notebook(problem)
    if mode == "auto" and not sys.stderr.isatty():
        return Quiet()
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    return Live(problem, console) if console.is_terminal else Log(problem, write)


def to_stderr(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
