"""The registers of the switch on AXI-Lite, from the Verilog's header."""

import ipaddress
import re

from fpga_cosim.tb import frames
from fpga_cosim.tb.target import ADDRESS, reasons
from fpga_cosim.tb.tools import RTL

REGISTERS = {
    name: int(address, 16)
    for name, address in re.findall(r"`define REGISTER_(\w+) 8'h(\w+)", (RTL / "register_map.vh").read_text())
}


def settings(mac: bytes, address: int, group: int = 0, group_size: int = 0) -> dict[str, int]:
    """The settings of a switch by register; addresses of IPv4 are numbers."""
    high, low = int.from_bytes(mac[:2]), int.from_bytes(mac[2:])
    return {"MAC_HIGH": high, "MAC_LOW": low, "ADDRESS": address, "GROUP": group, "GROUP_SIZE": group_size}


def own_settings() -> dict[str, int]:
    """The settings of the test switch, which has no group."""
    return settings(frames.mac_of(ADDRESS), int(ipaddress.IPv4Address(ADDRESS)))


def drop_counters() -> dict[str, int]:
    """The counter's address for each demand by which packets are dropped."""
    return {clause: REGISTERS["DROPS"] + 4 * number for number, clause in reasons().items()}
