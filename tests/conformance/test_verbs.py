"""Ordinary traffic: the suite passes a sound transport, and fails each faulty one in the broken demand."""

import json

import pytest
from typer.testing import CliRunner

from fanin_conform import suite
from fanin_conform.faults import Fault, FaultyTarget
from fanin_conform.profile import Profile, read
from fanin_conform.script import NIC, NIC_TREE, ROCEV2, SWITCH
from fanin_conform.targets.engine import EngineNicTarget
from fanin_conform.targets.target import Target
from fanin_conform.verbs import packets
from fanin_conform.verbs_faults import DEVICE_FAULTS, PACKET_FAULTS, DeviceFault, FaultyDeviceTarget
from fanin_tools.cli.app import app
from fanin_wire.agent import AgentError, Answer, Request
from fanin_wire.golden import Vector, vectors
from fanin_wire.settings import InvalidSetting
from tests.fabric.fixtures import own_state_folder

PROFILE = Profile(role="rocev2")
SCRIPTS = suite.chosen([], ROCEV2)
ORDINARY = [golden for golden in vectors() if golden.file == "rocev2"]
# One of each kind over UDP; `fanin conform --target nic` has all.
SAMPLE = ["rocev2_packets/a_wrong", "rocev2_atomics/a_rep", "rocev2_requester/silence", "rocev2_unreliable/datagrams"]


def ignore(verdict: suite.Verdict) -> None:
    """Of no interest."""


class Listening(EngineNicTarget):
    """Keeps the opcodes of its input."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.opcodes: set[int] = set()

    def send(self, source: str, data: bytes) -> None:
        self.opcodes.add(data[0])
        super().send(source, data)


def test_the_transport_passes() -> None:
    """It gets no packet of the offload: a NIC of another maker can have this role."""
    target = Listening(suite.ADDRESSES)
    verdicts = suite.run(target, SCRIPTS, 1, ignore, PROFILE)
    assert [(each.script.name, each.text) for each in verdicts if each.outcome == suite.FAILED] == []
    not_run = {each.script.name for each in verdicts if each.outcome == suite.NOT_RUN}
    assert not_run == {each.name for each in SCRIPTS if each.needs}
    assert len(verdicts) - len(not_run) > 60
    assert len(target.opcodes) > 20
    assert max(target.opcodes) < 0xC0


def failed_clauses(target: Target, clause: str) -> set[str]:
    naming = [each for each in SCRIPTS if clause in each.clauses and not each.needs]
    assert naming
    found: set[str] = set()
    for each in naming:
        (verdict,) = suite.run(target, [each], 1, ignore, PROFILE)
        found |= set(verdict.clauses) if verdict.outcome == suite.FAILED else set()
        if clause in found:
            break
    return found


@pytest.mark.parametrize("fault", PACKET_FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_packet_fails_in_the_demand_that_it_breaks(fault: Fault) -> None:
    assert fault.clause in failed_clauses(FaultyTarget(EngineNicTarget(suite.ADDRESSES), fault), fault.clause)


@pytest.mark.parametrize("fault", DEVICE_FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_device_fails_in_the_demand_that_it_breaks(fault: DeviceFault) -> None:
    assert fault.clause in failed_clauses(FaultyDeviceTarget(suite.ADDRESSES, fault), fault.clause)


def test_roles_choose_scripts() -> None:
    names = {each.name for each in SCRIPTS}
    assert names <= {each.name for each in suite.chosen([], NIC)}
    assert not names & {each.name for role in (SWITCH, NIC_TREE) for each in suite.chosen([], role)}


def test_a_small_device() -> None:
    """Without UC and atomics, as in its profile."""
    profile = read('role = "rocev2"\nservices = ["RC", "UD"]\natomics = false\n')
    chosen = suite.chosen(["rocev2_unreliable/", "rocev2_atomics/fetch", "rocev2_refusals/operations"], ROCEV2)
    verdicts = suite.run(EngineNicTarget(suite.ADDRESSES), chosen, 1, ignore, profile)
    found = {each.script.name: each for each in verdicts}
    assert [name for name, each in found.items() if each.outcome == suite.FAILED] == []
    assert found["rocev2_unreliable/messages_of_uc"].text == "the device has no queue pairs of UC"
    assert found["rocev2_atomics/fetch_and_add"].text == "the device has no atomics"
    assert found["rocev2_unreliable/datagrams"].outcome == suite.PASSED
    with pytest.raises(InvalidSetting, match="services: 'XRC' is unknown"):
        read('services = ["XRC"]')


@pytest.mark.parametrize("golden", ORDINARY, ids=lambda golden: golden.name)
def test_the_icrc_of_golden_packets(golden: Vector) -> None:
    """A flipped bit is noticed, except in the byte that the network may change."""
    source, destination = golden.headers["IP"]["source"], golden.headers["IP"]["destination"]
    port = int.from_bytes(golden.packet[20:22])
    assert packets.icrc_is_right(source, destination, port, golden.datagram)
    for bit in range(len(golden.datagram) * 8):
        flipped = bytearray(golden.datagram)
        flipped[bit // 8] ^= 1 << bit % 8
        assert packets.icrc_is_right(source, destination, port, bytes(flipped)) is (bit // 8 == 4), bit


@pytest.mark.process
def test_scripts_over_udp() -> None:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        done = CliRunner().invoke(app, ["conform", "--target", "nic", "--json", *SAMPLE])
    entries = json.loads(done.stdout)["scripts"]
    assert [(entry["script"], entry["text"]) for entry in entries if entry["outcome"] != "passed"] == []
    assert len(entries) > 5


def test_an_agent_without_queue_pairs() -> None:
    """Scripts beyond it are not run, but named."""

    class Lacking(EngineNicTarget):
        def __init__(self, count: int) -> None:
            super().__init__(count)
            self.agent = self

        def ask(self, request: Request) -> Answer:
            raise AgentError("WRONG_REQUEST", "Invalid value 'create_qp'")

    (verdict,) = suite.run(Lacking(suite.ADDRESSES), SCRIPTS[:1], 1, ignore, PROFILE)
    assert verdict.outcome == suite.NOT_RUN
    assert "no queue pairs of ordinary traffic (WRONG_REQUEST: Invalid value 'create_qp')" in verdict.text
