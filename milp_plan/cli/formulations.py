"""The formulation a command line names, and its switches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from milp_plan.core import FormulationError

from . import switches
from .output import note


def chosen_switches(
    reference: str, texts: Iterable[str], *, without_s: float | None = None
) -> dict[str, Any]:
    """Return the typed switches of a formulation.

    Parameters
    ----------
    reference
        Name, or path to a ``.py`` file or a package.
    texts
        ``key=value``, as given.
    without_s
        Given by a command that can do without the formulation: seconds that loading it may take.
        One that does not load is a note then, and has no switches.

    Raises
    ------
    click.BadParameter
        There is no formulation of that name, or a switch is wrong.
    FormulationError
        The formulation does not load, or there is nothing at that path.
    """
    from milp_plan.models import registry

    try:
        found = registry.find(reference, without_s)
    except FormulationError:
        if registry.is_path(reference):
            raise
        names = ", ".join(sorted(registry.discover()))
        raise click.BadParameter(
            f"there is no {reference!r}; there are: {names}; or name a .py file",
            param_hint="'--formulation'",
        ) from None
    if found.error is not None and without_s is not None and found.formulation is not None:
        note(f"{found.error}; heuristics and bounds go on without it")
        return {}
    found = registry.get(reference)
    assert found.formulation is not None
    return switches.parse(found.formulation.Options, texts, found.name)
