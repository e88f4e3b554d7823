"""What a part of the product changes: runs without it, beside runs with another seed alone.

A variant is an entry of ``study.toml``: its name, the ``options`` of ``milp-plan solve`` that leave
a part out, or the ``piece`` that :mod:`without` leaves out, and a number that is added to the seed.
The first one is the product as it is; the one named ``control`` is the same with other seeds. The
study is ``results/ablation/study.toml``: ``milp-plan table results/ablation``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import study

from milp_plan.draw.canvas import new_figure, plain_ticks
from milp_plan.draw.style import drawing_style
from milp_plan.report.pages import amount, share

CONTROL = "control"
WITHOUT = Path(__file__).with_name("without.py")

PERCENTILE = 95
"""Part of the divisions of equal runs, in percent, whose halves differ by less than the noise."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Run one variant of the product once."""
    variant = case["variant"]
    asked = {**case, "seed": case["seed"] + variant.get("seed", 0)}
    asked["options"] = variant.get("options", [])
    if "piece" in variant:
        asked["program"] = [sys.executable, WITHOUT, variant["piece"]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, about = study.solve(study.instance_file(case["file"], folder), asked, folder)
    members = ("value", "check", "wall_s", "stop")
    return {
        "proved": found["value"] is not None and found["value"] == about["bound"],
        **{member: about[member] for member in ("name", "operators", "devices", "bound")},
        **{member: found[member] for member in members},
    }


# -- the page -------------------------------------------------------------------------------------


def noise(values: Sequence[int]) -> float:
    """Return what chance does to a change of medians, as a part of the median of all values.

    Of the divisions of equal runs into halves, 95 % have medians that differ by at most so much.
    """
    half, everywhere = len(values) // 2, range(len(values))
    if half < 1:
        return 0.0
    apart = []
    for chosen in combinations(everywhere, half):
        rest = [values[place] for place in everywhere if place not in chosen]
        apart.append(abs(median(values[place] for place in chosen) - median(rest)))
    few = apart * 2 if len(apart) < 2 else apart
    return float(quantiles(few, n=100, method="inclusive")[PERCENTILE - 1] / median(values))


def changes(rows: list[Row]) -> list[Row]:
    """Return a row for each instance and variant: medians, the change, and what chance does."""
    values: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        values.setdefault(_problem(row), {}).setdefault(row["variant"]["name"], []).append(row)
    found = []
    for variants in values.values():
        base = next(iter(variants))
        equal = [row["value"] for name in (base, CONTROL) for row in variants.get(name, [])]
        planned = [value for value in equal if value is not None]
        for name, own in variants.items():
            reached = [row["value"] for row in own if row["value"] is not None]
            first = [row["value"] for row in variants[base] if row["value"] is not None]
            change = median(reached) / median(first) - 1 if reached and first else None
            spread = noise(planned) if planned else None
            beyond = None not in (change, spread) and abs(change or 0) > (spread or 0)
            found.append({
                "row": own[0], "variant": name, "base": name == base, "change": change,
                "noise": spread, "beyond": beyond and name not in (base, CONTROL),
                "without_plan": len(own) - len(reached),
                "proved": sum(row["proved"] for row in own),
                "seconds": median(row["wall_s"] for row in own),
                "median": amount(round(median(reached)) if reached else None, study.SCALE),
                "values": ", ".join(f"{value / study.SCALE[0]:.4f}" for value in sorted(reached)),
                "shown": {
                    "change": _signed(None if name == base else change), "noise": share(spread),
                    "beyond": "yes" if beyond and name not in (base, CONTROL) else "",
                },
            })  # fmt: skip
    return found


def _problem(row: Row) -> str:
    """Return the file of a row with its limit, which all of its variants share."""
    return f"{row['file']} {row['limit']}"


def _signed(number: float | None) -> str:
    return share(number) if number is None else f"{number:+.2%}"


def pieces(found: list[Row]) -> list[Row]:
    """Return a row for each variant but the first: where it is worse, and by how much."""
    base = {_problem(entry["row"]): entry for entry in found if entry["base"]}
    rows = []
    for name in dict.fromkeys(entry["variant"] for entry in found if not entry["base"]):
        own = [entry for entry in found if entry["variant"] == name]
        compared = [entry for entry in own if entry["change"] is not None]
        most = max(compared, key=lambda entry: entry["change"], default=None)
        pairs = [(entry, base[_problem(entry["row"])]) for entry in own]
        rows.append({
            "variant": name, "problems": len(own),
            "worse": sum(entry["beyond"] and entry["change"] > 0 for entry in compared),
            "better": sum(entry["beyond"] and entry["change"] < 0 for entry in compared),
            "middle": _signed(median(e["change"] for e in compared) if compared else None),
            "most": _signed(most["change"] if most else None),
            "where": most["row"]["name"] if most else "",
            "plans_lost": sum(one["without_plan"] - other["without_plan"] for one, other in pairs),
            "proofs_lost": sum(other["proved"] - one["proved"] for one, other in pairs),
        })  # fmt: skip
    return rows


def present(rows: list[Row]) -> Row:
    """Return the rows of both tables, and what was run."""
    found = changes(rows)
    return {
        "changes": found,
        "pieces": pieces(found),
        "instances": len({_problem(row) for row in rows}),
        "limit": ", ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in rows})),
    }


def complaints(rows: list[Row]) -> list[str]:
    """Plans that fail the check, and runs beyond their limit."""
    messages = []
    for row in rows:
        where = f"{row['name']}, {row['variant']['name']}, seed {row['seed']}"
        if row["check"] not in ("ok", "no plan"):
            messages.append(f"{where}: its plan is {row['check']}")
        if row["wall_s"] > row["limit"] + study.LEEWAY_S:
            messages.append(f"{where}: took {row['wall_s']} s")
    return messages


def figures(rows: list[Row]) -> dict[str, Any]:
    """Change of each problem's median without a piece; those beyond noise are filled."""
    found = [entry for entry in changes(rows) if not entry["base"] and entry["change"] is not None]
    variants = list(dict.fromkeys(entry["variant"] for entry in found))
    with drawing_style():
        figure = new_figure(6.5, 0.28 * len(variants) + 1.2)
        axes = figure.subplots()
        for beyond, face, label in ((False, "none", "within noise"), (True, "C0", "beyond noise")):
            own = [entry for entry in found if entry["beyond"] is beyond]
            lines = [-variants.index(entry["variant"]) for entry in own]
            changed = [100 * entry["change"] for entry in own]
            axes.scatter(changed, lines, s=18, facecolors=face, edgecolors="C0", label=label)
        axes.set_yticks([-place for place in range(len(variants))], variants)
        axes.set_xscale("symlog", linthresh=1.0)
        plain_ticks(axes.xaxis)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_xlabel("change of the median, % (above 0: worse without the piece)")
        figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return {"changes.png": figure}
