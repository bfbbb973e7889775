"""Two plugins on one node: the second is refused, and neither takes the other's sockets."""

import socket
import time

import pytest

from tests.device_plugin.rig import PERIOD, ROCE1, Node, running
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process


def test_a_second_plugin_is_refused() -> None:
    with running() as node:
        endpoints = dict(node.kubelet.endpoints)
        second = node.start_plugin()
        assert second.wait(BOUND_S) == 1
        said = "fanin: NO_RESOURCES: another plugin serves the pairs of this node: it has locked "
        assert f"{said}{node.kubelet.plugins}" in node.log
        assert node.kubelet.endpoints == endpoints, "the first one stays registered"
        node.process.kill()
        node.process.wait(BOUND_S)
        node.process = node.start_plugin()
        node.kubelet.wait(lambda: node.kubelet.endpoints[ROCE1] is not endpoints[ROCE1], "its lock went with it")
        node.ready()


def taken_socket(node: Node) -> socket.socket:
    """Another program serves there: a plugin of an earlier release locks nothing."""
    other = socket.socket(socket.AF_UNIX)
    path = node.kubelet.plugins / f"fanin-{ROCE1.rpartition('/')[2]}.sock"
    path.unlink(missing_ok=True)
    other.bind(str(path))
    other.listen()
    return other


@pytest.mark.parametrize("first", [True, False])
def test_sockets_of_another_program(*, first: bool) -> None:
    """First or later: the plugin says so, takes nothing, and serves when the other has ended."""
    others: list[socket.socket] = []
    with running(prepare=(lambda node: others.append(taken_socket(node))) if first else None) as node:
        if not first:
            others.append(taken_socket(node))
        (other,) = others
        node.says("another program serves")
        path = other.getsockname()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        time.sleep(10 * PERIOD)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        assert node.log.count("another program serves") == 1
        endpoint = node.kubelet.endpoints.get(ROCE1)
        other.close()
        node.kubelet.wait(lambda: node.kubelet.endpoints.get(ROCE1) not in (None, endpoint), "it serves again")
        node.ready()


def test_the_sockets_of_the_other_outlive_the_plugin() -> None:
    with running() as node:
        other = taken_socket(node)
        node.says("another program serves")
        node.process.terminate()
        assert node.process.wait(BOUND_S) == 0
        with other, socket.socket(socket.AF_UNIX) as client:
            client.connect(other.getsockname())
