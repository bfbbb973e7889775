"""Switches that are the one in Verilog, simulated: what their fabric may be, and their process."""

from fanin_conform.targets.rtl import RtlMissing, simulation
from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import RTL, RTL_MTU, DescriptionError, Device, Fabric
from fanin_tools.progress import ProgressCallback, activity
from fanin_wire.limits import DEFAULT_DETECTION
from fanin_wire.settings import DeviceSettings


def devices(fabric: Fabric) -> list[Device]:
    return [device for device in fabric.switches if device.model == RTL]


def check(fabric: Fabric, source: str) -> None:
    """Raise DescriptionError if a simulated switch can not do what the fabric needs (docs/fpga.md)."""
    for switch in devices(fabric):
        place = f"{source}: switch {switch.name}"
        for asked, remedy in (
            (len(fabric.switches) > 1, "use one switch: no --fanout of several levels"),
            (not switch.offload, "leave offload = false out"),
            (fabric.lanes > 1, "use one lane (--lanes 1)"),
            (bool(switch.group), "leave its group out (--no-multicast)"),
            (switch.port != "udp", "leave its port out"),
            (fabric.detection != DEFAULT_DETECTION, f"use {DEFAULT_DETECTION:g} s of detection, as it is built"),
            (fabric.mtu > RTL_MTU, f"use mtu = {RTL_MTU}: its segments are of 1 KiB"),
        ):
            if asked:
                raise DescriptionError(place, "the switch in Verilog does not support this", remedy)


def build(fabric: Fabric, progress: ProgressCallback) -> None:
    """Compile the simulation, if the fabric needs it and it is missing. Raises ToolError NOT_SUPPORTED."""
    if not devices(fabric):
        return
    try:
        with activity("compiling the switch in Verilog (once; half a minute)", progress, silence=1) as compiling:
            compiling.update()
            with simulation("target") as target:
                target.build()
    except RtlMissing as lacking:
        raise ToolError("NOT_SUPPORTED", str(lacking), lacking.remedy) from None


def serve(settings: DeviceSettings) -> int:
    """In the process of the switch: simulate it until a signal ends it. Returns the exit code."""
    with simulation("daemon") as daemon:
        code: int = daemon.serve(settings)
    return code
