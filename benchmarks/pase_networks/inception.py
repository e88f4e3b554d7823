"""Inception v3 (Szegedy et al. 2016), without the auxiliary head."""

from __future__ import annotations

from pase_costs import LayerGraph

from .drawing import IMAGE_GRAIN, Drawing

SIDE, CLASSES = 299, 1000


def inception3(batch: int = 128) -> LayerGraph:
    """Inception v3; each convolution is followed by a batch norm, activations are not modelled."""
    net = _Inception("inception3", IMAGE_GRAIN)
    at = net.unit("stem1", (batch, 3, SIDE, SIDE), 32, 3, stride=2)
    at = net.unit("stem2", at, 32, 3)
    at = net.unit("stem3", at, 64, 3, pad=1)
    at = net.pool("stem pool1", at, 3, 2)
    at = net.unit("stem4", at, 80, 1)
    at = net.unit("stem5", at, 192, 3)
    at = net.pool("stem pool2", at, 3, 2)
    for number, features in enumerate((32, 64, 64)):
        at = net.module_a(f"a{number + 1}", at, features)
    at = net.module_b("b", at)
    for number, width in enumerate((128, 160, 160, 192)):
        at = net.module_c(f"c{number + 1}", at, width)
    at = net.module_d("d", at)
    for number in range(2):
        at = net.module_e(f"e{number + 1}", at)
    at = net.linear("fc", net.mean("mean", at), CLASSES)
    net.loss("loss", at)
    return net.graph()


class _Inception(Drawing):
    """The modules of figures 5 to 7 and 10 of the paper."""

    def pooled(self, name: str, source: int, channels: int) -> int:
        return self.unit(f"{name} pooled", self.pool(f"{name} pool", source, 3, 1, 1), channels, 1)

    def module_a(self, name: str, source: int, features: int) -> int:
        straight = self.unit(f"{name} 1x1", source, 64, 1)
        five = self.unit(f"{name} 5x5.1", source, 48, 1)
        five = self.unit(f"{name} 5x5.2", five, 64, 5, pad=2)
        three = self.unit(f"{name} 3x3.1", source, 64, 1)
        three = self.unit(f"{name} 3x3.2", three, 96, 3, pad=1)
        three = self.unit(f"{name} 3x3.3", three, 96, 3, pad=1)
        return self.concat(name, [straight, five, three, self.pooled(name, source, features)])

    def module_b(self, name: str, source: int) -> int:
        three = self.unit(f"{name} 3x3", source, 384, 3, stride=2)
        double = self.unit(f"{name} double.1", source, 64, 1)
        double = self.unit(f"{name} double.2", double, 96, 3, pad=1)
        double = self.unit(f"{name} double.3", double, 96, 3, stride=2)
        return self.concat(name, [three, double, self.pool(f"{name} pool", source, 3, 2)])

    def module_c(self, name: str, source: int, width: int) -> int:
        row, column = ((1, 7), (0, 3)), ((7, 1), (3, 0))
        straight = self.unit(f"{name} 1x1", source, 192, 1)
        seven = self.unit(f"{name} 7x7.1", source, width, 1)
        seven = self.unit(f"{name} 7x7.2", seven, width, row[0], pad=row[1])
        seven = self.unit(f"{name} 7x7.3", seven, 192, column[0], pad=column[1])
        double = self.unit(f"{name} double.1", source, width, 1)
        for step, (window, pad) in enumerate((column, row, column)):
            double = self.unit(f"{name} double.{step + 2}", double, width, window, pad=pad)
        double = self.unit(f"{name} double.5", double, 192, row[0], pad=row[1])
        return self.concat(name, [straight, seven, double, self.pooled(name, source, 192)])

    def module_d(self, name: str, source: int) -> int:
        three = self.unit(f"{name} 3x3.1", source, 192, 1)
        three = self.unit(f"{name} 3x3.2", three, 320, 3, stride=2)
        seven = self.unit(f"{name} 7x7.1", source, 192, 1)
        seven = self.unit(f"{name} 7x7.2", seven, 192, (1, 7), pad=(0, 3))
        seven = self.unit(f"{name} 7x7.3", seven, 192, (7, 1), pad=(3, 0))
        seven = self.unit(f"{name} 7x7.4", seven, 192, 3, stride=2)
        return self.concat(name, [three, seven, self.pool(f"{name} pool", source, 3, 2)])

    def module_e(self, name: str, source: int) -> int:
        straight = self.unit(f"{name} 1x1", source, 320, 1)
        three = self.unit(f"{name} 3x3.1", source, 384, 1)
        three = self._fork(f"{name} 3x3", three)
        double = self.unit(f"{name} double.1", source, 448, 1)
        double = self.unit(f"{name} double.2", double, 384, 3, pad=1)
        double = self._fork(f"{name} double", double)
        return self.concat(name, [straight, three, double, self.pooled(name, source, 192)])

    def _fork(self, name: str, source: int) -> int:
        wide = self.unit(f"{name} wide", source, 384, (1, 3), pad=(0, 1))
        tall = self.unit(f"{name} tall", source, 384, (3, 1), pad=(1, 0))
        return self.concat(f"{name} fork", [wide, tall])
