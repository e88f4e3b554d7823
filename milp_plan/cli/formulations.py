"""The formulation a command line names, and its options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from milp_plan.core import FormulationError, InputError


def chosen_switches(
    reference: str, texts: Iterable[str], limit_s: float | None = None, *, needed: bool = True
) -> dict[str, Any]:
    """Return the typed options of a formulation.

    Parameters
    ----------
    reference
        Name, or path to a ``.py`` file or a package.
    texts
        ``key=value``, as given; a later one of the same key counts.
    limit_s
        Seconds that loading it may take.
    needed
        ``False`` for a command that can do without the formulation: one that does not load has no
        options then; the run says why.

    Raises
    ------
    click.BadParameter
        There is no formulation of that name, or an option is wrong.
    FormulationError
        The formulation does not load, or there is nothing at that path.
    """
    from milp_plan.models import registry
    from milp_plan.models.options import typed

    try:
        found = registry.find(reference, limit_s)
    except FormulationError as error:
        if registry.is_path(reference):
            raise
        raise click.BadParameter(str(error), param_hint="'--formulation'") from None
    if found.error is not None and not needed and found.formulation is not None:
        return {}
    found = registry.get(reference)
    assert found.formulation is not None
    try:
        return typed(found.formulation.Options, _split(texts), found.name)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="'--option'") from None


def _split(texts: Iterable[str]) -> dict[str, str]:
    chosen = {}
    for text in texts:
        key, equals, word = text.partition("=")
        if not equals:
            raise click.BadParameter(f"found {text!r}, expected key=value", param_hint="'--option'")
        chosen[key] = word
    return chosen
