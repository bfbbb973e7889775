"""Write every frame of an interface into a pcap file, until the input ends. Arguments: interface, file.

It only needs a packet socket. tcpdump may be missing, and its file does not show how many packets it dropped.
"""

import select
import socket
import struct
import sys

ETH_P_ALL = 3  # linux/if_ether.h
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
BUFFER = 64 << 20
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 0xFFFF, 1)  # version 2.4, Ethernet


def main() -> None:
    interface, path = sys.argv[1:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as link, open(path, "wb") as file:
        link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        link.bind((interface, 0))
        file.write(FILE_HEADER)
        print("ready", flush=True)
        ended = False
        while True:
            ready, _, _ = select.select([link] if ended else [link, sys.stdin], [], [], 0 if ended else None)
            if link in ready:
                frame = link.recv(0xFFFF)
                file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
            elif not ready:
                return
            ended = ended or sys.stdin in ready


if __name__ == "__main__":
    main()
