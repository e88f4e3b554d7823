"""The builder: what it makes, and what it refuses, in words and at the call that is wrong."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import milp_plan
from milp_plan.core import (
    FULL,
    CommunicationModel,
    Contiguity,
    InputError,
    MemoryLaw,
    Objective,
    SerialLaw,
    Units,
)
from milp_plan.face.quantities import amount, seconds
from milp_plan.io.native import to_json
from tests.run.cases import instance

mp: Any = milp_plan


def two(**settings: Any) -> Any:
    """Model with two joined devices and an operator ``a``."""
    model = mp.Model("m", **{"time_unit": "ns", **settings})
    gpu = model.add_device_class("gpu", "2GiB")
    model.connect(*model.add_devices(2, gpu), bandwidth="1GB/s", latency=3)
    model.add_operator("a", 10)
    return model


def test_the_builder_can_say_what_a_file_says() -> None:
    """A shipped instance, said call by call, is the same problem."""
    model = mp.Model("gang-beats-single", time_unit="ns")
    devices = [model.add_device(name, model.add_device_class("any")) for name in ("d0",)]
    devices.append(model.add_device("d1"))
    model.connect(*devices, bandwidth="1GB/s")
    model.add_group(*devices)
    first, second = model.add_operator("m1"), model.add_operator("m2")
    reshard = {("full", "half2"): 0, ("half2", "full"): 30}
    sizes = {"full": 20, "half2": 10}
    x = model.add_value(first, [second], sizes, "x", reshard=reshard)
    for operator in (first, second):
        model.add_option(operator, 100, "single")
    model.add_option(first, 55, "half2", gang=2, writes={x: "half2"})
    model.add_option(second, 55, "half2", gang=2, reads={"x": "half2"})
    assert model.build().fingerprint == instance("gang-beats-single").fingerprint


def test_everything_of_the_native_format_can_be_expressed() -> None:
    model = mp.Model(
        "all",
        time_unit="us",
        objective="peak_memory",
        communication="endpoint",
        micro_batches=2,
        provenance={"source": "a test"},
    )
    fast, slow = model.add_device_class("fast", "1GiB"), model.add_device_class("slow")
    cpu = model.add_device_class("cpu", "1TiB", host=True)
    one, other = model.add_device("one", fast, memory="512MiB"), model.add_device("other", slow)
    host = model.add_device("host", cpu)
    model.connect_all("10GB/s", "1us", devices=[one, other])
    model.connect(one, host, "5GB/s", both=False)
    model.add_operator("f", {fast: 1, "slow": 2.5}, workspace="1KiB", group="g", block="b0")
    y = model.add_value("f", bytes="1MB", transfer_bytes="2MB", messages=3, name="y")
    model.add_operator("u", 1, inputs=[y], kind="update")
    model.add_value(None, ["f"], "4MB", "w")
    model.add_value("f", ["u"], name="state", kept=True)
    problem = model.build()
    assert [op.name for op in problem.graph.operators] == ["f@0", "f@1", "u"]
    run = problem.graph.operator("f@1")
    assert run.options[0].duration_ticks == {"fast": 1000, "slow": 2500}
    assert (run.options[0].workspace_bytes, run.group, run.block) == (1024, "g", "b0")
    assert problem.graph.operator("u").options[0].duration_ticks == {"fast": 1000, "slow": 1000}
    value = problem.graph.value("y@0")
    assert (value.bytes, value.payload(FULL), value.messages) == ({FULL: 10**6}, 2 * 10**6, 3)
    assert problem.graph.value("w").persistent
    assert [v.name for v in problem.graph.values if v.is_kept] == ["state@0", "state@1"]
    assert problem.cluster.hosts == {"host"}
    assert problem.cluster.device("one").memory_bytes == 2**29
    assert problem.cluster.communication is CommunicationModel.ENDPOINT
    assert problem.objective is Objective.PEAK_MEMORY
    assert problem.cluster.channel("host", "one") is None
    assert problem.provenance == {"source": "a test"}
    serial = mp.Model(
        "s",
        objective="bottleneck",
        memory_law="static",
        serial=SerialLaw(("device",), Contiguity.CHAIN),
        time_unit="unspecified",
        ticks_per_unit=1000,
    )
    serial.connect(*serial.add_devices(2), bandwidth=2)
    serial.add_operator("a", 0.125)
    made = serial.build()
    assert made.serial.payers == ("device",)
    assert made.memory_law is MemoryLaw.STATIC
    assert made.units == Units("unspecified", "bytes", 1000)
    assert made.graph.operator("a").options[0].duration_ticks == {"device": 125}
    assert made.cluster.channels[0].bandwidth_bytes_per_s == 2 * 10**6


def test_a_named_cluster_is_one_to_begin_with() -> None:
    model = mp.Model(cluster="2xH100+2xA100", communication="delay")
    assert [str(device) for device in model.devices] == ["H100.0", "H100.1", "A100.0", "A100.1"]
    model.add_operator(duration={"H100": "1ms", "A100": "2ms"})
    model.add_operator(duration="1ms")
    problem = model.build()
    assert [op.name for op in problem.graph.operators] == ["operator0", "operator1"]
    assert problem.graph.operator("operator1").options[0].duration_ticks["A100"] == 10**6
    assert len(problem.cluster.channels) == 12
    assert problem.cluster.communication is CommunicationModel.DELAY


NUMBERS = (np.int64, np.int32, np.uint8, np.float64, np.float32, int, float, Fraction, Decimal)


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.__name__)
def test_numbers_of_every_kind_are_numbers(kind: Callable[[int], Any]) -> None:
    model = mp.Model("m", time_unit="ns", micro_batches=kind(1))
    one, other = model.add_devices(kind(2), memory=kind(200))
    model.connect(one, other, kind(100), kind(3))
    model.add_operator("a", kind(10), workspace=kind(5), gang=kind(1), micro_batch=kind(0))
    model.add_value("a", (), kind(7), messages=kind(2))
    problem = model.build()
    assert to_json(problem)  # all of it is plain integers
    assert problem.fingerprint
    assert type(problem.graph.operator("a").options[0].duration_ticks["device"]) is int
    assert mp.solve(model, time_limit=kind(20), seed=kind(1)).value == 10


@given(st.integers(0, 10**9), st.integers(0, 10**10))
def test_amounts_are_kept_to_the_tick_and_the_byte(ticks: int, size: int) -> None:
    model = mp.Model("m")
    model.add_device()
    model.add_operator("a", Fraction(ticks, 10**9), workspace=size)
    model.add_operator("b", f"{ticks}ns", workspace=f"{size}B")
    model.add_operator("c", ticks / 10**9, workspace=float(size))
    for operator in model.build().graph.operators:
        (option,) = operator.options
        assert option.duration_ticks == {"device": ticks}
        assert option.workspace_bytes == size


def test_measured_times_are_rounded_and_exact_ones_are_not() -> None:
    model = mp.Model("m", time_unit="ms")
    model.add_device()
    model.add_operator("a", 1 / 3)
    assert model.build().graph.operator("a").options[0].duration_ticks == {"device": 333_333}
    with pytest.raises(InputError, match="which is 1000000/3 ticks, expected a whole number of t"):
        model.add_operator("b", Fraction(1, 3))
    with pytest.raises(InputError, match="1e-08, less than half a tick, expected a tick or more"):
        model.add_operator("b", 1e-8)


WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "name twice": (lambda m: m.add_operator("a", 1), "add_operator, name: found 'a' a second time"),
    "no number": (lambda m: m.add_operator("b", "soon"), "'b', duration: found 'soon', expected a"),
    "negative": (lambda m: m.add_operator("b", -1), "duration: found -1, expected a number of ns"),
    "nan": (lambda m: m.add_operator("b", float("nan")), "duration: found nan, expected"),
    "numpy inf": (lambda m: m.add_operator("b", np.inf), "duration: found inf, expected"),
    "truth": (lambda m: m.add_operator("b", True), "duration: found True, expected a number"),
    "numpy truth": (lambda m: m.add_operator("b", np.True_), "of type bool"),
    "array": (lambda m: m.add_operator("b", np.arange(3)), "of type ndarray, expected a number"),
    "no class": (lambda m: m.add_operator("b", {"gpo": 1}), "'gpo', expected.*did you mean 'gpu'"),
    "no time": (lambda m: m.add_operator("b", {}), "found no class, expected a duration for one"),
    "no value": (lambda m: m.add_operator("b", 1, inputs=["x"]), "unknown value 'x'"),
    "inputs": (lambda m: m.add_operator("b", 1, inputs=3), "'b', inputs: found 3, expected hand"),
    "flag": (lambda m: m.add_operator("b", 1, recomputable=2), "recomputable: found 2, expected T"),
    "gang": (lambda m: m.add_operator("b", 1, gang=0), "gang: found 0, expected a whole number"),
    "size": (lambda m: m.add_value("a", bytes="2XB"), "bytes: found '2XB', expected a whole"),
    "rate as size": (lambda m: m.add_value("a", bytes="2GB/s"), "bytes: found '2GB/s', expected"),
    "half": (lambda m: m.add_value("a", bytes=1.5), "bytes: found 1.5, expected a whole number"),
    "loop": (lambda m: m.add_value("a", "a", 1), "circle: 'a' would wait for itself"),
    "messages": (lambda m: m.add_value("a", bytes=1, messages=0), "messages: found 0"),
    "layout": (lambda m: m.add_value("a", bytes=1, reshard={("full", "x"): 1}), "'x'.*its layouts"),
    "payload": (lambda m: m.add_value("a", bytes=1, transfer_bytes={"x": 1}), "found 'x', expecte"),
    "itself": (lambda m: m.connect("gpu.0", "gpu.0", 1), "one device twice"),
    "again": (lambda m: m.connect("gpu.0", "gpu.1", 1), "'gpu.0' to 'gpu.1' a second time"),
    "no rate": (lambda m: m.connect("gpu.0", m.add_device("c"), 0), "bandwidth: found 0, expected"),
    "device": (lambda m: m.connect("gpu.0", "gpu.7", 1), "unknown device 'gpu.7'"),
    "not a device": (
        lambda m: m.connect("gpu.0", m.add_operator(None, 1), 1),
        "the operator 'operator0'",
    ),
    "unknown": (
        lambda m: m.add_value("q", bytes=1),
        "unknown operator 'q', expected an operator that was added",
    ),
    "stranger": (lambda m: m.add_group(*two().devices), "'gpu.0' of another model"),
    "group of one": (lambda m: m.add_group("gpu.0"), r"found \['gpu.0'\], expected two or more"),
    "a number": (lambda m: m.add_group(0, 1), "add_group: found 0, expected a device, or the name"),
    "memory": (lambda m: m.add_device(memory="lots"), "memory: found 'lots'"),
    "many": (lambda m: m.add_devices(1.5), "number: found 1.5, expected a whole number"),
    "empty": (lambda m: m.add_device_class(""), "add_device_class, name: found '', expected a te"),
    "reads": (
        lambda m: m.add_option("a", 1, reads={m.add_value("a"): "x"}),
        "value that 'a' reads",
    ),
    "writes": (lambda m: m.add_option("a", 1, writes={m.add_value("a"): "x"}), "'x', expected one"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_reported_at_once_and_the_model_goes_on(case: str) -> None:
    call, words = WRONG[case]
    model = two()
    with pytest.raises(InputError, match=words) as caught:
        call(model)
    assert all(entry.expected and entry.remedy for entry in caught.value.findings)
    assert model.build().graph.has_operator("a")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"name": ""}, "Model, name"),
        ({"objective": "makspan"}, "did you mean 'makespan'"),
        ({"time_unit": "weeks"}, "one of s, ms, us, ns, unspecified"),
        ({"ticks_per_unit": 10}, "ticks_per_unit: found 10, expected nothing"),
        ({"micro_batches": 0}, "micro_batches: found 0"),
        ({"communication": "pigeon"}, "Model, communication: found 'pigeon'"),
        ({"memory_law": "none"}, "Model, memory_law: found 'none'"),
        ({"cluster": "4xAbacus"}, "Abacus"),
    ],
)
def test_settings_are_checked(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        mp.Model(**{"name": "m", **setting})


def test_circles_are_found_through_other_operators() -> None:
    model = two()
    model.add_operator("c", 1, inputs=[model.add_value("a", model.add_operator("b", 1))])
    model.add_value("b", "c")
    with pytest.raises(InputError, match="add_value 'value2': found a circle: 'c' would wait"):
        model.add_value("c", "a")
    model.add_value("c", bytes=1)


def test_what_no_call_could_see_the_build_says() -> None:
    model = two()
    model.add_operator("waits")
    with pytest.raises(InputError, match="operator 'waits': found no options"):
        mp.solve(model)
    model.add_option("waits", 1, gang=2)
    alone = mp.solve(model, time_limit=20)
    assert alone.infeasible_reason == (
        "operator 'waits' can run nowhere: it needs a group of 2 devices of "
        "'gpu', and the cluster has none"
    )
    model.add_group(*model.devices)
    assert mp.solve(model, time_limit=20).value == 11


def test_a_build_is_made_again_when_something_came_after_it() -> None:
    model = two()
    first = model.build()
    assert model.build() is first
    model.add_operator("b", 5)
    assert len(model.build().graph.operators) == 2
    assert repr(model) == "<Model 'm': 2 operators, 0 values, 2 devices>"
    again = pickle.loads(pickle.dumps(model))
    again.add_operator("c", 1, inputs=[again.add_value("b")])
    assert len(again.build().graph.operators) == 3
    assert len(model.build().graph.operators) == 2


def test_a_class_is_asked_for_where_there_are_several() -> None:
    model = two()
    model.add_device_class("other")
    with pytest.raises(InputError, match="add_device, device_class: found none, expected one of"):
        model.add_device()


def test_numbers_with_units() -> None:
    assert amount("25GB/s", "here", per_second=True) == 25 * 10**9
    assert amount("1.5GiB", "here") == 3 * 2**29
    assert (seconds("1.5min", "here"), seconds(2, "here")) == (90.0, 2.0)
    for wrong in ("1 week", "", "s", 0, -1, None, "1.2.3s", float("nan")):
        with pytest.raises(InputError, match=r"here: found .*, expected a number of seconds"):
            seconds(wrong, "here")
