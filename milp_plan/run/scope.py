"""What an answer is about: what was decided, what was fixed, what was not offered.

A proof is a proof about the question that was asked. Every kind says its scope once
(:meth:`~.kind.Kind.scope`); what a file, a run or a command adds is added here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .ledger import Ledger

DECIDED, FIXED = "decided", "fixed"
"""Entries of a problem's provenance in which whoever made it says, in words, what was decided and
what was fixed on the way to it (``"the cut into stages 3 | 1"``); several are separated by ``; ``.
"""

CUT, FIXED_CUT = "cut", "the cut {}"
"""Entry of the provenance of a pipeline that was cut into stages, and how a scope says it."""

RECOMPUTATION, HOST, SHARDING = "recomputation", "host", "sharding"
"""Things that kinds offer, or not."""


class Offer(NamedTuple):
    """Something that a plan might do and that was not offered; the option that offers it."""

    what: str
    option: str = ""

    def __str__(self) -> str:
        return f"no {self.what}" + (f" ({self.option})" if self.option else "")


@dataclass(frozen=True, slots=True)
class Scope:
    """What an answer is about; as text, one line.

    Parameters
    ----------
    decided
        What the plan decides.
    fixed
        What might have been decided, and was given.
    not_offered
        What plans might do and were not allowed to.
    """

    decided: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    not_offered: tuple[Offer, ...] = ()

    def __str__(self) -> str:
        parts = [_listed(self.decided) or "nothing to decide"]
        if self.fixed:
            parts.append(f"fixed: {', '.join(self.fixed)}")
        if self.not_offered:
            parts.append(f"{', '.join(map(str, self.not_offered))} offered")
        return "; ".join(parts)

    def adding(self, decided: Sequence[str] = (), fixed: Sequence[str] = ()) -> Scope:
        """Return the scope with more that was decided or fixed; nothing is named twice."""
        return replace(
            self,
            decided=tuple(dict.fromkeys((*self.decided, *decided))),
            fixed=tuple(dict.fromkeys((*self.fixed, *fixed))),
        )

    def with_options(self, options: Mapping[str, str]) -> Scope:
        """Return the scope with other options for what was not offered, by what that is."""
        offers = tuple(
            Offer(offer.what, options.get(offer.what, offer.option)) for offer in self.not_offered
        )
        return replace(self, not_offered=offers)


def scope_of(problem: Any) -> Scope:
    """Return the scope of every answer about a problem."""
    from .kinds import kind_of

    found: Scope = kind_of(problem).scope(problem)
    told = getattr(problem, "provenance", {})
    found = found.adding(_words(told, DECIDED), _words(told, FIXED))
    notes = {"granularity": "operators of granularity {}", CUT: FIXED_CUT}
    return found.adding(fixed=[text.format(told[n]) for n, text in notes.items() if n in told])


def scope_of_run(ledger: Ledger[Any, Any]) -> Scope:
    """Return the scope of a run's answer: the problem's, and what the run left out."""
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
    """List words as a sentence does."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
