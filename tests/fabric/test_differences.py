"""Differences between a fabric that is up and the requested one are named."""

from dataclasses import replace

import msgspec
import pytest

from fanin_tools.fabric import description
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape, make

BASE = Shape(4, 2, netns=True)


def of(shape: Shape) -> Fabric:
    return make("any", shape)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (of(replace(BASE, mtu=1500)), "mtu 9000 (asked: 1500)"),
        (of(replace(BASE, lanes=2)), "lanes 1 (asked: 2)"),
        (of(replace(BASE, detection=2)), "detection 5.0 (asked: 2)"),
        (of(replace(BASE, rate="1gbit")), "rate of links unshaped (asked: 1gbit)"),
        (of(replace(BASE, ranks_per_node=3)), "ranks of NICs 2 (asked: 3)"),
        (of(replace(BASE, nodes=5)), "number of NICs 4 (asked: 5)"),
        (of(replace(BASE, slots=64)), "slots of NICs 4096 (asked: 64), slots of switches 4096 (asked: 64)"),
        (make("any", replace(BASE, netns=False), "127.77.0"), "netns True (asked: False)"),
        (msgspec.structs.replace(of(BASE), devices=of(BASE).devices[::-1]), "the order of its devices"),
        (msgspec.structs.replace(of(BASE), links=of(BASE).links[1:]), "which devices are linked"),
    ],
)
def test_differences_are_named(asked: Fabric, words: str) -> None:
    assert description.describe_differences(of(BASE), asked) == words


def test_many_differences_are_counted() -> None:
    asked = of(Shape(6, 3, netns=True, fanout=(2, 3), lanes=4, mtu=1500, rate="1gbit"))
    assert description.describe_differences(of(BASE), asked).endswith(" more")
