"""`python -m fanin_reference ADDRESS`: the switch at an address of this host, until SIGTERM or SIGINT."""

import argparse
import select
import socket
import time

from fanin_reference import packets
from fanin_reference.switch import Switch
from fanin_reference.times import TICK_S

IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2  # linux/in.h: don't fragment, and identification 0 ([3-9])
LANES = 2  # as in the profile "reference" of the conformance suite
BUFFER, MAX_PACKET, BATCH = 1 << 21, 1 << 16, 1000


def opened(address: str, port: int) -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    udp.bind((address, port))
    return udp


def send(ports: list[socket.socket], out: list[tuple[str, int, bytes]]) -> None:
    """Send each from the port of its lane. The kernel may lose some."""
    for to, lane, data in out:
        try:
            ports[lane].sendto(data, (to, packets.PORT))
        except OSError:
            continue


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fanin_reference", description=__doc__)
    parser.add_argument("address", help="IPv4 address of the switch; its UDP ports 4791 and 49152 must be free")
    parser.add_argument("--lanes", type=int, default=LANES, help=f"default: {LANES}")
    asked = parser.parse_args()
    try:
        inbox = opened(asked.address, packets.PORT)
        ports = [opened(asked.address, packets.FIRST_SOURCE_PORT + lane) for lane in range(asked.lanes)]
    except OSError as error:
        parser.error(f"{asked.address}: {error.strerror}; give an address of this host whose UDP ports are free")
    buffer = inbox.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
    switch = Switch(asked.address, asked.lanes, buffer)
    try_it = f"fanin conform --target udp://{asked.address} --profile reference"
    print(f"a switch at {asked.address}, of {asked.lanes} lanes; {try_it}", flush=True)
    next_tick = time.monotonic()
    while True:
        select.select([inbox], [], [], max(0.0, next_tick - time.monotonic()))
        for _ in range(BATCH):
            if not select.select([inbox], [], [], 0)[0]:
                break
            data, (source, port) = inbox.recvfrom(MAX_PACKET)
            send(ports, switch.receive(data, source, port, time.monotonic()))
        if time.monotonic() >= next_tick:
            send(ports, switch.tick(time.monotonic()))
            next_tick = time.monotonic() + TICK_S


if __name__ == "__main__":
    main()
