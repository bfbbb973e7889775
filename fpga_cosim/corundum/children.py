"""Children of a switch that shares its port with corundum, in corundum's testbench: cocotb runs this module.

A model of a MAC has the frames. Corundum's model of its driver is the host, which also reads and writes the registers
of the switch, through PCIe and the application's AXI-Lite.
"""

import cocotb
import numpy as np
from cocotb.triggers import Timer
from test_mqnic_core_pcie_us import TB, mqnic

from fpga_cosim.corundum.testbench import APPLICATION
from fpga_cosim.tb.conversation import RECEIVED, TRANSMITTED, conversation, others, parted
from fpga_cosim.tb.registers import REGISTERS, drop_counters, own_settings

OTHERS, SEED = 24, 20261128  # frames of the NIC on each way
POLLS, POLL_NS = 400, 500


class Port:
    """The first port: the MAC's frames in both directions, and the host behind it."""

    def __init__(self, dut) -> None:
        self.bench = TB(dut, msix_count=2 ** len(dut.core_pcie_inst.irq_index))
        self.sent: list[bytes] = []  # by the MAC

    async def begin(self) -> None:
        """Bring the NIC up, as in corundum's own test."""
        await self.bench.init()
        await self.bench.driver.init_pcie_dev(self.bench.rc.find_device(self.bench.dev.functions[0].pcie_id))
        self.host = self.bench.driver.interfaces[0]
        self.registers = self.bench.driver.app_hw_regs
        await self.host.open()
        scheduler = self.host.sched_blocks[0].schedulers[0]
        await scheduler.rb.write_dword(mqnic.MQNIC_RB_SCHED_RR_REG_CTRL, 1)
        for queue in range(len(self.host.txq)):
            await scheduler.hw_regs.write_dword(4 * queue, 3)
        await self.bench.driver.hw_regs.read_dword(0)
        cocotb.start_soon(self._collect())

    async def _collect(self) -> None:
        while True:
            self.sent.append(bytes((await self.bench.port_mac[0].tx.recv()).data))

    async def receive(self, every: list[bytes]) -> None:
        """Let the MAC receive frames without gaps."""
        for frame in every:
            await self.bench.port_mac[0].rx.send(frame)

    async def delivered(self, count: int) -> list:
        """Wait until the host has received so many packets."""
        return [await self.host.recv() for _ in range(count)]

    async def transmit(self, every: list[bytes]) -> None:
        for frame in every:
            await self.host.start_xmit(frame, 0)

    async def read(self, name: str) -> int:
        return await self.registers.read_dword(REGISTERS[name])

    async def write(self, name: str, value: int) -> None:
        await self.registers.write_dword(REGISTERS[name], value)

    async def until(self, name: str, value: int) -> None:
        for _ in range(POLLS):
            if await self.read(name) == value:
                return
            await Timer(POLL_NS, "ns")
        raise AssertionError(f"{name} is {await self.read(name)}, not {value}")


@cocotb.test()
async def children_beside_a_nic(dut) -> None:
    """Off, on, off: children get the bits of the switch in plain Python; the NIC's frames pass with time stamps."""
    numbers = np.random.default_rng(SEED)
    talk = conversation(numbers)
    received, sent = (others(numbers, way, OTHERS) for way in (RECEIVED, TRANSMITTED))
    port = Port(dut)
    await port.begin()
    assert port.bench.driver.app_id == APPLICATION
    assert (await port.read("IDENTITY")).to_bytes(4, "big") == b"FNIN"

    await port.receive(talk.sent[:2])  # off: for the host
    assert [bytes(packet.data) for packet in await port.delivered(2)] == talk.sent[:2]

    wanted = own_settings()
    for name, value in wanted.items():
        await port.write(name, value)
    await port.write("CONTROL", 1)
    await port.until("STATUS", 1)
    await port.write("ADDRESS", 0)  # has no effect while it runs
    assert {name: await port.read(name) for name in wanted} == wanted

    mixed = [frame for pair in zip(talk.sent, received, strict=False) for frame in pair]
    mixed += talk.sent[len(received) :] + received[len(talk.sent) :]
    transmitting = cocotb.start_soon(port.transmit(sent))
    await port.receive(mixed)
    packets = await port.delivered(len(received))
    await transmitting
    await port.until("SENT", len(talk.answers))
    for _ in range(POLLS):
        if len(port.sent) < len(talk.answers) + len(sent):
            await Timer(POLL_NS, "ns")

    assert [bytes(packet.data) for packet in packets] == received
    stamps = [(packet.timestamp_s, packet.timestamp_ns) for packet in packets]
    assert stamps == sorted(set(stamps)), "time stamps of what the NIC received"
    assert stamps[0] > (0, 0)
    passed, answers = parted(port.sent)
    assert passed == sent
    assert talk.is_answered_by(answers)
    assert await port.read("RECEIVED") == len(talk.sent)
    assert (await port.read("OVERFLOWS"), await port.read("BAD_FRAMES")) == (0, 0)
    drops = {clause: await port.registers.read_dword(address) for clause, address in drop_counters().items()}
    assert {clause: count for clause, count in drops.items() if count} == dict(talk.drops)

    await port.write("CONTROL", 0)
    await port.until("STATUS", 0)
    await port.receive(talk.sent[:2])
    assert [bytes(packet.data) for packet in await port.delivered(2)] == talk.sent[:2]
