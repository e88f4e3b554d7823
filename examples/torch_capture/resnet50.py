"""ResNet-50 (He et al., 2015) in plain PyTorch: ``milp-plan capture resnet50.py:build``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """Three convolutions and a way around them."""

    def __init__(self, inputs: int, middle: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * middle
        self.conv1 = nn.Conv2d(inputs, middle, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.around = None
        if stride != 1 or inputs != outputs:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.around = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps to feature maps."""
        known = x if self.around is None else self.around(x)
        x = functional.relu(self.bn1(self.conv1(x)))
        x = functional.relu(self.bn2(self.conv2(x)))
        return functional.relu(self.bn3(self.conv3(x)) + known)


class ResNet(nn.Module):
    """Images and labels to the mean loss."""

    def __init__(self, depths: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.layer = nn.ModuleList()
        inputs = width
        for stage, depth in enumerate(depths):
            for place in range(depth):
                stride = 2 if stage > 0 and place == 0 else 1
                self.layer.append(Bottleneck(inputs, width << stage, stride))
                inputs = 4 * (width << stage)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy per image."""
        x = self.pool(functional.relu(self.bn1(self.conv1(images))))
        for block in self.layer:
            x = block(x)
        return functional.cross_entropy(self.fc(x.mean((2, 3))), labels)


def build() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """25.6 million parameters, 32 images of 224 pixels."""
    inputs = torch.randn(32, 3, 224, 224), torch.randint(1000, (32,))
    return ResNet((3, 4, 6, 3), 64, 1000), inputs


def tiny() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Two bottlenecks, 4 images of 32 pixels."""
    inputs = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
    return ResNet((1, 1), 8, 10), inputs
