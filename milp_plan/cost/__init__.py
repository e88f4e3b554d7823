"""What things cost: roofline compute times, alpha-beta collectives, routes of values."""

from .routes import Route, route_between, routes

__all__ = ["Route", "route_between", "routes"]
