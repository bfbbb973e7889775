"""The programs `fanin-nic` and `fanin-switch`."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import signal
import sys

from fanin_wire.detection import DEFAULT_DETECTION, LONGEST_DETECTION, SHORTEST_DETECTION

PORT_HELP = "IPv4 address of the device; it receives on UDP port 4791"
GROUP_HELP = "multicast address that results go to, if all devices below hear it"
GROUP_SIZE_HELP = "devices that listen to it: results go there only if most of them want these"
PARENT_GROUP_HELP = "--group of the device above"
DETECTION_HELP = f"silence after which a neighbour is lost (default {DEFAULT_DETECTION:g}); the same on all devices"


def _arguments(kind: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"fanin-{kind}", description=f"A collective-offload {kind}. It is ready when its socket answers."
    )
    parser.add_argument("--name", required=True, help="name in logs and status")
    parser.add_argument("--address", required=True, help=PORT_HELP)
    parser.add_argument("--socket", required=True, help="path of the control socket")
    parser.add_argument("--mtu", type=int, default=9000, help="MTU of the path in bytes (default 9000)")
    parser.add_argument("--slots", type=int, default=4096, help="seg buffers of each lane (default 4096)")
    parser.add_argument("--receive-buffer", type=int, help="bytes of the socket's receive buffer")
    parser.add_argument("--lanes", type=int, default=1, help="cores to use: a power of two up to 16 (default 1)")
    parser.add_argument(
        "--detection", type=_detection, default=DEFAULT_DETECTION, metavar="SECONDS", help=DETECTION_HELP
    )
    parser.add_argument("--group", type=_group, help=GROUP_HELP)
    parser.add_argument("--group-size", type=int, default=0, help=GROUP_SIZE_HELP)
    parser.add_argument("--parent-group", type=_group, help=PARENT_GROUP_HELP)
    parser.add_argument("--log-level", default="warning", choices=("debug", "info", "warning", "error"))
    return parser.parse_args()


def _detection(text: str) -> float:
    seconds = float(text)
    if not SHORTEST_DETECTION <= seconds <= LONGEST_DETECTION:
        raise argparse.ArgumentTypeError(f"{text}: use {SHORTEST_DETECTION} to {LONGEST_DETECTION:.0f} seconds")
    return seconds


def _group(text: str) -> str:
    try:
        known = ipaddress.IPv4Address(text).is_multicast
    except ValueError:
        known = False
    if not known:
        raise argparse.ArgumentTypeError(f"{text}: use a multicast address, 239.77.0.1 for instance")
    return text


def _serve(kind: str) -> int:
    arguments = _arguments(kind)
    logging.basicConfig(
        level=arguments.log_level.upper(), format=f"%(asctime)s {arguments.name} %(levelname)s %(name)s: %(message)s"
    )
    from fanin_nic.daemon.device import Device, Settings
    from fanin_nic.hostif.listener import SocketInUse
    from fanin_nic.port.sockets import PortError

    try:
        device = Device(
            Settings(
                arguments.name,
                arguments.address,
                arguments.socket,
                kind == "switch",
                arguments.mtu,
                arguments.slots,
                arguments.receive_buffer,
                arguments.lanes,
                arguments.detection,
                arguments.group,
                arguments.group_size,
                arguments.parent_group,
            )
        )
    except (PortError, SocketInUse, OSError) as error:
        print(f"fanin-{kind}: {arguments.name}: {error}", file=sys.stderr)
        return 1
    signal.set_wakeup_fd(device.wake_writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: device.stop())
    try:
        device.run()
    finally:
        device.close()
    return 0


def nic() -> None:
    """Entry point of `fanin-nic`."""
    sys.exit(_serve("nic"))


def switch() -> None:
    """Entry point of `fanin-switch`."""
    sys.exit(_serve("switch"))
