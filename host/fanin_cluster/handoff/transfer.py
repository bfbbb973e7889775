"""A plan carried out over devices: each stripe by RDMA WRITE of RC queue pairs, then copies within node 2.

There is one process for each node, which reaches all its NICs. Its "GPUs" are arrays of its memory: that of each second
GPU is registered with the NIC of its link. The two processes agree over a connection that the program brings, by lines
of JSON:

| from | line |
| --- | --- |
| both | digest of the plan; of each link the number of the queue pair, the GID, and the key and address of the memory |
| receiver | its queue pairs are connected |
| sender | of each chunk: it has arrived; or which links have failed, with the ranges that have; or none is left |
| receiver | every GPU has the data |

A link has failed if a WRITE ends with an error (the other NIC or the way to it is gone) or if the own NIC is gone. What
it had not yet had acknowledged is striped over the other links.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanin.errors import FaninError
from fanin.verbs import CQ, GID, MR, PD, QP, SGE, AHAttr, Context, GlobalRoute, QPAttr, QPInitAttr, SendWR
from fanin.verbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC, IBV_WR_RDMA_WRITE
from fanin_cluster.handoff.channel import HandoffFailed, Lines, broken
from fanin_cluster.handoff.plan import Plan
from fanin_cluster.handoff.ranges import joined
from fanin_cluster.handoff.selection import HandoffInvalid, device_of

READ_ONLY, WRITTEN = 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE  # of node 1, of node 2
CHUNK = 1 << 20  # bytes of a WRITE: what a failing link loses at least
DEPTH = 16  # WRITEs under way on a link
Bytes = NDArray[np.uint8]


def send(plan: Plan, data: Bytes, devices: Mapping[str, str], channel: socket.socket, chunks: int = 1) -> Plan:
    """Send data to another node, which calls `recv` with the same plan.

    Args:
        data: the `plan.size` bytes, contiguous; they must stay as they are until the call returns.
        devices: the socket of the device of each NIC of the plan's links, by the name of the NIC.
        channel: a connection to the process that receives.
        chunks: in how many the stages follow each other; 1: one stage after the other, as in the document. `recv` must
            be given the same number; `cost.chosen_chunks` has the one with the least predicted time.

    Returns: the plan of the last round, of the last chunk: `failed` names the links that have failed.
    Raises HandoffFailed, HandoffInvalid, or FaninError for a device that can not be reached.
    """
    _check(plan, data, (plan.size,), chunks)
    if not plan.size:
        return plan
    with contextlib.ExitStack() as opened:
        ends = [opened.enter_context(End(device_of(devices, link.first_nic), data, READ_ONLY)) for link in plan.links]
        lines = opened.enter_context(Lines(channel))
        peers = agree(plan, ends, lines, chunks)
        lines.take("connected")
        with ThreadPoolExecutor(len(ends)) as threads:
            failed = plan.failed
            for part in plan.in_chunks(chunks):
                plan = _send_part(part.avoiding(failed), ends, peers, lines, threads)
                failed = plan.failed
                lines.put({"arrived": True})
        lines.take("received")
    return plan


def _send_part(
    plan: Plan, ends: list[End], peers: list[dict[str, Any]], lines: Lines, threads: ThreadPoolExecutor
) -> Plan:
    """Write all stripes, also those of links that fail. Returns the plan of the last round."""
    while True:
        work: dict[int, list[tuple[int, int]]] = {}
        for link, copy in plan.send:
            work.setdefault(link, []).append((copy.offset, copy.length))
        rounds = {link: threads.submit(ends[link].write, ranges, peers[link]) for link, ranges in work.items()}
        outcomes = {link: each.result() for link, each in rounds.items()}
        failures = {link: joined(arrived) for link, (whole, arrived) in outcomes.items() if not whole}
        if not failures:
            return plan
        try:
            plan = plan.without(failures)
        except HandoffInvalid as error:
            lines.put({"lost": error.cause})
            raise HandoffFailed(error.cause, error.remedy) from None
        lines.put({"failures": [[link, arrived] for link, arrived in failures.items()]})


def recv(plan: Plan, memory: Bytes, devices: Mapping[str, str], channel: socket.socket, chunks: int = 1) -> Plan:
    """Receive the data of `send`, into the memory of every GPU.

    Args:
        memory: of shape (GPUs of node 2, `plan.size`), contiguous; a row for each GPU.

    The others, returns and raises are those of `send`. With several chunks, the copies within this node are done while
    the next chunk arrives.
    """
    _check(plan, memory, (len(plan.second_gpus), plan.size), chunks)
    if not plan.size:
        return plan
    with contextlib.ExitStack() as opened:
        ends = [
            opened.enter_context(End(device_of(devices, link.second_nic), memory[link.second], WRITTEN))
            for link in plan.links
        ]
        lines = opened.enter_context(Lines(channel))
        agree(plan, ends, lines, chunks)
        lines.put({"connected": True})
        failed = plan.failed
        for part in plan.in_chunks(chunks):
            plan = part.avoiding(failed)
            while "arrived" not in (said := lines.take("arrived", "failures", "lost")):
                if "lost" in said:
                    raise HandoffFailed(str(said["lost"]), "repair a link and begin anew")
                plan = plan.without(failures_of(said["failures"]))
            failed = plan.failed
            for copy in [*plan.diffuse, *plan.collect]:
                place = slice(copy.offset, copy.offset + copy.length)
                memory[copy.target, place] = memory[copy.source, place]
        lines.put({"received": True})
    return plan


class End:
    """One end of a link: a queue pair of a NIC, and memory of this process that is registered there with rights."""

    def __init__(self, device: str, memory: Bytes, rights: int) -> None:
        self.rights = rights
        self.context = Context(device)
        try:
            self.pd = PD(self.context)
            self.cq = CQ(self.context)
            self.mr = MR(self.pd, memory.nbytes, rights, memory.ctypes.data)
            self.qp = QP(self.pd, QPInitAttr(IBV_QPT_RC, self.cq, self.cq))
            self.gid = self.context.query_gid().gid
        except BaseException:
            self.context.close()
            raise

    def __enter__(self) -> End:
        return self

    def __exit__(self, *reason: object) -> None:
        with contextlib.suppress(FaninError):  # of a device that is gone nothing needs to be given back
            self.context.close()

    def described(self) -> dict[str, Any]:
        """What the other end must know."""
        return {"qpn": self.qp.qp_num, "gid": self.gid, "rkey": self.mr.rkey, "address": self.mr.address}

    def connect(self, peer: Mapping[str, Any]) -> None:
        """Bring the queue pair to RTS."""
        route = AHAttr(GlobalRoute(peer["gid"]))
        self.qp.to_rts(QPAttr(dest_qp_num=peer["qpn"], ah_attr=route, qp_access_flags=self.rights))

    def write(self, ranges: list[tuple[int, int]], peer: Mapping[str, Any]) -> tuple[bool, list[tuple[int, int]]]:
        """Write ranges (offset, length) to the same offsets of the other end.

        Returns: whether all have arrived, and the ranges that have been acknowledged.
        """
        chunks = [
            (start, min(CHUNK, offset + length - start))
            for offset, length in ranges
            for start in range(offset, offset + length, CHUNK)
        ]
        arrived: list[tuple[int, int]] = []
        posted = 0
        try:
            while len(arrived) < len(chunks):
                while posted < len(chunks) and posted - len(arrived) < DEPTH:
                    start, count = chunks[posted]
                    request = SendWR(posted, IBV_WR_RDMA_WRITE, sg=[SGE(self.mr.address + start, count, self.mr.lkey)])
                    request.set_wr_rdma(peer["rkey"], peer["address"] + start)
                    self.qp.post_send(request)
                    posted += 1
                self.cq.wait()
                for done in self.cq.poll(DEPTH)[1]:
                    if done.status:
                        return False, arrived
                    arrived.append(chunks[done.wr_id])
        except FaninError:  # the own device
            return False, arrived
        return True, arrived


def digest_of(plan: Plan, chunks: int) -> str:
    """What both nodes must have alike."""
    return hashlib.sha256(f"{plan!r} in {chunks}".encode()).hexdigest()


def agree(plan: Plan, ends: list[End], lines: Lines, chunks: int) -> list[dict[str, Any]]:
    """Exchange plans and queue pairs with the other node, connect, and return the other ends."""
    digest = digest_of(plan, chunks)
    lines.put({"plan": digest, "ends": [end.described() for end in ends]})
    said = lines.take("plan")
    if said["plan"] != digest:
        raise HandoffFailed(
            "the two nodes have different plans", "plan from the same topologies, sizes, options and chunks"
        )
    try:
        peers = [
            {"gid": GID(each["gid"]), **{name: int(each[name]) for name in ("qpn", "rkey", "address")}}
            for each in said["ends"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise broken(f"its ends can not be read: {error!r}") from None
    if len(peers) != len(ends):
        raise broken(f"it has {len(peers)} ends and not {len(ends)}")
    for end, peer in zip(ends, peers, strict=True):
        end.connect(peer)
    return peers


def failures_of(said: Any) -> dict[int, list[tuple[int, int]]]:
    """The failed links that a message names, and the ranges that have arrived over them."""
    try:
        return {int(link): [(int(offset), int(length)) for offset, length in ranges] for link, ranges in said}
    except (TypeError, ValueError) as error:
        raise broken(f"its failures can not be read: {error!r}") from None


def _check(plan: Plan, array: Bytes, shape: tuple[int, ...], chunks: int) -> None:
    if chunks < 1:
        raise HandoffInvalid(f"a transfer in {chunks} chunks", "give a number from 1 on")
    if array.dtype != np.uint8 or array.shape != shape or not array.flags.c_contiguous:
        raise HandoffInvalid(
            f"an array of {array.dtype} with shape {array.shape}", f"give contiguous bytes of shape {shape}"
        )
