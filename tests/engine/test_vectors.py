"""The golden packets as input of the engine."""

import ipaddress

import pytest

from fanin_nic.engine.records.tables import JobState
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE, ICRC_SIZE, Opcode
from fanin_wire.golden import Vector, vector, vectors
from tests.engine.rig import LIMITS, STRANGER, SwitchRig, ip

CHUNK = 4096
LARGE = LIMITS._replace(max_chunk=CHUNK, slots=1024, max_lease=1024)


def of(*opcodes: Opcode) -> list[Vector]:
    return [golden for golden in vectors() if golden.value("BTH", "opcode") in opcodes]


def feed(rig: SwitchRig, golden: Vector, source: int | None = None) -> list:
    sender = ip(golden.headers["IP"]["source"]) if source is None else source
    return rig.receive_bytes(golden.datagram[:-ICRC_SIZE], sender)


def lease_of(golden: Vector) -> int:
    """A lease whose slot in the packet serves its position."""
    position, seg = golden.value("CETH", "position"), golden.value("CETH", "seg")
    return next(size for size in (8, 16, 32, 64, 128, 256, 512, 1024) if position % size == seg)


def switch_of(golden: Vector) -> SwitchRig:
    """A switch that waits for exactly this packet: from the last of its children, for the due position."""
    children = golden.value("CETH", "source") + 1
    rig = SwitchRig(children, join=False, limits=LARGE)
    rig.engine.header["first_position"] = golden.value("CETH", "position")
    job = {"jid": golden.value("CETH", "jid"), "key": golden.value("CETH", "key")}
    for bit in range(children):
        sender = ip(golden.headers["IP"]["source"])
        rig.join(bit, source=sender, ceth=job, slots=lease_of(golden), chunk=CHUNK)
    assert rig.job["state"] == JobState.ACTIVE
    return rig


@pytest.mark.parametrize("golden", of(*Opcode), ids=lambda golden: golden.name)
def test_every_offload_packet_can_be_read(golden: Vector) -> None:
    rig = SwitchRig(join=False, limits=LARGE)
    feed(rig, golden, STRANGER)
    assert rig.count(f"rx_{Opcode(golden.value('BTH', 'opcode')).name}") == 1
    assert not any(rig.count(name) for name in ("drop_short", "drop_version", "drop_unknown_opcode", "drop_length"))


@pytest.mark.parametrize("golden", of(*range(FIRST_OFFLOAD_OPCODE)), ids=lambda golden: golden.name)
def test_ordinary_packets_stay_ordinary(golden: Vector) -> None:
    rig = SwitchRig()
    assert feed(rig, golden) == []
    assert rig.count("ordinary_packets") == 1


@pytest.mark.parametrize("golden", of(Opcode.CONTRIBUTION), ids=lambda golden: golden.name)
def test_contribution_is_taken(golden: Vector) -> None:
    rig = switch_of(golden)
    feed(rig, golden)
    position, bit = golden.value("CETH", "position"), golden.value("CETH", "source")
    slot = rig.slot(position)
    assert slot["position"] == position
    assert slot["node_missing"] == (1 << bit) - 1
    assert slot["contributions"] == golden.value("CETH", "contributions")
    assert slot["status"] == golden.value("CETH", "status")
    for name in ("op", "dtype", "mid", "sid"):
        assert slot[name] == golden.value("CETH", name)
    place = (int(rig.job["slot_base"]) + golden.value("CETH", "seg")) * int(rig.engine.header["stride"])
    assert rig.engine.tables["payload"][place : place + len(golden.payload)].tobytes() == golden.payload


@pytest.mark.parametrize("packet", ["config_one_hop", "config_three_hops"])
def test_config_forms_the_job_that_it_describes(packet: str) -> None:
    golden = vector(packet)
    rig = SwitchRig(join=False, limits=LARGE)
    rig.engine.header["address"] = int(ipaddress.IPv6Address(golden.headers["HOP"][0]["address"])) & 0xFFFFFFFF
    (answer, *_) = feed(rig, golden)[-1:]
    assert answer.opcode == Opcode.CONFIG_ACK
    body, job = golden.headers["CONFIG"], rig.job
    for name in ("digest_high", "digest_low", "chunk", "route"):
        assert job[name] == body[name]
    assert job["config_mask"] == golden.headers["HOP"][0]["mask"]
    assert job["node_joined"] == 1 << golden.value("CETH", "source")
    assert job["has_parent"] == (len(golden.headers["HOP"]) > 1)
