"""A full table of jobs, which refuses the next one until a job has ended; and the chunk of a job."""

import numpy as np

from fanin_reference import packets, spec
from fpga_cosim.tb import traffic
from fpga_cosim.tb.one_job import contribution, contributions, joined
from fpga_cosim.tb.target import ADDRESS, RtlTarget
from fpga_cosim.tb.verilated import Module

ENTRIES, NOW_US, CHUNK = 16, 1_000_000, 256


def test_full_table(module: Module) -> None:
    target = RtlTarget(1, module)
    (address,) = target.addresses

    def status(jid: int, name: str, data: bytes = b"") -> int:
        """The status in the answer to one packet."""
        packet = packets.build(name, address, ADDRESS, data, jid=jid, key=jid, lane=0, source=0)
        (answer,) = target.exchange_at(NOW_US, [(address, packet)], traffic.PORT)
        return spec.CETH.unpack(answer.data[spec.BTH.size :])["status"]

    body = {"boot_id": 1, "slots": 8, "window": 4, "chunk": 1024, "route": 1, "hops": 1}
    hop = {"address": 0xFFFF << 32 | int.from_bytes(bytes(map(int, ADDRESS.split(".")))), "mask": 1, "bit": 0}
    config = spec.CONFIG.pack(body) + spec.HOP.pack(hop)
    assert [status(jid, "CONFIG", config) for jid in range(1, ENTRIES + 1)] == ENTRIES * [spec.STATUS["SUCCESS"]]
    assert {each["jid"] for each in target.jobs()} == set(range(1, ENTRIES + 1))
    assert status(99, "CONFIG", config) == spec.STATUS["NO_RESOURCES"]
    assert status(7, "LEAVE") == spec.STATUS["SUCCESS"]
    assert status(99, "CONFIG", config) == spec.STATUS["SUCCESS"]
    assert {each["jid"] for each in target.jobs()} == {*range(1, ENTRIES + 1), 99} - {7}


def test_more_than_the_chunk(module: Module) -> None:
    """A payload that fits a slot but exceeds the chunk of its job is dropped. One of that length counts."""
    target, job, addresses = joined(module, 2, CHUNK)
    for size in (CHUNK + 4, 2 * CHUNK):
        long = np.zeros(size // 4, "<i4")
        sent = [contribution(job, address, bit, 0, long) for bit, address in enumerate(addresses)]
        assert target.exchange_frames(NOW_US, sent) == []
    assert target.drops["5-21"] == 4
    came = target.exchange_frames(NOW_US, contributions(job, addresses, 1, CHUNK))
    assert [each.data[0] for each in came] == 2 * [spec.OPCODES["RESULT"]]
