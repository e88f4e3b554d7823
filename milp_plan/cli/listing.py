"""``list``: shows kinds, formulations, planners, formats, architectures and clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

import click

from milp_plan.core.amounts import DASH

from .output import say, say_json, say_table

Row = dict[str, Any]


def formulations() -> list[Row]:
    """Return formulations by name, with the error of those that do not load."""
    from milp_plan.models.registry import discover

    rows = []
    for name, found in sorted(discover().items()):
        loaded = None if found.error is not None else found.formulation
        card = None if loaded is None else loaded.card
        rows.append(
            {
                "name": name,
                "title": None if card is None else card.title,
                "objectives": [] if card is None else [entry.value for entry in card.objectives],
                "exact": None if card is None else card.exact,
                "source": None if card is None else card.source,
                "options": _options(loaded),
                "file": _short(found.reference),
                "error": found.error,
            }
        )
    return rows


def _options(formulation: Any) -> list[Row]:
    """Return the switches of a formulation that loaded."""
    if formulation is None or not is_dataclass(formulation.Options):
        return []
    return [
        {"name": entry.name, "default": _default(entry), "help": entry.metadata.get("help", "")}
        for entry in fields(formulation.Options)
    ]


def _default(entry: Field[Any]) -> Any:
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return None if entry.default is MISSING else entry.default


def _short(reference: str) -> str:
    """Return a path relative to the current folder, if it is inside."""
    path = Path(reference)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else reference


def planners() -> list[Row]:
    """Return heuristics by name: those for any problem, then the schedules of pipelines."""
    from milp_plan.kinds.pipeline.experts import EXPERTS
    from milp_plan.kinds.schedule.planners.baselines import PLANNERS

    return [
        {"name": name, "title": (planner.__doc__ or "").strip().splitlines()[0].rstrip(".")}
        for name, planner in (PLANNERS | EXPERTS).items()
    ]


def formats() -> list[Row]:
    """Return instance formats in the order they are tried, then that of clusters."""
    from milp_plan.io import cluster_file
    from milp_plan.run.kinds import formats as known

    title = cluster_file.TITLE
    own = {"name": "cluster", "kind": None, "title": title, "read": True, "written": True}
    return [
        {
            "name": entry.name,
            "kind": kind.name,
            "title": entry.title,
            "read": True,
            "written": entry.write is not None,
        }
        for kind, entry in known()
    ] + [own]


def kinds() -> list[Row]:
    """Return kinds of problems."""
    from milp_plan.run.kinds import kinds as known

    return [{"name": kind.name, "title": kind.title} for kind in known()]


def architectures() -> list[Row]:
    """Return architectures that ``generate`` knows."""
    from milp_plan.zoo import ARCHITECTURES

    return [
        {"name": name, "family": entry.family, "granularities": list(entry.granularities)}
        for name, entry in ARCHITECTURES.items()
    ]


def models() -> list[Row]:
    """Return models that ``train`` and ``serve`` know by name."""
    from milp_plan.run.kinds import kinds as known

    return [row for kind in known() for row in kind.models()]


def clusters() -> list[Row]:
    """Return device classes of which ``generate`` builds clusters, such as 2xH100+2xA100."""
    from milp_plan.cost.devices import DEVICES

    return [
        {
            "name": spec.name,
            "peak_flops_per_s": spec.peak_flops_per_s,
            "memory_bytes": spec.memory_bytes,
            "memory_bytes_per_s": spec.memory_bytes_per_s,
            "link": spec.link,
            "network": spec.network,
            "source": spec.source,
        }
        for spec in DEVICES.values()
    ]


LISTS: dict[str, Callable[[], list[Row]]] = {
    "kinds": kinds,
    "formulations": formulations,
    "planners": planners,
    "formats": formats,
    "architectures": architectures,
    "models": models,
    "clusters": clusters,
}
"""Lists by name."""


@click.command("list")
@click.argument("what", type=click.Choice(list(LISTS)), required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_(what: str | None, as_json: bool) -> None:
    """List kinds, formulations, planners, formats, architectures, models or clusters.

    All of them by default. ``generate`` makes graphs of architectures; ``train`` and ``serve`` know
    models.
    """
    chosen = {name: make() for name, make in LISTS.items() if what in (None, name)}
    if as_json:
        say_json(chosen, pretty=True)
        return
    for name, rows in chosen.items():
        if not rows:
            say(f"{name}: none")
            continue
        shown = [
            key for key in rows[0] if key != "options" and any(_known(row[key]) for row in rows)
        ]
        numeric = [place for place, key in enumerate(shown) if _is_number(rows[0][key])]
        texts = [[_text(row[key]) for key in shown] for row in rows]
        say_table([key.replace("_", " ") for key in shown], texts, title=name, numeric=numeric)
        if name == "formulations":
            switches = [
                [f"{row['name']}: {entry['name']}={entry['default']}", entry["help"]]
                for row in rows
                for entry in row["options"]
            ]
            say_table(["--option", "says"], switches)


def _known(entry: Any) -> bool:
    return entry is not None and entry != []


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int) and not isinstance(entry, bool)


def _text(entry: Any) -> str:
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if _is_number(entry):
        return f"{entry:,}"
    if isinstance(entry, list):
        return ", ".join(entry) or DASH
    return DASH if entry is None else str(entry)
