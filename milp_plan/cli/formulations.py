"""The formulation a command line names, and its switches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from . import switches


def chosen_switches(reference: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return the typed switches of a formulation.

    Parameters
    ----------
    reference
        Name, or path to a ``.py`` file or a package.
    texts
        ``key=value``, as given.

    Raises
    ------
    click.BadParameter
        There is no formulation of that name, or a switch is wrong.
    FormulationError
        The formulation does not load.
    """
    from milp_plan.models import registry

    if not registry.is_path(reference):
        known = registry.discover()
        if reference not in known:
            names = ", ".join(sorted(known))
            raise click.BadParameter(
                f"there is no {reference!r}; there are: {names}; or name a .py file",
                param_hint="'--formulation'",
            )
    found = registry.get(reference)
    assert found.formulation is not None
    return switches.parse(found.formulation.Options, texts, found.name)
