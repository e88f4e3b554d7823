"""What a run says while it goes on: one live line on a terminal, else a line when there is news."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from milp_plan.core.amounts import share_text
from milp_plan.core.budget import now

from .output import note

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from milp_plan.run import Progress

SILENCE_S = 10.0
"""In a log, a line is written at least this often while the solver reports."""
HASTE_S = 0.2
"""And news of the same phase at most this often: some searches improve a hundred times a second."""
_REFRESH_PER_S = 4


class Display(Protocol):
    """A context in which progress is shown."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def __call__(self, progress: Progress) -> None:
        """Show what is new."""
        ...


def line(problem: Any, progress: Progress, elapsed_s: float) -> str:
    """Write phase, incumbent, bound, gap and elapsed time in one line."""
    from milp_plan.run import kind_of

    measure = kind_of(problem).measure(problem)
    parts = [
        f"{problem.name}: {progress.phase}",
        f"incumbent {measure.text(progress.incumbent)}",
        f"bound {measure.text(progress.bound)}",
        f"gap {share_text(progress.gap)}",
        f"{elapsed_s:.1f} s",
    ]
    return ", ".join([*parts, progress.note] if progress.note else parts)


class Quiet:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, progress: Progress) -> None:
        """Show nothing."""


class Log(Quiet):
    """Writes a line to standard error when phase, incumbent or bound change.

    Notes count nodes and rounds: a line for each would drown the news.
    """

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        self._last: tuple[str, int | None, int | None] | None = None
        self._said_s = 0.0

    def __call__(self, progress: Progress) -> None:
        """Write the line if it says something new, or after a while."""
        news = (progress.phase, progress.incumbent, progress.bound)
        known = self._last or ("", None, None)
        turn = known[0] != progress.phase or (known[1] is None and progress.incumbent is not None)
        patience_s = SILENCE_S if news == known else HASTE_S
        if not turn and progress.elapsed_s - self._said_s < patience_s:
            return
        self._last, self._said_s = news, progress.elapsed_s
        note(line(self._problem, progress, progress.elapsed_s))


class Live(Quiet):
    """Keeps one line of a terminal up to date; its clock runs on between reports."""

    def __init__(self, problem: Any, console: Console) -> None:
        from rich.live import Live as RichLive

        self._problem = problem
        self._progress: Progress | None = None
        self._seen_s = now()
        self._live = RichLive(
            console=console,
            get_renderable=self._render,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Keep what was said for the next refresh."""
        self._progress, self._seen_s = progress, now()

    def _render(self) -> RenderableType:
        from rich.text import Text

        if self._progress is None:
            return Text(f"{self._problem.name}: starting")
        elapsed = self._progress.elapsed_s + now() - self._seen_s
        text = line(self._problem, self._progress, elapsed)
        return Text(text, no_wrap=True, overflow="ellipsis")


def display(problem: Any, *, quiet: bool) -> Display:
    """Choose how progress is shown: not at all, on the terminal, or as a log."""
    if quiet:
        return Quiet()
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    return Live(problem, console) if console.is_terminal else Log(problem)
