"""Base class of problems that check themselves when they are made and hash their content."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from .errors import Finding, InputError
from .exactness import exactness_findings
from .shown import Shown


class CheckedProblem(Shown, ABC):
    """A dataclass of exact numbers; its constructor raises ``InputError`` with all findings."""

    def __post_init__(self) -> None:
        inexact = (f for where, part in self._parts() for f in exactness_findings(where, part))
        findings = list(inexact) or list(self._findings())
        if findings:
            raise InputError(findings)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that changes the problem."""
        return _hashed(self._content())

    @cached_property
    def parent(self) -> str | None:
        """SHA-256 of what variants share: everything but objective and limits.

        ``None`` where there are no variants. A plan of one variant may be checked on another
        (docs/laws.md, *Identity and claims*).
        """
        shared = self._shared()
        return None if shared is None else _hashed(shared)

    @abstractmethod
    def _parts(self) -> Iterator[tuple[str, Any]]:
        """Yield dataclasses whose numbers must be exact, each with its name."""

    @abstractmethod
    def _findings(self) -> Iterator[Finding]:
        """Yield the defects of a problem whose numbers are exact."""

    @abstractmethod
    def _content(self) -> object:
        """Return everything on which plans depend; its ``repr`` depends on nothing else."""

    def _shared(self) -> object | None:
        """Return the part of the content that does not depend on objective and limits."""
        return None


def _hashed(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()
