"""Files that a command writes: which may be overwritten, and how failures are handled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import InputError, MilpPlanError

from .exits import Exit, code_of, most_serious

if TYPE_CHECKING:
    from milp_plan.io.files import Document
    from milp_plan.run import Outcome

PICTURES = (".png", ".svg")
LOG_HEAD = b"# log of milp-plan"


class Content(StrEnum):
    """Content of a file; a file is only overwritten by one with the same content."""

    INSTANCE = "an instance"
    PLAN = "a plan"
    RECORD = "a record of a run"
    PICTURE = "a picture"
    MODEL = "a model"
    EXPORT = "an exported plan"
    ADDRESSES = "addresses of a plan"
    TABLE = "a table"
    REPORT = "a report"
    RATES = "rates of training steps"
    LOG = "a log"
    OTHER = "something else"


@dataclass(frozen=True)
class Output:
    """A file that a command is to write: its option, its path, and its content."""

    option: str
    path: Path | None
    content: Content


def refuse(outputs: Iterable[Output], inputs: Iterable[Path] = ()) -> None:
    """Refuse outputs that cannot be written or would destroy other files, before any work is done.

    Raises
    ------
    click.BadParameter
        There is no such folder; or the file is an input, another output, or there already with
        other content.
    """
    read = tuple(inputs)
    taken: list[Output] = []
    for output in outputs:
        if output.path is None:
            continue
        reason = _reason(output, output.path, read, taken)
        if reason is not None:
            raise click.BadParameter(reason, param_hint=f"'{output.option}'")
        taken.append(output)


def _reason(
    output: Output, path: Path, inputs: Iterable[Path], taken: Iterable[Output]
) -> str | None:
    if not path.absolute().parent.is_dir():
        return f"there is no folder {path.parent}"
    if output.content is Content.PICTURE and path.suffix.lower() not in PICTURES:
        return f"{path}: expected a name that ends in .png or .svg"
    if output.content is Content.REPORT and path.suffix.lower() != ".html":
        return f"{path}: expected a name that ends in .html"
    if any(_same(path, entry) for entry in inputs):
        return f"{path} is an input of this command; name another file"
    for other in taken:
        if other.path is not None and _same(path, other.path):
            return f"{path} is the file of {other.option} as well; name another file"
    if not path.exists():
        return None
    if not path.is_file():
        return f"{path} is no regular file; name another file"
    found = content_of(path)
    if found in (None, output.content):
        return None
    return f"{path} exists and holds {found}, not {output.content}; name another file or remove it"


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def content_of(path: Path) -> Content | None:
    """Return what a file contains; ``None`` if it is empty."""
    from milp_plan.io.files import read_document

    if not path.stat().st_size:
        return None
    try:
        document = read_document(path, "a file", text=False)
    except InputError:  # unreadable, or damaged: not ours to replace
        return Content.OTHER
    for content, holds in _SIGNS.items():
        if holds(document):
            return content
    return Content.OTHER


def _is_instance(document: Document) -> bool:
    from milp_plan.run.kinds import formats

    return any(entry.can_read(document) for _, entry in formats())


def _is_plan(document: Document) -> bool:
    from milp_plan.run.kinds import kinds

    return any(kind.is_plan(document) for kind in kinds())


def _is_export(document: Document) -> bool:
    from milp_plan.run.kinds import kinds

    exports = any(e.is_one(document) for kind in kinds() for e in kind.exports().values())
    return exports or _recognised_by_a_kind(Content.EXPORT)(document)


def _recognised_by_a_kind(content: Content) -> Callable[[Document], bool]:
    def holds(document: Document) -> bool:
        from milp_plan.run.kinds import kinds

        return any(kind.other_content(document) == content for kind in kinds())

    return holds


def _starts(*heads: bytes) -> Callable[[Document], bool]:
    return lambda document: document.data.lstrip().startswith(heads)


_SIGNS: dict[Content, Callable[[Document], bool]] = {
    Content.PICTURE: _starts(b"\x89PNG", b"<?xml", b"<svg"),
    Content.INSTANCE: _is_instance,
    Content.ADDRESSES: _recognised_by_a_kind(Content.ADDRESSES),
    Content.PLAN: _is_plan,
    Content.RECORD: lambda document: {"instance", "fingerprint", "stop"} <= set(document.top_level),
    Content.EXPORT: _is_export,
    Content.TABLE: lambda document: (
        "median_gap" in document.top_level or document.data.startswith((b"| instance", b"PAR1"))
    ),
    Content.REPORT: lambda document: (
        document.data.startswith(b"<!DOCTYPE html>")
        and b'<meta name="milp-plan" content="report">' in document.data[:1000]
    ),
    Content.LOG: _starts(LOG_HEAD),
    Content.RATES: _recognised_by_a_kind(Content.RATES),
    Content.MODEL: _starts(b"\\", b"NAME", b"min", b"max"),
}
"""Functions that recognise the content of a file."""


@dataclass
class Writing:
    """The files of one answer: each is written, even if others fail.

    Parameters
    ----------
    files
        Those that were written, by the member of the answer that names them.
    failures
        Those that were not, in words.
    code
        Exit code of the failures.
    """

    files: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    code: Exit = Exit.DONE

    def write(self, member: str, path: Path, write: Callable[[Path], object]) -> None:
        """Write a file."""
        try:
            write(path)
        except OSError as error:
            self._fail(path, error.strerror or str(error), Exit.USAGE)
        except MilpPlanError as error:  # no matplotlib, or nothing to draw
            self._fail(path, str(error), code_of(error))
        else:
            self.files[member] = str(path)

    def _fail(self, path: Path, reason: str, code: Exit) -> None:
        self.failures.append(f"{path}: not written: {reason}")
        self.code = most_serious([self.code, code])


def write_run(
    outcome: Outcome[Any, Any],
    records: Path,
    plan_file: Path | None,
    instance: Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Writing:
    """Write the record of a run and its plan, and the plan to another file if requested.

    The record says where its instance is, seen from its folder, and what was changed as it was
    read, so that it can be read again.
    """
    from milp_plan.io.files import write_document
    from milp_plan.run import record_files
    from milp_plan.run.record import instance_reference

    written = Writing()
    if instance is not None:
        outcome.record.update(instance_reference(instance, changes or {}, records))
    for member, (path, data) in record_files(outcome, records).items():
        written.write(member, path, partial(write_document, data=data))
    if outcome.plan is not None and plan_file is not None:
        text = outcome.kind.plan_text(outcome.plan)
        written.write("plan_file", plan_file, partial(write_document, data=text))
    return written
