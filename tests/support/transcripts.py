"""What pages of the documentation show on a terminal, and whether it happens.

In a ``console`` block a line behind ``$`` is a command, the lines below it are what it prints, in
this order, where ``...`` stands for anything; ``$ echo $?`` asks how the last one ended, and where
nobody asks it has to end well. A ``python`` block is run as well. All blocks of a page share one
folder, in which the repository's folders are linked.

Time limits are those of an idle machine. What is shown as proved, or as optimal within a gap, is
given :data:`PATIENCE` times as long here: on a busy machine it ends later, not with less.

A comment in the line before a block says more: ``<!-- file: NAME -->`` writes the block to a file,
``<!-- run: no, WHY -->`` leaves it out.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("examples", "formulations", "instances", "results")

PATIENCE = 10
"""How many times its time limit a command may take that is shown to prove something."""

_LIMIT = re.compile(r"(?<=--time-limit )[\d.]+")

_BLOCK = re.compile(
    r"^(?:<!-- (?P<key>file|run): (?P<word>.*?) -->\n)?```(?P<language>[\w-]*)[^\n]*\n"
    r"(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    file: str | None
    left_out: str | None


@dataclass(frozen=True)
class Command:
    """A line behind ``$``, what is shown below it, and the exit code it should end with."""

    text: str
    shown: tuple[str, ...]
    code: int = 0

    @property
    def patient(self) -> str:
        """The command, with time for what it proves."""
        if not any("proved" in line or "optimal" in line for line in self.shown):
            return self.text
        return _LIMIT.sub(lambda found: f"{PATIENCE * float(found[0]):g}", self.text)


class NotAsShown(AssertionError):
    """A page shows what does not happen."""


def pages() -> list[Path]:
    """Pages for people who use the program."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for pattern in ("docs/*.md", "docs/tutorial/*.md", "examples/*/README.md"):
        found += sorted(ROOT.glob(pattern))
    return found


def blocks(page: Path) -> Iterator[Block]:
    """Blocks of a page, in order."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        word = found["word"]
        file = word if found["key"] == "file" else None
        left_out = word if found["key"] == "run" else None
        yield Block(found["language"], found["text"], file, left_out)


def commands(text: str) -> list[Command]:
    """Commands of a console block."""
    found: list[Command] = []
    for line in text.splitlines():
        if line == "$ echo $?":
            found.append(Command("", ()))
        elif line.startswith("$ "):
            found.append(Command(line[2:], ()))
        elif found and not found[-1].text:  # the code that the shell printed
            found[-2:] = [Command(found[-2].text, found[-2].shown, int(line))]
        else:
            last = found[-1]
            found[-1] = Command(last.text, (*last.shown, line))
    return found


def has_blocks(page: Path) -> bool:
    """Whether a page shows anything that can be run."""
    return any(
        block.language in ("console", "python") and block.left_out is None for block in blocks(page)
    )


def run_page(
    page: Path, folder: Path, change: Callable[[Command], Command | None] = lambda entry: entry
) -> None:
    """Run all blocks of a page in a folder.

    Parameters
    ----------
    page
        Where the blocks are.
    folder
        In which they run.
    change
        Says what is run and held in place of a command; ``None``: nothing.

    Raises
    ------
    NotAsShown
        A command ends or prints otherwise than shown.
    """
    for name in LINKED:
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    names: dict[str, object] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for block in blocks(page):
            if block.file is not None:
                Path(block.file).write_text(block.text, encoding="utf-8")
            elif block.left_out is None and block.language == "console":
                for command in filter(None, map(change, commands(block.text))):
                    _hold(command, *_run(command.patient))
            elif block.left_out is None and block.language == "python":
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block.text, str(page), "exec"), names)


RECORDED = {"gpt2.py:narrow": "instances/captures/gpt2-narrow.capture.json.gz"}
"""Models of pages whose captured graph is in the repository."""
_OUTPUTS = ("-o", "--output", "--plan-output", "--instance-output")


class WithoutTorch:
    """Puts the recorded graph of a model in its place, and leaves out what only PyTorch can do.

    What reads a file that was not made for that reason is left out as well. Of a capture the last
    line is held: those before it tell of the model that is built.
    """

    def __init__(self) -> None:
        self._missing: set[str] = set()

    def __call__(self, command: Command) -> Command | None:
        """Return what is run in place of a command."""
        words = shlex.split(command.text, comments=True)
        made = {new for option, new in pairwise(words) if option in _OUTPUTS}
        verb = words[1]
        if verb == "capture" and words[2] in RECORDED and "--dtype" not in words:
            words[2] = RECORDED[words[2]]
            command = Command(shlex.join(words), command.shown[-1:], command.code)
        elif verb in ("capture", "run", "tensor.json") or self._missing & (set(words) - made):
            self._missing |= made
            return None
        self._missing -= made
        return command


def _run(text: str) -> tuple[int, str]:
    """Run a command; ``milp-plan`` in this process, which saves its start."""
    words = shlex.split(text)
    if words[0] != "milp-plan" or any(word in words for word in ("|", ">", "&&", ";")):
        done = subprocess.run(
            ["bash", "-c", text],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )
        return done.returncode, done.stdout + done.stderr
    from click.testing import CliRunner

    from milp_plan.cli.main import main

    result = CliRunner().invoke(main, words[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def _hold(command: Command, code: int, printed: str) -> None:
    """Compare what was shown with what happened."""
    if code != command.code:
        raise NotAsShown(f"$ {command.text}\nexit code {code}, not {command.code}\n{printed}")
    lines = iter(printed.splitlines())
    for shown in command.shown:
        if shown.strip() == "...":
            continue
        if not any(_matches(shown, line) for line in lines):
            raise NotAsShown(f"$ {command.text}\nnot printed: {shown}\n{printed}")


def _matches(shown: str, printed: str) -> bool:
    """Whether a line is the printed one; widths of columns do not count."""
    shown, printed = " ".join(shown.split()), " ".join(printed.split())
    pattern = ".*".join(re.escape(part.strip()) for part in shown.split("..."))
    return re.fullmatch(pattern, printed) is not None


if __name__ == "__main__":
    run_page(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
