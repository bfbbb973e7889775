"""The VF of a container gets its address, and is up, when the container starts ([46]): in a namespace of the test."""

import json
import subprocess
from typing import Any

import grpc
import pytest

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from tests.device_plugin.rig import ROCE1, running

pytestmark = pytest.mark.netns
# A cable stands for the VF ens0v0: the namespace has no other interface.
MAKE = 'ip link add ens0v0 type veth peer name far0 && ip link set far0 up && exec "$@"'
ADDRESSES = '{mlx5_0 = "10.1.0.16"}'


def interface(process: int) -> dict[str, Any]:
    """The VF in the namespace of a process."""
    command = ["nsenter", "--target", str(process), "--net", "ip", "-json", "address", "show", "ens0v0"]
    (found,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def test_the_vf_of_a_container_has_its_address() -> None:
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)
    with running(["unshare", "--net", "sh", "-c", MAKE, "sh"], addresses=ADDRESSES) as node:
        assert "UP" not in interface(node.process.pid)["flags"]
        given = node.kubelet.allocate(ROCE1, 1, "default/job/main")
        assert given.envs["FANIN_VF_IPV4"] == "10.1.0.16/24"
        found = interface(node.process.pid)
        assert "UP" in found["flags"]
        assert [(each["local"], each["prefixlen"]) for each in found["addr_info"] if each["family"] == "inet"] == [
            ("10.1.0.16", 24)
        ]
        with pytest.raises(grpc.RpcError, match=r"dev ens0v1: .*does not exist|Cannot find device"):
            node.kubelet.allocate(ROCE1, 1, "default/other/main")
