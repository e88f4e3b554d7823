"""Rule `colocation`: operators of one group run on the same site, each time they run."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import Violation

from .facts import Site
from .reading import Reading

RULE = "colocation"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield one violation per group that is split."""
    for group, members in reading.facts.problem.graph.groups.items():
        sites: dict[Site, list[str]] = {}
        for name in members:
            for site in dict.fromkeys(run.site for run in reading.runs_of.get(name, ())):
                sites.setdefault(site, []).append(name)
        if len(sites) > 1:
            parts = "; ".join(
                f"{'+'.join(site)}: {', '.join(names)}" for site, names in sites.items()
            )
            subjects = (group, *(name for names in sites.values() for name in names))
            yield Violation(RULE, subjects, f"group {group!r} is split: {parts}", 1, len(sites))
