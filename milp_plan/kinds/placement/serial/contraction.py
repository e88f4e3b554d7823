"""Exact contraction under the chain law: blocks that take no time join a neighbour.

Rule. Let block b take no time on any device, and let a be another block such that
1. every net of b is a net of a,
2. every block with an arc to b is a or comes before a, and every block that b has an arc to is a
   or comes after a,
3. b can run wherever a can, and
4. b has no bytes, or all bytes of the problem fit on any one device together.
Then some optimal plan has b on a's device.

Proof. Take an optimal plan and move b to the device D of a, from D' (if they differ). Times: b adds
nothing to D. Nets: no device but D and D' sees a change of what it holds. A net e of b has its pin
a on D. So D holds a part of e already, and if it does not hold all of e after the move it did not
before. D' did not hold all of e, since a is on D, so it was charged for e; after the move it is
charged if it still holds a part of e. Nets without b are as they were. Hence no device is charged
for a net that it was not charged for before, in either pass, and no load grows. Arcs: number the
devices so that arcs do not go back in the old plan, s(x) the number of x's device. With
s(b) := s(a), an arc (x, b) has x = a or x before a, so s(x) <= s(a); arcs (b, y) likewise. Memory:
condition 4. So the plan is valid and no worse, whichever passes count how.
"""

from __future__ import annotations

from .order import ChainGraph, grouped


def contracted(chain: ChainGraph) -> ChainGraph:
    """Apply the rule until it applies no more; blocks of the result are unions of blocks."""
    while True:
        merged = _merge_once(chain)
        if merged is None:
            return chain
        chain = merged


def _merge_once(chain: ChainGraph) -> ChainGraph | None:
    """Return the order after one pass of joining disjoint pairs; ``None`` if there are none."""
    roomy = _roomy(chain)
    joined: dict[int, list[int]] = {}
    touched = 0
    for block in range(len(chain)):
        if chain.work[block].any() or chain.host_work[block].any():
            continue
        if chain.size[block] and not roomy:
            continue
        around = 1 << block
        for other in (*chain.before[block], *chain.after[block]):
            around |= 1 << other
        if touched & around:
            continue
        for other in (*chain.before[block], *chain.after[block]):
            if _goes_with(chain, block, other):
                joined[other] = [block]
                touched |= around
                break
    if not joined:
        return None
    gone = {block for blocks in joined.values() for block in blocks}
    return grouped(
        chain.graph,
        [
            tuple(
                number
                for member in (block, *joined.get(block, ()))
                for number in chain.blocks[member]
            )
            for block in range(len(chain))
            if block not in gone
        ],
    )


def _roomy(chain: ChainGraph) -> bool:
    """Return whether all bytes together fit on any one device."""
    limits = (chain.graph.memory, chain.graph.host_memory)
    return all(limit is None or sum(chain.size) <= limit for limit in limits)


def _goes_with(chain: ChainGraph, block: int, other: int) -> bool:
    """Return whether the block may join the other one."""
    if (chain.on_payer[other] and not chain.on_payer[block]) or (
        chain.on_host[other] and not chain.on_host[block]
    ):
        return False
    if any(other not in chain.pins[net] for net in chain.nets_of[block]):
        return False
    earlier = chain.ancestors[other] | 1 << other
    if any(not earlier >> before & 1 for before in chain.before[block]):
        return False
    return all(
        after == other or chain.ancestors[after] >> other & 1 for after in chain.after[block]
    )
