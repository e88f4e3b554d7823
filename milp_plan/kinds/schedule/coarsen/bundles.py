"""Values between clusters: those that travel together become one coarse value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from milp_plan.core import FULL, Channel, Cluster, Value


@dataclass(frozen=True)
class Bundle:
    """Values with one producing cluster and the same reading clusters, as one coarse value.

    Parameters
    ----------
    name
        Name of the coarse value.
    producer
        Position of the producing cluster; ``None`` for persistent values.
    readers
        Positions of the clusters that read it, without the producer.
    parts
        The values, in value order.
    """

    name: str
    producer: int | None
    readers: tuple[int, ...]
    parts: tuple[Value, ...]

    def as_value(self, names: Sequence[str]) -> Value:
        """Return the coarse value with summed sizes, messages, changes; ``names`` are clusters."""
        first = self.parts[0]
        shared = [name for name in first.bytes if all(name in part.bytes for part in self.parts)]
        sizes = {name: sum(part.bytes[name] for part in self.parts) for name in shared}
        payloads = {name: sum(part.payload(name) for part in self.parts) for name in shared}
        pairs = [
            pair
            for pair in first.reshard_ticks
            if all(pair in part.reshard_ticks for part in self.parts)
        ]
        return Value(
            name=self.name,
            producer=None if self.producer is None else names[self.producer],
            consumers=first.consumers,
            bytes=sizes,
            transfer_bytes={k: v for k, v in payloads.items() if v != sizes[k]},
            messages=1 if self.producer is None else sum(part.messages for part in self.parts),
            reshard_ticks={
                pair: sum(part.reshard_ticks[pair] for part in self.parts)
                for pair in pairs
                if pair[0] in sizes and pair[1] in sizes
            },
            kept=first.kept,
        ).read_by(names[reader] for reader in self.readers)


Profile = tuple[str, ...]
"""Layout of a value under every option of every cluster that makes or reads it, in order."""


def group_values(
    values: Sequence[Value],
    owner: Mapping[str, int],
    profiles: Mapping[str, Profile],
    bundle_transfers: bool,
    mixed_sites: bool,
) -> list[Bundle]:
    """Bundle values; the result is in value order and names are not final.

    Values share a bundle when they have the same producing cluster (or are all persistent), the
    same reading clusters, under every pair of options the same layouts, the same permitted changes
    of layout, and all or none stay to the end. Then every law treats all parts alike: a copy exists
    where and while each part's copy is needed. ``mixed_sites`` says that some transfer may take its
    length from different channels for different parts (see :func:`channels_ordered`); then only
    values that are always ``full``, which travel by sends, are bundled.
    """
    groups: dict[object, list[Value]] = {}
    ends: dict[object, tuple[int | None, tuple[int, ...]]] = {}
    for value in values:
        producer = None if value.producer is None else owner[value.producer]
        readers = tuple(
            reader
            for reader in dict.fromkeys(owner[consumer] for consumer in value.consumers)
            if reader != producer
        )
        profile = profiles[value.name]
        changes = frozenset(value.reshard_ticks)
        key: object = (producer, frozenset(readers), profile, changes, value.is_kept)
        if producer is not None and readers:
            sent = all(layout == FULL for layout in profile)
            if not bundle_transfers or (mixed_sites and not sent):
                key = value.name
        groups.setdefault(key, []).append(value)
        ends.setdefault(key, (producer, readers))
    return [Bundle(parts[0].name, *ends[key], tuple(parts)) for key, parts in groups.items()]


def channels_ordered(cluster: Cluster) -> bool:
    """Return whether of any two channels one has less (or equal) latency and more bandwidth.

    Then the slowest (and the best) channel of a collective transfer is the same whatever the
    size, so the parts of a bundle, one after the other, take no longer than the bundle.
    """

    def rank(channel: Channel) -> tuple[int, int]:
        return (channel.latency_ticks, -channel.bandwidth_bytes_per_s)

    chain = sorted({rank(channel) for channel in cluster.channels})
    slowness = [negative for _, negative in chain]
    return slowness == sorted(slowness)
