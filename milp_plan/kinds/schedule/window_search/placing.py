"""Placement columns of a window's model."""

from __future__ import annotations

from ..planners.indexed import Spot
from .rows import ONE, Rows
from .scope import Edge, Scope


class Placing:
    """One placement for each free operator, one site for each free colocation group.

    Parameters
    ----------
    rows
        The model that gets the columns.
    scope
        The window.

    Attributes
    ----------
    places
        Free operator -> placement -> its column; :data:`~.rows.ONE` where it is certain.
    """

    def __init__(self, rows: Rows, scope: Scope) -> None:
        self.rows, self.scope, self.view = rows, scope, scope.view
        self.places: dict[int, dict[Spot, int]] = {}
        self._deciders: dict[int, tuple[int, ...]] = {}
        self._flows: dict[tuple[int, int], int] = {}
        self._place()
        for edge in scope.edges:
            self._flow(edge)

    def _place(self) -> None:
        """Add one placement per free operator and one site per free group."""
        rows, view, scope = self.rows, self.view, self.scope
        for unit in dict.fromkeys(view.unit[op] for op in scope.free):
            members = [op for op in view.units[unit] if op in scope.spots]
            sites = list(dict.fromkeys(s.site for op in members for s in scope.spots[op]))
            columns: dict[int, int] = {}
            if len(sites) > 1:
                columns = {site: rows.bit("site") for site in sites}
                rows.row("place", 1.0, 1.0, (1.0, dict.fromkeys(columns.values(), 1.0)))
            for operator in members:
                self._options(operator, columns)

    def _options(self, operator: int, sites: dict[int, int]) -> None:
        rows, spots = self.rows, self.scope.spots[operator]
        if len(spots) == 1:
            self.places[operator] = {spots[0]: ONE}
        elif len(spots) == len({spot.site for spot in spots}):
            self.places[operator] = {spot: sites[spot.site] for spot in spots}
        else:
            own = {spot: rows.bit("option") for spot in spots}
            self.places[operator] = own
            for site in {spot.site for spot in spots}:
                here = {own[spot]: 1.0 for spot in spots if spot.site == site}
                where = {sites[site] if sites else ONE: 1.0}
                rows.row("place", 0.0, 0.0, (1.0, here), (-1.0, where))
        self._deciders[operator] = tuple(dict.fromkeys(self.places[operator].values()))

    def column(self, operator: int, spot: Spot) -> int:
        """Return the column of a placement; :data:`ONE` where it is certain."""
        table = self.places.get(operator)
        return ONE if table is None else table[spot]

    def both(self, edge: Edge, made: Spot, read: Spot) -> int:
        """Return the column that is 1 where maker and reader of a value have these placements."""
        one, other = self.column(edge.maker, made), self.column(edge.reader, read)
        if one in (ONE, other):
            return other
        return one if other == ONE else self._flows[one, other]

    def _flow(self, edge: Edge) -> None:
        """Add columns for pairs of placements of two free units."""
        if edge.maker not in self.places or edge.reader not in self.places:
            return
        ones, others = self._deciders[edge.maker], self._deciders[edge.reader]
        if ones == others or len(ones) == 1 or len(others) == 1:
            return
        flows, rows = self._flows, self.rows
        if (ones[0], others[0]) not in flows:
            for one in ones:
                for other in others:
                    flows[one, other] = rows.column("flow", 0.0, 1.0)
                    flows[other, one] = flows[one, other]
            for mine, theirs in ((ones, others), (others, ones)):
                for one in mine:
                    row = {flows[one, other]: 1.0 for other in theirs}
                    rows.row("flow", 0.0, 0.0, (1.0, row), (-1.0, {one: 1.0}))
        pairs = {
            (self.column(edge.maker, made), self.column(edge.reader, read))
            for made, read in edge.legs
        }
        for one in ones:
            for other in others:
                if (one, other) not in pairs:
                    rows.high[flows[one, other]] = 0.0
