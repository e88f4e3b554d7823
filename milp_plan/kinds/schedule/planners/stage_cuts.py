"""Cutting an order of units into consecutive stages, one per site, balanced and within memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from milp_plan.core import Placement

from .indexed import Indexed, Spot

Placements = dict[str, Placement]


@dataclass(frozen=True, slots=True)
class _Load:
    """What a unit puts on a stage."""

    spots: tuple[Spot, ...]
    work: int
    persists: tuple[tuple[int, str, int], ...]
    kept: int
    working: int


class StageCuts:
    """Cuts of one order of units over one sequence of stages.

    Parameters
    ----------
    view
        The problem.
    units
        Every unit, in the order that is cut.
    sites
        Site of each stage. On a process group, a unit that has no option of that width runs on
        whichever of the group's devices runs it fastest.
    """

    def __init__(self, view: Indexed, units: Sequence[int], sites: Sequence[int]) -> None:
        self._view = view
        self._units = units
        self._sites = sites
        by_site = {site: [self._compile(unit, site) for unit in units] for site in set(sites)}
        self._rows = [by_site[site] for site in sites]
        columns = zip(*self._rows, strict=True)
        self._total = sum(max(load.work if load else 0 for load in loads) for loads in columns)
        self._room = [
            min(
                (limit for d in view.sites[site] if (limit := view.memory[d]) is not None),
                default=None,
            )
            for site in sites
        ]

    def _compile(self, unit: int, site: int) -> _Load | None:
        view = self._view
        sites = set(view.unit_sites[unit])
        inside = [site] if site in sites else [d for d in view.sites[site] if d in sites]
        choices = [view.unit_spots(unit, each) for each in inside]
        if not choices:
            return None
        spots = min(choices, key=lambda spots: sum(spot.duration for spot in spots))
        persists = dict.fromkeys(entry for spot in spots for entry in spot.persists)
        return _Load(
            spots=spots,
            work=sum(spot.duration for spot in spots),
            persists=tuple(persists),
            kept=sum(spot.kept_bytes for spot in spots),
            working=max(spot.working_bytes for spot in spots),
        )

    def __len__(self) -> int:
        return len(self._sites)

    def fill(self, most_work: int | None, kept_share: Fraction) -> Placements | None:
        """Fill stage after stage up to a limit of work and the stage's memory.

        Parameters
        ----------
        most_work
            Ticks per stage; ``None`` for as many as memory allows.
        kept_share
            Which share of everything a stage's operators make and others read counts as held at
            once. At 1 every order of the operators fits into memory, transfers in apart.
        """
        loads = self._fill(most_work, kept_share, len(self._sites))
        return None if loads is None else self._placements(loads)

    def _fill(self, most_work: int | None, kept_share: Fraction, count: int) -> list[_Load] | None:
        result: list[_Load] = []
        part, parts = kept_share.numerator, kept_share.denominator
        stage, work, kept, working, held = 0, 0, 0, 0, 0
        seen: set[tuple[int, str, int]] = set()
        for position in range(len(self._units)):
            while True:
                if stage == count:
                    return None
                load = self._rows[stage][position]
                if load is not None:
                    extra = 0
                    for entry in load.persists:
                        if entry not in seen:
                            extra += entry[2]
                    total = parts * (held + extra + max(working, load.working))
                    total += part * (kept + load.kept)
                    room = self._room[stage]
                    fits = room is None or total <= parts * room
                    if fits and (most_work is None or work + load.work <= most_work):
                        break
                stage, work, kept, working, held = stage + 1, 0, 0, 0, 0
                seen = set()
            if extra:
                seen.update(load.persists)
                held += extra
            work, kept = work + load.work, kept + load.kept
            working = max(working, load.working)
            result.append(load)
        return result

    def balance(self, kept_share: Fraction, count: int | None = None) -> Placements | None:
        """Cut so that the stage with most work has as little as possible, to one part in 64.

        ``count`` takes the first stages only.
        """
        count = len(self._sites) if count is None else count
        best = self._fill(None, kept_share, count)
        if best is None:
            return None
        high, low = self._total, self._total // (64 * count)
        while high - low > max(1, high // 64):
            middle = (low + high) // 2
            result = self._fill(middle, kept_share, count)
            if result is None:
                low = middle
            else:
                best, high = result, middle
        return self._placements(best)

    def _placements(self, loads: Sequence[_Load]) -> Placements:
        names = self._view.names
        return {names[spot.operator]: spot.placement for load in loads for spot in load.spots}
