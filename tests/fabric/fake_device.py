"""A daemon without an engine: answers STATUS on its control socket, so that fabrics can be tested in milliseconds.

Arguments as those of the daemons. FANIN_FAKE_DEVICE_FAILS names a device that ends at once with a complaint.
"""

import argparse
import json
import os
import signal
import socket
import sys

import numpy as np

from fanin_wire import abi


def answer(name: str, address: str) -> bytes:
    head = np.zeros(1, abi.MESSAGE)
    head["version"], head["type"] = abi.ABI_VERSION, abi.MessageType.STATUS
    status = {
        "name": name,
        "address": address,
        "pid": os.getpid(),
        "slots": {"total": 4096, "leased": 0, "high_water": 0},
        "jobs": [],
        "links": {},
        "draining": False,
        "counters": {},
    }
    return head.tobytes() + json.dumps(status).encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--name", "--address", "--socket", "--mtu", "--slots"):
        parser.add_argument(option)
    options = parser.parse_args()
    if os.environ.get("FANIN_FAKE_DEVICE_FAILS") == options.name:
        sys.exit(f"{options.name} was told to fail")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind((options.address, 4791))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(options.socket)
    listener.listen()
    while True:
        connection, _ = listener.accept()
        with connection:
            if connection.recv(1024):
                connection.send(answer(options.name, options.address))


if __name__ == "__main__":
    main()
