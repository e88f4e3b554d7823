"""Variables, clauses and edges of a problem, written into the arrays of a search."""

from __future__ import annotations

from collections.abc import Iterable

from .state import (
    CLAUSE_LITERALS,
    CLAUSES,
    DECISIONS,
    DEVICES,
    EDGES,
    END,
    LITERALS,
    MOST_CLAUSES,
    OFFSET,
    PRESENT,
    START,
    TICKS,
    State,
    add_edge,
    add_fact,
    new_state,
)

Literal = tuple[int, int]
"""(signed variable, bound)."""

Moment = tuple[int, int]
"""A variable and ticks added to it."""


def yes(variable: int) -> Literal:
    """Return the literal that a decision is 1."""
    return 2 * variable + 1, -1


def no(literal: Literal) -> Literal:
    """Return the negation of a literal."""
    return literal[0] ^ 1, -literal[1] - 1


class Network:
    """The arrays of a search, with room for more variables than there are at first.

    Parameters
    ----------
    variables, edges, slots
        Largest numbers of each.
    units, devices
        Numbers of colocation groups and of devices.
    """

    def __init__(self, variables: int, edges: int, slots: int, units: int, devices: int) -> None:
        sizes = {"variables": variables, "edges": edges, "slots": slots, "units": units}
        self.state: State = new_state(sizes | {"devices": devices, "decisions": variables})
        self.state.n[DEVICES] = devices
        self.variables, self.most, self.most_edges = 0, variables, edges

    @property
    def full(self) -> bool:
        """Whether there is almost no room left."""
        n = self.state.n
        crowded = n[CLAUSES] > 0.9 * MOST_CLAUSES or n[LITERALS] > 0.9 * CLAUSE_LITERALS
        few = self.variables + 1000 > self.most or n[EDGES] + 4000 > self.most_edges
        return bool(few or crowded)

    def number(self, least: int, most: int) -> int:
        """Return a new variable with bounds."""
        variable = self.variables
        self.variables += 1
        self.state.upper[2 * variable], self.state.upper[2 * variable + 1] = most, -least
        return variable

    def implied(self) -> int:
        """Return a new 0-1 variable that is never decided: clauses make it 1 where it matters."""
        return self.number(0, 1)

    def decision(
        self, units: tuple[int, int] = (0, 0), starts: tuple[int, int] | None = None
    ) -> int:
        """Return a new decision, which matters if these units are on one device.

        ``starts`` are the start variables of two tasks; the decision is 1 if the first one runs
        first.
        """
        variable = self.number(0, 1)
        state = self.state
        row = int(state.n[DECISIONS])
        state.decision[0, row] = variable
        state.decision[1, row], state.decision[2, row] = units
        state.n[DECISIONS] += 1
        state.decision[3, row], state.decision[4, row] = starts or (-1, -1)
        state.phase[variable] = -1 if starts else 0
        return variable

    def clause(self, literals: Iterable[Literal]) -> None:
        """Add the clause that one of these literals is true."""
        weakest: dict[int, int] = {}
        for signed, bound in literals:
            weakest[signed] = max(weakest.get(signed, bound), bound)
        if any(
            bound + weakest.get(signed ^ 1, -2 - bound) > -2 for signed, bound in weakest.items()
        ):
            return  # always true
        for i, (signed, bound) in enumerate(weakest.items()):
            self.state.buffer[0, i], self.state.buffer[1, i] = signed, bound
        add_fact(self.state, len(weakest))

    def edge(self, early: Moment, late: Moment, literal: Literal = (-1, 0)) -> None:
        """Add an edge: ``late`` is not before ``early`` where the literal is true."""
        weight = early[1] - late[1]
        add_edge(self.state, (early[0], late[0]), weight, *literal)

    def slots(self, rows: list[list[tuple[int, Moment, int, int]]]) -> None:
        """Write the tasks by device: (start, stop, ticks, decision that puts it there or -1)."""
        state, count = self.state, 0
        for device, row in enumerate(rows):
            for start, stop, ticks, present in row:
                state.slot[START, count], state.slot[TICKS, count] = start, ticks
                state.slot[END, count], state.slot[OFFSET, count] = stop
                state.slot[PRESENT, count] = present
                count += 1
            state.slot_at[device + 1] = count

    def least(self, variable: int) -> int:
        """Return the current lower bound of a variable."""
        return -int(self.state.upper[2 * variable + 1])
