"""What a part of the product changes: runs without it, beside runs with another seed alone.

A variant is an entry of ``study.toml``: its name, the ``options`` of ``milp-plan solve`` that leave
a part out, and a number that is added to the seed. The first one is the product as it is; the one
named ``control`` is the same with other seeds. The study is ``results/ablation/study.toml``:
``milp-plan table results/ablation``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import study

from milp_plan.draw.canvas import new_figure
from milp_plan.draw.style import drawing_style
from milp_plan.report.pages import amount, share

CONTROL = "control"
PERCENTILE = 95
"""Part of the divisions of equal runs, in percent, whose halves differ by less than the noise."""

Row = dict[str, Any]


def measure(case: Mapping[str, Any]) -> Row:
    """Run one variant of the product once."""
    variant = case["variant"]
    asked = {**case, "seed": case["seed"] + variant.get("seed", 0)}
    asked["options"] = variant.get("options", [])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, about = study.solve(study.instance_file(case["file"], folder), asked, folder)
    members = ("value", "check", "wall_s", "stop")
    return {
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
        values.setdefault(row["file"], {}).setdefault(row["variant"]["name"], []).append(row)
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
                "median": amount(round(median(reached)) if reached else None, study.SCALE),
                "values": ", ".join(f"{value / study.SCALE[0]:.4f}" for value in sorted(reached)),
                "shown": {
                    "change": _signed(None if name == base else change), "noise": share(spread),
                    "beyond": "yes" if beyond and name not in (base, CONTROL) else "",
                },
            })  # fmt: skip
    return found


def _signed(number: float | None) -> str:
    return share(number) if number is None else f"{number:+.2%}"


def present(rows: list[Row]) -> Row:
    """Return the rows of the page, and a sentence for each variant."""
    found = changes(rows)
    sentences = []
    for name in dict.fromkeys(entry["variant"] for entry in found if not entry["base"]):
        own = [e for e in found if e["variant"] == name and e["change"] is not None]
        worse = sum(entry["beyond"] and entry["change"] > 0 for entry in own)
        better = sum(entry["beyond"] and entry["change"] < 0 for entry in own)
        middle = _signed(median(entry["change"] for entry in own) if own else None)
        sentence = f"*{name}*: median change {middle}"
        if name != CONTROL:
            sentence += f", worse beyond noise on {worse} of {len(own)}, better on {better}"
        sentences.append(sentence)
    return {
        "changes": found,
        "instances": len({row["file"] for row in rows}),
        "seeds": len({row["seed"] for row in rows}),
        "limit": ", ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in rows})),
        "sentences": "; ".join(sentences),
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
    """Change of the median against the product as it is, with the noise of each instance."""
    found = [entry for entry in changes(rows) if not entry["base"]]
    names = list(dict.fromkeys(entry["row"]["name"] for entry in found))
    variants = list(dict.fromkeys(entry["variant"] for entry in found))
    with drawing_style():
        figure = new_figure(6.5, 0.35 * len(names) + 1.4)
        axes = figure.subplots()
        for entry in found:
            line = -names.index(entry["row"]["name"])
            if entry["noise"] is not None:
                wide = 200 * entry["noise"]
                label = "noise" if entry is found[0] else None
                axes.barh(line, wide, 0.6, -wide / 2, color="0.9", zorder=0, label=label)
        for number, variant in enumerate(variants):
            own = [e for e in found if e["variant"] == variant and e["change"] is not None]
            lines = [-names.index(entry["row"]["name"]) for entry in own]
            axes.plot([100 * e["change"] for e in own], lines, f"C{number}o", label=variant)
        axes.set_yticks([-place for place in range(len(names))], names)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_xlabel("change of the median, % (above 0: worse than the product as it is)")
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return {"changes.png": figure}
