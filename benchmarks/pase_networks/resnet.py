"""ResNet-101 (He et al. 2016): bottlenecks, each convolution followed by a batch norm."""

from __future__ import annotations

from pase_costs import LayerGraph

from .drawing import IMAGE_GRAIN, Drawing

STAGES = ((3, 64), (4, 128), (23, 256), (3, 512))
EXPANSION, SIDE, CLASSES = 4, 227, 1000


def resnet101(batch: int = 128) -> LayerGraph:
    """ResNet-101; activations after batch norms are not modelled, sums carry one."""
    net = Drawing("resnet101", IMAGE_GRAIN)
    at = net.unit("stem", (batch, 3, SIDE, SIDE), 64, 7, stride=2, pad=3)
    at = net.pool("pool", at, 3, 2, pad=1)
    for stage, (blocks, width) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            at = _bottleneck(
                net, f"block{stage + 1}.{block + 1}", at, width, stride=stride, project=not block
            )
    at = net.linear("fc", net.mean("mean", at), CLASSES)
    net.loss("loss", at)
    return net.graph()


def _bottleneck(
    net: Drawing, name: str, source: int, width: int, *, stride: int, project: bool
) -> int:
    at = net.unit(f"{name}.1", source, width, 1)
    at = net.unit(f"{name}.2", at, width, 3, stride=stride, pad=1)
    at = net.unit(f"{name}.3", at, EXPANSION * width, 1)
    skip = source
    if project:
        skip = net.unit(f"{name}.skip", source, EXPANSION * width, 1, stride=stride)
    return net.add_up(f"{name} sum", at, skip, fused=1)
