"""Orders of one device that need little memory (OLLA / MODeL, arXiv 2210.12924; ROAM's cuts)."""

from .orders import ORDERS, Orderer, plan_by
from .reading import OrderGraph, read_order

__all__ = ["ORDERS", "OrderGraph", "Orderer", "plan_by", "read_order"]
