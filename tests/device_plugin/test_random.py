"""Allocations, kubelet restarts, NIC failures and thefts in random order: no pair is given twice, none is lost.

FANIN_TEST_ALLOCATIONS is the number of allocations; `make topology` sets 1000.
"""

import os
import random

import grpc
import pytest

from fanin_device_plugin.kubelet_api import HEALTHY
from tests.cluster.nodes import DOWN, UP, UUIDS, set_port
from tests.device_plugin.kubelet import NotEnough
from tests.device_plugin.rig import RESOURCES, Node, running

pytestmark = pytest.mark.process
ALLOCATIONS = int(os.environ.get("FANIN_TEST_ALLOCATIONS", "60"))
SEED = int(os.environ.get("FANIN_TEST_SEED", "1"))


class Campaign:
    """Grants as the plugin said them, not as the kubelet noted them."""

    def __init__(self, node: Node, seed: int) -> None:
        self.node, self.kubelet, self.chance = node, node.kubelet, random.Random(seed)
        self.gpus: dict[str, list[str]] = {}  # by holder
        self.vfs: dict[str, str] = {}
        self.thief = ""  # the GPU that another plugin has given away
        self.counts = dict.fromkeys(("allocations", "refused", "restarts", "failures", "thefts", "full"), 0)

    def allocate(self) -> None:
        resource = self.chance.choice(RESOURCES)
        free = self.kubelet.free(resource)
        if not free:
            self.counts["full"] += 1
            self.release()
            return
        holder = f"default/job{self.counts['allocations']}/main"
        try:
            given = self.kubelet.allocate(resource, self.chance.randint(1, len(free)), holder)
        except (grpc.RpcError, KeyError, NotEnough):  # a NIC, a GPU or the plugin's stream was gone meanwhile
            self.counts["refused"] += 1
            return
        self.counts["allocations"] += 1
        gpus, vf = given.envs["NVIDIA_VISIBLE_DEVICES"].split(","), given.devices[0].host_path
        held = {each for names in self.gpus.values() for each in names}
        assert not held & set(gpus), f"{holder} was given a GPU that others have"
        assert self.thief not in gpus, f"{holder} was given a GPU that another plugin gave away"
        assert vf not in self.vfs.values(), f"{holder} was given a VF that others have"
        self.gpus[holder], self.vfs[holder] = gpus, vf

    def release(self) -> None:
        if self.gpus:
            holder = self.chance.choice(sorted(self.gpus))
            del self.gpus[holder], self.vfs[holder], self.kubelet.held[holder]

    def restart(self) -> None:
        self.counts["restarts"] += 1
        self.kubelet.restart()
        self.node.ready()

    def fail(self) -> None:
        self.counts["failures"] += 1
        nic = self.chance.randint(0, 1)
        set_port(self.node.sysfs, nic, DOWN)
        if self.chance.random() < 0.5:
            resource = RESOURCES[nic]
            self.kubelet.wait(lambda: not self.kubelet.free(resource), "the pairs of a NIC that is down")
        set_port(self.node.sysfs, nic, UP)

    def steal(self) -> None:
        """Another plugin gives away a free GPU, or takes it back."""
        held = {each for names in self.gpus.values() for each in names}
        if self.thief:
            self.thief = ""
            del self.kubelet.held["default/thief/main"]
        elif free := sorted(set(UUIDS) - held):
            self.counts["thefts"] += 1
            self.thief = self.chance.choice(free)
            self.kubelet.held["default/thief/main"] = {"nvidia.com/gpu": [self.thief]}

    def run(self, allocations: int) -> None:
        steps = (self.allocate, self.release, self.restart, self.fail, self.steal)
        while self.counts["allocations"] < allocations:
            self.chance.choices(steps, weights=(60, 30, 2, 4, 4))[0]()


def test_no_pair_is_given_twice_and_none_is_lost() -> None:
    with running() as node:
        campaign = Campaign(node, SEED)
        campaign.run(ALLOCATIONS)
        print(f"seed {SEED}: " + ", ".join(f"{count} {name}" for name, count in campaign.counts.items()))
        node.kubelet.held.clear()
        campaign.gpus.clear(), campaign.vfs.clear()
        campaign.thief = ""
        for resource in RESOURCES:
            node.kubelet.wait(
                lambda resource=resource: list(node.kubelet.endpoints[resource].health.values()) == 4 * [HEALTHY],
                "every pair is healthy",
            )
            given = node.kubelet.allocate(resource, 4, f"default/{resource.rpartition('/')[2]}/main")
            campaign.gpus[resource] = given.envs["NVIDIA_VISIBLE_DEVICES"].split(",")
        assert sorted(each for names in campaign.gpus.values() for each in names) == UUIDS
