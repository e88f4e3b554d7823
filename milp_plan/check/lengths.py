"""Lengths of transfers by docs/laws.md (`Transfer time`)."""

from __future__ import annotations

from milp_plan.core import FULL, Cluster, Value

from .facts import Site


def transfer_ticks(
    cluster: Cluster, value: Value, made: tuple[Site, str], source: Site, copy: tuple[Site, str]
) -> int | None:
    """Return the ticks of a transfer of a value made on a site in a layout, to a copy.

    Returns ``None`` where the law allows no such transfer. ``source`` counts for a send only; a
    reshard always leaves from the whole site.
    """
    (site, native), (target, layout) = made, copy
    if native == layout == FULL:
        if len(source) != 1 or len(target) != 1:
            return None
        return _over_channel(cluster, value, layout, source[0], target[0])
    change = 0 if native == layout else value.reshard_ticks.get((native, layout))
    if change is None:
        return None
    if native == layout:
        move = _shards_move(cluster, value, layout, site, target)
    else:
        move = _pieces_move(cluster, value, layout, site, target)
    return None if move is None else change + move


def _shards_move(
    cluster: Cluster, value: Value, layout: str, site: Site, target: Site
) -> int | None:
    """Return the ticks if each shard goes to the device at its own position."""
    if len(site) != len(target):
        return None
    moves = [
        _over_channel(cluster, value, layout, here, there)
        for here, there in zip(site, target, strict=True)
        if here != there
    ]
    return _slowest(moves)


def _pieces_move(
    cluster: Cluster, value: Value, layout: str, site: Site, target: Site
) -> int | None:
    """Return the ticks if each target outside the site receives over its fastest channel."""
    moves: list[int | None] = []
    for there in target:
        if there not in site:
            ways = [_over_channel(cluster, value, layout, here, there) for here in site]
            moves.append(min((ticks for ticks in ways if ticks is not None), default=None))
    return _slowest(moves)


def _slowest(moves: list[int | None]) -> int | None:
    known = [ticks for ticks in moves if ticks is not None]
    return max(known, default=0) if len(known) == len(moves) else None


def _over_channel(cluster: Cluster, value: Value, layout: str, here: str, there: str) -> int | None:
    channel = cluster.channel(here, there)
    return (
        None if channel is None else channel.transfer_ticks(value.payload(layout), value.messages)
    )
