"""Reasons of resharding: slices, senders, and how busy network cards are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from milp_plan.core import Counts, Verdict
from milp_plan.run.reasons.base import (
    Move,
    Reasons,
    Remedy,
    Resource,
    Task,
    Usage,
    Why,
    chain_of,
    largest_first,
    moves_of,
    used_up,
)

from .problem import ReshardingPlan, ReshardingProblem


class ReshardingReasons(Reasons[ReshardingProblem, ReshardingPlan]):
    """Reasons of :class:`milp_plan.kinds.resharding.problem.ReshardingProblem`."""

    noun, members, place_noun = "slices", "slices", "sender"

    def resources(self, problem: ReshardingProblem) -> tuple[Resource, ...]:
        """Return the rate of each card."""
        return tuple(
            Resource(
                f"link of {card.name}",
                "link",
                card.bytes_per_s,
                Counts.SIZE,
                lifted=False,
                users=(f"{card.name} sends", f"{card.name} receives"),
            )
            for card in problem.cards
        )

    def resized(
        self, problem: ReshardingProblem, amounts: Mapping[str, int | None]
    ) -> ReshardingProblem:
        """Return the problem with faster or slower cards."""
        cards = [
            replace(card, bytes_per_s=amounts.get(f"link of {card.name}") or card.bytes_per_s)
            for card in problem.cards
        ]
        return replace(problem, cards=tuple(cards))

    def places(self, problem: ReshardingProblem, part: str) -> tuple[str, ...]:
        """Return the cards that have the slice."""
        return problem.by_name[part].senders

    def pinned(self, problem: ReshardingProblem, part: str, place: str) -> ReshardingProblem:
        """Return the problem with one sender of a slice."""
        self.require_place(problem, part, place)
        slices = [replace(s, senders=(place,)) if s.name == part else s for s in problem.slices]
        return replace(problem, slices=tuple(slices))

    def why(self, problem: ReshardingProblem, plan: ReshardingPlan, verdict: Verdict) -> Why:
        """Return the chain of deliveries, and how busy the cards are."""
        from .check import ports

        tasks = [
            Task(entry.slice, None, tuple(ports(problem, entry)), entry.start, entry.stop)
            for entry in plan.deliveries
        ]
        chain = chain_of(tasks)
        value = verdict.value or 0
        usage = largest_first(
            Usage(port, "card", ticks, value, Counts.TIME)
            for port, ticks in verdict.components.items()
        )
        spent: Counter[str] = Counter()
        for link in chain:
            rates = {n: problem.rates[n.rpartition(" ")[0]] for n in link.resources}
            slowest = min(rates, key=rates.__getitem__)
            spent[slowest.rpartition(" ")[0]] += link.stop - link.start
        remedies = [
            Remedy(f"a faster card {name}: it sets the pace of deliveries on the chain", ticks)
            for name, ticks in spent.most_common(3)
        ]
        return Why(chain, usage, (), used_up(usage), (), tuple(remedies))

    def moves(
        self,
        problem: ReshardingProblem,  # noqa: ARG002
        before: ReshardingPlan,
        other: ReshardingProblem,  # noqa: ARG002
        after: ReshardingPlan,
    ) -> tuple[Move, ...]:
        """Return slices that another card sends, by both; then those sent at other times."""
        one = {entry.slice: entry for entry in before.deliveries}
        two = {entry.slice: entry for entry in after.deliveries}
        changes: list[tuple[str, tuple[str, str, str]]] = []
        for name in (name for name in one if name in two):
            if one[name].sender != two[name].sender:
                changes.append((name, ("sender", one[name].sender, two[name].sender)))
            elif one[name].start != two[name].start:
                word = "earlier" if two[name].start < one[name].start else "later"
                changes.append((name, ("start", "as planned first", word)))

        def longer(name: str) -> int:
            return two[name].stop - two[name].start - one[name].stop + one[name].start

        return moves_of(changes, lambda names: {"sending": sum(map(longer, names))})
