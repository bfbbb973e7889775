"""Headers, ICRC and packets that are malformed."""

from fanin_conform import datagram
from fanin_conform.job import ALL, DATA, WANTS, Job, f32
from fanin_conform.script import script
from fanin_conform.tester import Tester
from fanin_wire.abi import DType, Op
from fanin_wire.fields import BTH, CETH, ICRC_SIZE, Opcode
from fanin_wire.layers import BTH as BTH_LAYER
from fanin_wire.rocev2 import CODES


def second_contribution(tester: Tester) -> tuple[Job, bytes]:
    """A position that lacks one contribution, and that contribution as a datagram."""
    job = Job(tester)
    job.contribute(0, 0, f32(1))
    tester.nothing()
    code = {"op": int(Op.SUM), "dtype": int(DType.F32), "flags": ALL | WANTS | DATA}
    packet = job.packet(Opcode.CONTRIBUTION, 1, f32(2).tobytes(), **job.place(0), **code)
    packet["CETH"].contributions, packet["CETH"].node_bitmap = 1, 2
    return job, datagram.build(packet, job.addresses[1], tester.target.address)


def right(tester: Tester, job: Job, data: bytes) -> bytes:
    return datagram.with_icrc(job.addresses[1], tester.target.address, datagram.TESTER_PORT, data)


def completes(tester: Tester, job: Job, data: bytes) -> None:
    """The right packet still completes the position: dropped packets have changed nothing."""
    tester.send(job.addresses[1], data)
    tester.expect(job.result(0, 0, f32(3)), job.result(1, 0, f32(3)), clause="5-22")


@script("3-1", "3-2", "3-10", "5-2", "5-22", needs=("port",))
def each_flipped_bit_of_a_packet(tester: Tester) -> None:
    """Each bit that the ICRC covers is flipped once. None of these packets is taken."""
    job, data = second_contribution(tester)
    masked = BTH.byte_offset("fecn")
    for bit in range(len(data) * 8):
        if bit // 8 == masked:
            continue
        wrong = bytearray(data)
        wrong[bit // 8] ^= 0x80 >> bit % 8
        tester.send(job.addresses[1], bytes(wrong))
        if bit % 64 == 63:
            tester.nothing("5-2")
    tester.nothing("5-2")
    completes(tester, job, data)


@script("3-7", needs=("port",))
def marks_of_the_network_do_not_count(tester: Tester) -> None:
    """FECN, BECN and the bits beside them may change on the way: the ICRC does not cover them."""
    job, data = second_contribution(tester)
    marked = bytearray(data)
    marked[BTH.byte_offset("fecn")] ^= 0xFF
    completes(tester, job, bytes(marked))


@script("5-3", "5-6", "5-7", "5-22")
def shorter_and_longer_than_it_says(tester: Tester) -> None:
    """A packet of every length but the right one is dropped."""
    job, data = second_contribution(tester)
    body = data[:-ICRC_SIZE]
    for length in [*range(0, len(body), 4), *range(len(body) + 4, len(body) + 44, 4)]:
        tester.send(job.addresses[1], right(tester, job, (body + bytes(40))[:length] + bytes(ICRC_SIZE)))
    tester.nothing("5-7")
    completes(tester, job, data)


@script("5-6", "10.6-2")
def versions_that_are_not_this_one(tester: Tester) -> None:
    """A CETH or BTH of another version is dropped."""
    job, data = second_contribution(tester)
    for version in (0, 1, 3, 255):
        tester.send(job.addresses[1], right(tester, job, data[: BTH.size] + bytes([version]) + data[BTH.size + 1 :]))
    for version in (1, 15):
        tester.send(job.addresses[1], right(tester, job, data[:1] + bytes([data[1] | version]) + data[2:]))
    tester.nothing("5-6")
    completes(tester, job, data)


@script("5-5")
def opcodes_and_sources_that_there_are_not(tester: Tester) -> None:
    """Opcodes above 0xCE and sources above 63 are dropped."""
    job, data = second_contribution(tester)
    for code in (0xCF, 0xD0, 0xFE, 0xFF):
        tester.send(job.addresses[1], right(tester, job, bytes([code]) + data[1:]))
    at = BTH.size + CETH.byte_offset("source")
    for source in (64, 65, 255):
        tester.send(job.addresses[1], right(tester, job, data[:at] + bytes([source]) + data[at + 1 :]))
    tester.nothing("5-5")
    completes(tester, job, data)


@script("2-11", "2.2-1")
def reserved_and_unnamed_fields_are_not_looked_at(tester: Tester) -> None:
    """Reserved fields, PSN and fields that section 4 does not name may have any value."""
    job, data = second_contribution(tester)
    changed = bytearray(data)
    changed[8:12] = b"\x7f\xff\xff\xff"  # reserved bits, PSN
    token = BTH.size + CETH.byte_offset("token")
    changed[token : token + 4] = b"\xff" * 4
    completes(tester, job, right(tester, job, bytes(changed)))


@script("5-4", "6.1-6")
def ordinary_traffic_is_no_business_of_a_job(tester: Tester) -> None:
    """Packets with opcodes below 0xC0 beside a job: nothing answers them, and the job goes on."""
    job, data = second_contribution(tester)
    for code in sorted(set(CODES.values())):
        tester.send(job.addresses[1], BTH_LAYER(opcode=code, dqpn=0x11) / bytes(32))
    tester.nothing("5-4")
    completes(tester, job, data)
