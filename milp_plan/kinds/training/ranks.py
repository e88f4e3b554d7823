"""Groups of ranks that communicate, on nodes of one size."""

from __future__ import annotations

from dataclasses import dataclass, field

from .collectives import Group
from .configuration import Configuration


@dataclass(frozen=True, slots=True)
class Layout:
    """Groups of ranks of a configuration on nodes of one size."""

    configuration: Configuration
    node_devices: int
    tensor: Group = field(init=False)
    context: Group = field(init=False)
    data: Group = field(init=False)
    expert: Group = field(init=False)
    expert_split: Group = field(init=False)
    expert_data: Group = field(init=False)

    def __post_init__(self) -> None:
        c, node = self.configuration, self.node_devices
        made = {
            "tensor": Group(c.tensor, 1, node),
            "context": Group(c.context, c.tensor, node),
            "data": Group(c.context * c.data, c.tensor, node),
            "expert": Group(c.expert, c.expert_tensor, node),
            "expert_split": Group(c.expert_tensor, 1, node),
            "expert_data": Group(c.expert_data, c.expert * c.expert_tensor, node),
        }
        for name, group in made.items():
            object.__setattr__(self, name, group)
