"""Cutting an order of units into consecutive stages, one per site, balanced and within memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from milp_plan.core import Placement

from .indexed import Indexed, Spot


@dataclass(frozen=True)
class _Load:
    """What a unit puts on a stage."""

    spots: tuple[Spot, ...]
    work: int
    persists: tuple[tuple[int, str, int], ...]
    kept: int
    working: int


class Stages:
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
        self._loads: dict[tuple[int, int], _Load | None] = {}
        self._room = [
            min(
                (limit for d in view.sites[site] if (limit := view.memory[d]) is not None),
                default=None,
            )
            for site in sites
        ]

    def _load(self, unit: int, site: int) -> _Load | None:
        key = (unit, site)
        if key not in self._loads:
            self._loads[key] = self._compile(unit, site)
        return self._loads[key]

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

    def fill(self, most_work: int | None, kept_share: Fraction) -> dict[str, Placement] | None:
        """Fill stage after stage up to a limit of work and the stage's memory.

        Parameters
        ----------
        most_work
            Ticks per stage; ``None`` for as many as memory allows.
        kept_share
            Which share of everything a stage's operators make and others read counts as held at
            once. At 1 every order of the operators fits into memory, transfers in apart.
        """
        placements: dict[str, Placement] = {}
        part, parts = kept_share.numerator, kept_share.denominator
        stage, work, kept, working, held = 0, 0, 0, 0, 0
        seen: set[tuple[int, str, int]] = set()
        names = self._view.names
        for unit in self._units:
            while True:
                if stage == len(self._sites):
                    return None
                load = self._load(unit, self._sites[stage])
                if load is not None:
                    new = [entry for entry in load.persists if entry not in seen]
                    extra = sum(amount for _, _, amount in new)
                    total = parts * (held + extra + max(working, load.working))
                    total += part * (kept + load.kept)
                    room = self._room[stage]
                    fits = room is None or total <= parts * room
                    if fits and (most_work is None or work + load.work <= most_work):
                        break
                stage, work, kept, working, held = stage + 1, 0, 0, 0, 0
                seen = set()
            seen.update(new)
            held, work, kept = held + extra, work + load.work, kept + load.kept
            working = max(working, load.working)
            placements.update((names[spot.operator], spot.placement) for spot in load.spots)
        return placements

    def balance(self, kept_share: Fraction, tolerance: int = 64) -> dict[str, Placement] | None:
        """Cut so that the stage with most work has as little as possible, to 1/``tolerance``."""
        best = self.fill(None, kept_share)
        if best is None:
            return None
        high = sum(self._largest_work(unit) for unit in self._units)
        low = 0
        while high - low > max(1, high // tolerance):
            middle = (low + high) // 2
            found = self.fill(middle, kept_share)
            if found is None:
                low = middle
            else:
                best, high = found, middle
        return best

    def _largest_work(self, unit: int) -> int:
        loads = (self._load(unit, site) for site in self._sites)
        return max((load.work for load in loads if load is not None), default=0)
