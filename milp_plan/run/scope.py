"""The scope of a result: what was decided, what was fixed, what was not offered.

A proof holds for its scope only. Every kind defines its scope (:meth:`~.kind.Kind.scope`); this
module adds what a file, a run or a command fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .ledger import Ledger

DECIDED, FIXED = "decided", "fixed"
"""Entries of a problem's provenance with what was decided and what was fixed when the problem was
made, in words (``"the cut into stages 3 | 1"``); several are separated by ``; ``.
"""

CUT, FIXED_CUT = "cut", "the cut {}"
"""Entry of the provenance of a pipeline that was cut into stages, and its text in a scope."""

RECOMPUTATION, HOST, SHARDING = "recomputation", "host", "sharding"
"""Features that some kinds do not offer."""


class NotOffered(NamedTuple):
    """A feature of plans that was not offered, and the command-line option that offers it."""

    what: str
    option: str = ""

    def __str__(self) -> str:
        return f"no {self.what}" + (f" ({self.option})" if self.option else "")


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a result; as text, one line.

    Parameters
    ----------
    decided
        What the plan decides.
    fixed
        What could have been decided and was fixed.
    not_offered
        Features that plans could have used and that were not allowed.
    """

    decided: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    not_offered: tuple[NotOffered, ...] = ()

    def __str__(self) -> str:
        parts = [_listed(self.decided) or "nothing to decide"]
        if self.fixed:
            parts.append(f"fixed: {', '.join(self.fixed)}")
        if self.not_offered:
            parts.append(f"{', '.join(map(str, self.not_offered))} offered")
        return "; ".join(parts)

    def adding(self, decided: Sequence[str] = (), fixed: Sequence[str] = ()) -> Scope:
        """Return the scope with further entries that were decided or fixed, without duplicates."""
        return replace(
            self,
            decided=tuple(dict.fromkeys((*self.decided, *decided))),
            fixed=tuple(dict.fromkeys((*self.fixed, *fixed))),
        )

    def with_options(self, options: Mapping[str, str]) -> Scope:
        """Return the scope with other command-line options for features that were not offered."""
        offers = tuple(
            NotOffered(offer.what, options.get(offer.what, offer.option))
            for offer in self.not_offered
        )
        return replace(self, not_offered=offers)


def scope_of(problem: Any) -> Scope:
    """Return the scope of results of a problem."""
    from .kinds import kind_of

    scope: Scope = kind_of(problem).scope(problem)
    provenance = getattr(problem, "provenance", {})
    scope = scope.adding(_words(provenance, DECIDED), _words(provenance, FIXED))
    notes = {"granularity": "operators of granularity {}", CUT: FIXED_CUT}
    texts = [text.format(provenance[n]) for n, text in notes.items() if n in provenance]
    return scope.adding(fixed=texts)


def scope_of_run(ledger: Ledger[Any, Any]) -> Scope:
    """Return the scope of a run's result: the problem's, with what the run left out."""
    return scope_of(ledger.problem).adding(fixed=tuple(_left_out(ledger)))


def _left_out(ledger: Ledger[Any, Any]) -> Iterator[str]:
    solver = ledger.formulation
    if ledger.settings.only and solver is not None:
        name = solver.found.name
        yield f"plans of the formulation {name} alone"
    coarse = ledger.details.get("coarse_operators")
    if coarse is not None and not ledger.details.get("coarsening_exact", True):
        yield f"searched with {coarse:,} coarse operators (value and bound are of the whole graph)"


def _words(provenance: Mapping[str, str], name: str) -> list[str]:
    return [text for text in provenance.get(name, "").split("; ") if text]


def _listed(words: Sequence[str]) -> str:
    """Join words with commas and a final "and"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
