"""AlexNet (Krizhevsky et al. 2012), in one tower, as in PaSE's evaluation."""

from __future__ import annotations

from pase_costs import LayerGraph

from .drawing import IMAGE_GRAIN, Drawing

CLASSES = 1024


def alexnet(batch: int = 128) -> LayerGraph:
    """AlexNet on images of 227 x 227; pointwise operations are fused into their layers."""
    net = Drawing("alexnet", IMAGE_GRAIN)
    at = net.conv("conv1", (batch, 3, 227, 227), 96, 11, stride=4, fused=1)
    at = net.pool("pool1", at, 3, 2)
    at = net.conv("conv2", at, 256, 5, pad=2, fused=1)
    at = net.pool("pool2", at, 3, 2)
    at = net.conv("conv3", at, 384, 3, pad=1, fused=1)
    at = net.conv("conv4", at, 384, 3, pad=1, fused=1)
    at = net.conv("conv5", at, 256, 3, pad=1, fused=1)
    at = net.pool("pool5", at, 3, 2)
    at = net.flatten("flatten", at)
    at = net.linear("fc6", at, 4096, fused=1)
    at = net.linear("fc7", at, 4096, fused=1)
    at = net.linear("fc8", at, CLASSES)
    net.loss("loss", at)
    return net.graph()
