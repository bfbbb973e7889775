"""Reads and writes of the host on AXI-Lite, with pauses on both sides."""

import numpy as np
import pytest

from fanin_wire.fields import WIRE_VERSION
from fpga_cosim.tb.axi_lite import OKAY, SLVERR, Host
from fpga_cosim.tb.registers import REGISTERS, settings
from fpga_cosim.tb.target import reasons
from fpga_cosim.tb.verilated import Module

SETTINGS = {"MAC_HIGH": 16, "MAC_LOW": 32, "ADDRESS": 32, "GROUP": 32, "GROUP_SIZE": 16}
COUNTERS = {"RECEIVED": "received", "SENT": "sent", "OVERFLOWS": "overflows", "BAD_FRAMES": "bad_frames"}


class SwitchHost(Host):
    """The host, and the settings as the switch sees them."""

    def __init__(self, module: Module, generator: np.random.Generator) -> None:
        self.inputs, self._module = np.zeros(1, module.inputs), module
        module.reset()
        super().__init__(self.inputs, lambda: module.run(self.inputs)[0], generator)

    def settings(self) -> dict[str, int]:
        seen = self._module.run(self.inputs)[0]
        mac = int(seen["own_mac"]).to_bytes(6)
        return settings(mac, *(int(seen[name]) for name in ("own_address", "group_address", "group_size")))


@pytest.fixture
def host(generator: np.random.Generator) -> SwitchHost:
    return SwitchHost(Module("switch_registers", {"ADDRESS": 24}), generator)


def test_settings(host: SwitchHost, generator: np.random.Generator) -> None:
    """They are 0 at first, and can be written, except while the switch is on or runs."""
    assert host.settings() == dict.fromkeys(SETTINGS, 0)
    for _ in range(20):
        wanted = {name: int(generator.integers(1 << bits)) for name, bits in SETTINGS.items()}
        for name in generator.permutation(list(SETTINGS)):
            assert host.write(REGISTERS[name], wanted[name]) == OKAY
        for on, runs in ((0, 0), (1, 0), (1, 1), (0, 1)):
            host.inputs["runs"] = runs
            assert host.write(REGISTERS["CONTROL"], on) == OKAY
            assert (host.read(REGISTERS["CONTROL"]), host.read(REGISTERS["STATUS"])) == (on, runs)
            for name in SETTINGS if on or runs else []:
                assert host.write(REGISTERS[name], int(generator.integers(1 << 32))) == SLVERR
            assert host.settings() == wanted
            assert {name: host.read(REGISTERS[name]) for name in SETTINGS} == wanted
        host.inputs["runs"] = 0


def test_counters(host: SwitchHost, generator: np.random.Generator) -> None:
    """Each is at its place, as the drops of each reason are."""
    for name in COUNTERS.values():
        host.inputs[name] = int(generator.integers(1 << 32))
    drops = generator.integers(0, 1 << 32, max(reasons()) + 1, np.uint32)
    host.inputs["drops"] = drops.view(np.uint8)
    for name, port in COUNTERS.items():
        assert host.read(REGISTERS[name]) == host.inputs[port][0]
    assert [host.read(REGISTERS["DROPS"] + 4 * reason) for reason in range(len(drops))] == drops.tolist()


def test_what_is_no_setting(host: SwitchHost) -> None:
    """Identity, version, and addresses that read as 0. A write to them, or to a part of a word, is refused."""
    assert host.read(REGISTERS["IDENTITY"]).to_bytes(4) == b"FNIN"
    assert host.read(REGISTERS["VERSION"]) == WIRE_VERSION
    for address in (REGISTERS["IDENTITY"], REGISTERS["STATUS"], REGISTERS["SENT"], REGISTERS["DROPS"], 0xFC):
        assert host.write(address, 0xFFFFFFFF) == SLVERR
    for beyond in (1 << 8, 1 << 23):
        assert host.write(beyond + REGISTERS["ADDRESS"], 5) == SLVERR
        assert host.read(beyond + REGISTERS["IDENTITY"]) == 0
    assert host.write(REGISTERS["ADDRESS"], 5, strobe=0x7) == SLVERR
    assert host.settings() == dict.fromkeys(SETTINGS, 0)
