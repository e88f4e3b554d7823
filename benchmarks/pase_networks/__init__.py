"""The networks of PaSE (Elango, IPDPS 2021) as layers, rebuilt from their architectures."""

from .alexnet import alexnet
from .catalogue import NETWORKS, network
from .inception import inception3
from .resnet import resnet101
from .rnnlm import rnnlm
from .transformer import transformer

__all__ = ["NETWORKS", "alexnet", "inception3", "network", "resnet101", "rnnlm", "transformer"]
