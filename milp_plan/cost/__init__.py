"""What things cost: roofline compute times, alpha-beta collectives, routes of values."""

from .clusters import (
    MAX_DEVICES,
    ModelledCluster,
    aligned,
    arranged,
    cluster,
    plain,
    sources,
    spec_of,
    terms_of,
)
from .collectives import (
    all_gather_ns,
    all_reduce_ns,
    all_to_all_ns,
    point_to_point_ns,
    reduce_scatter_ns,
)
from .devices import DEVICES, LINKS, DeviceSpec, LinkSpec, device_spec, link_spec
from .roofline import roofline_ns
from .routes import Route, route_between, routes, send_choices
from .strategies import (
    SINGLE,
    WAY_SPLITS,
    Way,
    Work,
    durations_ns,
    layout_bytes,
    layout_gang,
    parse_labels,
    reshard_table,
    ways,
)

__all__ = [
    "DEVICES",
    "LINKS",
    "MAX_DEVICES",
    "SINGLE",
    "WAY_SPLITS",
    "DeviceSpec",
    "LinkSpec",
    "ModelledCluster",
    "Route",
    "Way",
    "Work",
    "aligned",
    "all_gather_ns",
    "all_reduce_ns",
    "all_to_all_ns",
    "arranged",
    "cluster",
    "device_spec",
    "durations_ns",
    "layout_bytes",
    "layout_gang",
    "link_spec",
    "parse_labels",
    "plain",
    "point_to_point_ns",
    "reduce_scatter_ns",
    "reshard_table",
    "roofline_ns",
    "route_between",
    "routes",
    "send_choices",
    "sources",
    "spec_of",
    "terms_of",
    "ways",
]
