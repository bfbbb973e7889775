"""Run in its own network namespace: sends super-packets over a veth link and prints the frames at a tap.

Output: JSON, {"frames": [hexadecimal Ethernet frames], "drops": {...}}. The other end of the link has no address; a
static neighbour makes the kernel send there, and a packet socket takes the frames.
"""

import ipaddress
import json
import socket
import subprocess

import numpy as np

from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.port.sockets import UdpPort
from fanin_nic.port.transmit import transmit
from fanin_wire.fields import HEADER, Opcode

HERE, THERE = "10.77.0.1", "10.77.0.2"
ETH_P_IP = 0x0800
SIZES = [4096] * 20 + [1000] + [0] * 3 + [4096] * 2 + [9000]  # the last is longer than the link's MTU
LINK = f"""
link add link0 mtu 9000 type veth peer name tap0 mtu 9000
link set link0 gso_max_segs 1
address add {HERE}/24 dev link0
link set tap0 up
link set link0 up
link set lo up
neighbour replace {THERE} lladdr 02:00:00:00:00:02 dev link0
"""


def tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Actions and headers for packets of SIZES to the other end of the link, and their payload."""
    payload = np.random.default_rng(3).integers(0, 256, max(SIZES), np.uint8)
    actions, headers = np.zeros(len(SIZES), ACTION), np.zeros(len(SIZES), HEADER)
    actions["kind"], actions["destination"] = ActionKind.SEND, int(ipaddress.IPv4Address(THERE))
    actions["length"], actions["payload"] = SIZES, payload.ctypes.data
    headers["opcode"], headers["position"] = Opcode.CONTRIBUTION, range(len(SIZES))
    return actions, headers, payload


def main() -> None:
    subprocess.run(["ip", "-batch", "-"], input=LINK, text=True, check=True)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP)) as tap:
        tap.bind(("tap0", ETH_P_IP))
        tap.settimeout(60)
        # A path MTU above the link's lets the kernel refuse the last packet.
        with UdpPort(HERE, mtu=16000) as port:
            actions, headers, _payload = tables()
            addresses = np.uint64(actions.ctypes.data), np.uint64(headers.ctypes.data)
            sent = int(transmit(port.state, *addresses, np.uint32(len(SIZES))))
            frames = [tap.recv(65536).hex() for _ in range(sent)]
            print(json.dumps({"frames": frames, "drops": port.drops()}))


if __name__ == "__main__":
    main()
