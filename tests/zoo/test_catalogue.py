"""Problems by name."""

import pytest

from milp_plan.core import CommunicationModel, InputError, Objective
from milp_plan.zoo import ARCHITECTURES, architecture, generate


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_architecture_builds_and_ends_in_a_loss(name):
    for granularity in ARCHITECTURES[name].granularities:
        network = architecture(name, granularity)
        assert network.name == name
        assert network.layers[-1].kind == "loss"
        assert network.flops > 0


def test_families():
    families = {entry.family for entry in ARCHITECTURES.values()}
    assert families == {"gpt", "moe", "two-tower", "resnet", "inception", "unet", "vgg", "alexnet"}


def test_generate():
    problem = generate(
        "gpt-tiny",
        "1xH100+1xA100",
        mode="inference",
        batch=2,
        granularity="block",
        memory_scale="1/8",
        communication="endpoint",
        objective="peak_memory",
    )
    assert problem.name == "gpt-tiny-inference-1xH100+1xA100-b2"
    assert {device.memory_bytes for device in problem.cluster.devices} == {10_000_000_000}
    assert problem.cluster.communication is CommunicationModel.ENDPOINT
    assert problem.objective is Objective.PEAK_MEMORY
    assert problem.provenance["memory_scale"] == "1/8"
    assert problem.provenance["cluster"] == "1xH100+1xA100"


def test_training_is_the_default():
    problem = generate("gpt-tiny", "1xV100", optimizer="sgd")
    assert problem.provenance["mode"] == "training"
    assert problem.provenance["optimizer"] == "sgd"
    assert "memory_scale" not in problem.provenance


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"architecture_name": "gpt5"}, "gpt-tiny, gpt2-large"),
        ({"architecture_name": "resnet50", "granularity": "block"}, "one of fine"),
        ({"mode": "dreaming"}, "training, inference"),
        ({"objective": "beauty"}, "makespan, span, bottleneck, peak_memory"),
        ({"communication": "smoke"}, "channel, endpoint, delay"),
        ({"memory_scale": "lots"}, "'lots', expected a positive number"),
        ({"memory_scale": "1/0"}, "positive number"),
        ({"memory_scale": -1}, "positive number"),
        ({"cluster": "4xB999"}, "H100"),
        ({"link": "string"}, "NVLink4"),
        ({"options": ["sideways2"]}, "column"),
    ],
)
def test_everything_unknown_is_named(arguments, words):
    given = {"architecture_name": "gpt-tiny", "cluster": "2xH100", **arguments}
    with pytest.raises(InputError, match=words):
        generate(**given)
