"""What PCI says about a function: its address, its class, the rate of its link."""

import re

from fanin_cluster.topology.machine import Kind

ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f])")
NVIDIA, AMD, INTEL, HABANA = "0x10de", "0x1002", "0x8086", "0x1da3"
# The first four hexadecimal digits of the class (PCI Code and ID Assignment Specification): base class, subclass.
CLASSES = {
    "0200": Kind.NIC,  # Ethernet
    "0207": Kind.NIC,  # InfiniBand
    "0280": Kind.NIC,  # other network controller
    "0604": Kind.SWITCH,  # PCI bridge
}
# GPUs are functions of these classes by these vendors, or by an unknown one. Other functions have the classes too:
# management controllers (ASPEED, Matrox), the displays of virtual machines (virtio, bochs, QXL), FPGA cards.
GPU_VENDORS = {
    "0300": {NVIDIA, AMD},  # VGA controller
    "0302": {NVIDIA, AMD, INTEL},  # 3D controller
    "0380": {NVIDIA, AMD, INTEL},  # display controller
    "1200": {NVIDIA, AMD, HABANA},  # processing accelerator
}
INTEGRATED = {(INTEL, "0000:00:02.0")}  # vendor and address of the graphics in a processor
PASSED_ON = {"vfio-pci", "pci-stub", "pciback", "uio_pci_generic", "igb_uio"}  # drivers that hide a function from Linux
GIGABYTES = 1e9
# Transfers a second (10^9) up to which a generation of PCIe codes 8 bits in 10; later ones code 128 in 130.
OLD_CODE_GT = 5.0


def normal_address(text: str) -> str | None:
    """An address in the form of Linux, "0000:19:00.0", also from nvidia-smi's "00000000:19:00.0"; None if invalid."""
    match = ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus:0>2}:{device:0>2}.{function}"


def kind_of_class(code: str, vendor: str, address: str = "") -> Kind:
    """The kind of a function by its class "0x030200" or "0302", its vendor "0x10de" ("" if unknown), its address."""
    digits, vendor = code.strip().lower().removeprefix("0x")[:4], vendor.lower()
    if digits in GPU_VENDORS:
        counts = (not vendor or vendor in GPU_VENDORS[digits]) and (vendor, address) not in INTEGRATED
        return Kind.GPU if counts else Kind.OTHER
    return CLASSES.get(digits, Kind.OTHER)


def link_rate(speed: str, width: str) -> float:
    """Bytes per second of a PCIe link, from "16.0 GT/s PCIe" and "16" as in sysfs; 0 if either is unknown."""
    rate = re.match(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*GT/s", speed)
    lanes = re.match(r"\s*(\d{1,9})(?!\d)", width)
    if rate is None or lanes is None:
        return 0.0
    transfers = float(rate[1])
    share = 8 / 10 if transfers <= OLD_CODE_GT else 128 / 130
    return transfers * 1e9 * share * int(lanes[1]) / 8
