"""An Ethernet that nothing of ours has made: hosts are network namespaces on a bridge of the kernel, by `ip` alone."""

import contextlib
import subprocess

BRIDGE = "lan"


class Ethernet:
    """A bridge and hosts on it, each with an interface eth0.

    Args:
        prefix: of the names of the namespaces.
        mtu: of the bridge and of all interfaces, bytes.
    """

    def __init__(self, prefix: str, mtu: int) -> None:
        self._prefix, self.mtu = prefix, mtu
        self._namespaces: list[str] = []
        with contextlib.ExitStack() as undone:
            undone.callback(self.close)
            self._add_namespace(BRIDGE)
            self.ip(BRIDGE, f"link add {BRIDGE} mtu {mtu} type bridge")
            self.ip(BRIDGE, f"link set {BRIDGE} up")
            undone.pop_all()

    def namespace(self, host: str) -> str:
        """The network namespace of a host, or of the bridge."""
        return f"{self._prefix}-{host}"

    def _add_namespace(self, host: str) -> None:
        subprocess.run(["ip", "netns", "add", self.namespace(host)], check=True, capture_output=True)
        self._namespaces.append(self.namespace(host))

    def add(self, host: str, address: str) -> None:
        """One more host. The port of the bridge has its name."""
        self._add_namespace(host)
        bridge, mtu = self.namespace(BRIDGE), self.mtu
        self.ip(host, f"link add eth0 mtu {mtu} type veth peer name {host} netns {bridge} mtu {mtu}")
        self.ip(BRIDGE, f"link set {host} master {BRIDGE} up")
        self.ip(host, "link set eth0 gso_max_segs 1")  # a cable carries packets, no super-packets
        for interface in ("lo", "eth0"):
            self.ip(host, f"link set {interface} up")
        self.ip(host, f"address add {address}/24 dev eth0")

    def ip(self, host: str, words: str) -> None:
        """A command of iproute2 on a host, or on the bridge."""
        command = ["ip", "-n", self.namespace(host), *words.split()]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def on(self, host: str, *words: str, text: str | None = None) -> str:
        """What a command in the network of a host says. text: its standard input."""
        command = ["ip", "netns", "exec", self.namespace(host), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout

    def close(self) -> None:
        """Remove all; what runs there is ended before."""
        for name in self._namespaces:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
