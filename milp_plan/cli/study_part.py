"""The requested cases of a study, and the stored results of a table."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from milp_plan.core import Finding, InputError

Case = dict[str, Any]


class Part(NamedTuple):
    """Some cases of a study.

    Parameters
    ----------
    only
        ``MEMBER=PATTERN``, each of which a case must be like; patterns as in a shell.
    first
        Maximum number of cases.
    """

    only: tuple[str, ...] = ()
    first: int | None = None

    @property
    def named(self) -> bool:
        """Whether cases were named."""
        return bool(self.only) or self.first is not None

    @property
    def options(self) -> str:
        """The command-line options for these cases, with a space before each."""
        words = [word for each in self.only for word in ("--only", shlex.quote(each))]
        words += [] if self.first is None else ["--first", str(self.first)]
        return "".join(f" {word}" for word in words)

    def of(self, cases: Sequence[Case]) -> list[Case]:
        """Return the requested cases, in order.

        Raises
        ------
        InputError
            A pattern is none, names a member that no case has, or no case is like all of them.
        """
        chosen = list(cases)
        for each in self.only:
            member, sign, pattern = each.partition("=")
            if not sign or not any(member in case for case in cases):
                known = ", ".join(dict.fromkeys(name for case in cases for name in case))
                raise InputError(
                    [
                        Finding(
                            "--only", repr(each), f"MEMBER=PATTERN, a member of {known}", "name one"
                        )
                    ]
                )
            chosen = [case for case in chosen if fnmatchcase(str(case.get(member)), pattern)]
        if not chosen:
            found = " and ".join(map(repr, self.only))
            remedy = "widen the patterns; * stands for anything"
            raise InputError([Finding("--only", found, "patterns of at least one case", remedy)])
        return chosen[: self.first]


def stored_results(path: Path, members: Sequence[str] = ()) -> Any:
    """Read the results of a table: rows, or an object with ``rows`` and other members.

    Raises
    ------
    InputError
        The file has other content.
    """
    from milp_plan.io.files import read_document

    data = read_document(path, "results of a table").data
    try:
        content = json.loads(data)
        rows = [dict(row) for row in (content["rows"] if members else content)]
        missing = [name for name in members if name not in content]
        if missing:
            raise KeyError(missing[0])
        return content if members else rows
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise other_results(path, f"other content ({error})") from None


def other_results(path: Path, found: str) -> InputError:
    """Return the error of results that are not those of the table."""
    remedy = "run it without --render"
    return InputError([Finding("results", found, "one per case", remedy, str(path))])
