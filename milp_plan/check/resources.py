"""What a transfer holds while it runs, read from docs/laws.md (`Exclusion`)."""

from __future__ import annotations

from milp_plan.core import CommunicationModel

Site = tuple[str, ...]
"""Devices in the order of the process group they form."""


def held_by_transfer(model: CommunicationModel, source: Site, target: Site) -> tuple[str, ...]:
    """Names of channels (``a->b``) or ports (``send a``, ``receive b``), each once."""
    if model is CommunicationModel.DELAY:
        return ()
    if model is CommunicationModel.CHANNEL:
        return tuple(f"{a}->{b}" for a in source for b in target if a != b)
    senders = [a for a in source if any(b != a for b in target)]
    receivers = [b for b in target if any(a != b for a in source)]
    return (*(f"send {a}" for a in senders), *(f"receive {b}" for b in receivers))
