"""Planners of address packing: first and best fits, annealed orders, and a search that proves.

First fits by size are TensorFlow Lite's ("greedy by size"); canonical packings, bounds of sections
and the orders ``TWA``, ``WAT`` and ``TAW`` are those of MiniMalloc (Moffitt, ASPLOS 2023).
"""

from .packer import FITS, MAX_BUFFERS, ORDERS, Packer

__all__ = ["FITS", "MAX_BUFFERS", "ORDERS", "Packer"]
