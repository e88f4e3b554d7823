"""Wire types of stage files: which modules of a captured model each stage of a pipeline runs.

Class names and first lines go into the published schema
(``instances/formats/torch-stages.schema.json``); the fields are described in
``instances/formats/torch-stages.md``.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .wire import Count, Strict

MARKER = "milp-plan-torch-stages"

Path = Annotated[str, msgspec.Meta(min_length=1)]
"""Of a module, as in ``module.get_submodule(path)``."""


class TorchStage(Strict):
    """Modules that one stage runs, and what a micro-batch takes there."""

    modules: Annotated[list[Path], msgspec.Meta(min_length=1)]
    forward: Count
    backward: Count
    weight: Count
    held: Count
    gradient: Count
    receives: Count
    workspace: Count
    parameters: Count
    gradients: Count
    state: Count


class TorchStages(Strict):
    """Stages of a captured model, in the order of the forward pass."""

    format: Literal["milp-plan-torch-stages"]
    version: Literal[1]
    problem: str
    graph: str
    torch: str
    transfer: Count
    stages: Annotated[list[TorchStage], msgspec.Meta(min_length=1)]
    memory: Count | None = None
