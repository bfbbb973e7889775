"""The registers of the switch on AXI-Lite, by the header that the Verilog has of them."""

from __future__ import annotations

import re

from fpga_cosim.tb.tools import RTL

REGISTERS = {
    name: int(address, 16)
    for name, address in re.findall(r"`define REGISTER_(\w+) 8'h(\w+)", (RTL / "register_map.vh").read_text())
}


def settings(mac: bytes, address: int, group: int = 0, group_size: int = 0) -> dict[str, int]:
    """The settings of a switch by register; addresses of IPv4 are numbers."""
    high, low = int.from_bytes(mac[:2]), int.from_bytes(mac[2:])
    return {"MAC_HIGH": high, "MAC_LOW": low, "ADDRESS": address, "GROUP": group, "GROUP_SIZE": group_size}
