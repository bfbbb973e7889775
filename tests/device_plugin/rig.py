"""The device plugin as a process on the founding document's node, and a kubelet beside it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster.nodes import SUBNETS, write_driver_of_the_document, write_node_of_the_document
from tests.device_plugin.kubelet import FakeKubelet
from tests.waiting import BOUND_S

ROCE1, ROCE2 = RESOURCES = ("example.com/gpu-roce-10-1-0-0-24", "example.com/gpu-roce-10-2-0-0-24")
PERIOD = 0.02


class Node:
    """`root` is the folder of all its files, `sysfs` one of these. `within`: see `running`."""

    def __init__(
        self, root: Path, within: Sequence[str] = (), prepare: Callable[[Node], None] | None = None, **settings: str
    ) -> None:
        self.within = within
        self.root, self.sysfs = root, root / "sys"
        write_node_of_the_document(self.sysfs)
        write_driver_of_the_document(root / "proc")
        self.kubelet = FakeKubelet(root)
        lines = {
            "domain": '"example.com"',
            "subnets": "{" + ", ".join(f'{nic} = "{subnet}"' for nic, subnet in SUBNETS.items()) + "}",
            "plugins": f'"{self.kubelet.plugins}"',
            "pod_resources": f'"{self.kubelet.pod_resources}"',
            "files": f'"{root / "files"}"',
            "state": f'"{root / "state"}"',
            "sysfs": f'"{self.sysfs}"',
            "proc": f'"{root / "proc"}"',
            "period": str(PERIOD),
            **settings,
        }
        self.settings = root / "device-plugin.toml"
        self.settings.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
        if prepare is not None:
            prepare(self)
        self.process = self.start_plugin()

    def start_plugin(self) -> subprocess.Popen[bytes]:
        command = [*self.within, sys.executable, "-m", "fanin_device_plugin", "--settings", str(self.settings)]
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(command, stderr=log)

    @property
    def log(self) -> str:
        return (self.root / "log").read_text()

    def says(self, text: str) -> None:
        """Wait until the plugin has logged `text`."""
        end = time.monotonic() + BOUND_S
        while text not in self.log:
            assert time.monotonic() < end, f"{text!r} is not in {self.log}"
            time.sleep(PERIOD)

    def ready(self) -> None:
        """Wait until the kubelet has a list of both classes."""
        kubelet = self.kubelet
        self.kubelet.wait(
            lambda: all(name in kubelet.endpoints and kubelet.endpoints[name].lists for name in RESOURCES),
            "both classes are listed",
        )

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(BOUND_S) == 0, self.log
        self.kubelet.stop()


@contextmanager
def running(
    within: Sequence[str] = (), prepare: Callable[[Node], None] | None = None, **settings: str
) -> Iterator[Node]:
    """A node with the plugin, ended afterwards.

    within: a command that executes its arguments. prepare: changes the node before the plugin starts, which then may
    have no list at once.
    """
    with TemporaryDirectory(dir="/tmp") as folder:  # short: a socket's path has at most 107 bytes
        node = Node(Path(folder), within, prepare, **settings)
        try:
            if prepare is None:
                node.ready()
            yield node
        finally:
            node.stop()
