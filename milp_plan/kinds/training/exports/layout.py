"""Megatron's text of a pipeline layout: ``Et*2|(t*2|)*34,t*3|(t*2|)*3,tL``.

``E`` is the embedding, ``t`` a decoder layer, ``m`` a layer of multi-token prediction, ``L`` the
loss. Stages are divided by bars, in the order of the model; ``x*n`` repeats a layer and ``(...)*n``
what is in parentheses. Commas mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LARGEST = 100_000
"""Characters of a layout without its repetitions, at most."""


def layout_text(layers: Sequence[int], prediction: int = 0) -> str:
    """Write the blocks of each chunk, the embedding first, prediction and loss last."""
    stages = [f"t*{count}" if count > 1 else "t" * count for count in layers]
    stages[0] = f"E{stages[0]}"
    runs: list[list[object]] = []
    for stage in stages[:-1]:
        if runs and runs[-1][0] == stage:
            runs[-1][1] = int(str(runs[-1][1])) + 1
        else:
            runs.append([stage, 1])
    text = "".join(f"({stage}|)*{n}," if n != 1 else f"{stage}|" for stage, n in runs)
    modules = f"m*{prediction}" if prediction > 1 else "m" * prediction
    return f"{text}{stages[-1]}{modules}L"


def read_layout(text: str) -> tuple[int, ...] | str:
    """Return the blocks of each chunk, or say in a few words what is wrong with a layout."""
    if len(text) > LARGEST or any(len(number) > 4 for number in re.findall("[0-9]+", text)):
        return "too long"
    plain = text.replace(",", "").replace(" ", "")
    for repeated in (r"\(([^()]+)\)\*(\d+)", r"([^()|*])\*(\d+)"):
        plain = re.sub(repeated, lambda match: match[1] * int(match[2]), plain)
        if len(plain) > LARGEST:
            return "too long"
    strange = sorted(set(plain) - set("EtmL|"))
    if strange:
        return f"unknown {' '.join(strange)}"
    stages = plain.split("|")
    body = plain.replace("|", "")
    if not re.fullmatch("Et*m*L", body):
        return "expected one E, then every t, then every m, then one L"
    if not stages[0].startswith("E") or not stages[-1].endswith("L") or "m" in "".join(stages[:-1]):
        return "the plan has the embedding on the first chunk, prediction and loss on the last"
    return tuple(stage.count("t") for stage in stages)
