"""A plan carried out in its literal form: stripes by RDMA WRITE of RC queue pairs, then copies within node 2.

Each process of a server (`node`) has the queue pairs of the links of its GPUs, and does the copies whose source is one
of them: *spread* in node 1, *diffuse* and *collect* in node 2. The leading processes agree over a connection that the
program brings, in lines of JSON:

| from | line |
| --- | --- |
| both | digest of the plan; of each link the number of the queue pair, the GID, and the key and address of the memory |
| receiver | its queue pairs are connected |
| sender | of each chunk: it has arrived; or which links have failed, with the ranges that have; or none is left |
| receiver | every GPU has the data |

A link has failed if a WRITE ends with an error (the other NIC or the path is lost) or if the own NIC is lost. What was
not acknowledged is striped over the other links.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fanin.errors import FaninError
from fanin.verbs import CQ, GID, PD, QP, SGE, AHAttr, Context, GlobalRoute, QPAttr, QPInitAttr, SendWR
from fanin.verbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC, IBV_WR_RDMA_WRITE
from fanin_cluster.handoff.channel import HandoffFailed, broken
from fanin_cluster.handoff.node import Node
from fanin_cluster.handoff.plan import HandoffInvalid, Plan, device_of, joined

READ_ONLY, WRITTEN = 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE  # of node 1, of node 2
CHUNK = 1 << 20  # bytes of a WRITE: what a failing link loses at least
DEPTH = 16  # WRITEs under way on a link


def send(plan: Plan, node: Node, devices: Mapping[str, str], chunks: int = 1) -> Plan:
    """Send the data in the memory of node 1 to node 2, whose processes call `recv` with the same plan.

    Args:
        node: the first `plan.size` bytes of its GPUs are the data; of the plan's holder alone, if it has one. They must
            not change until the call returns.
        devices: the socket of the device of each NIC of the links of this process, by the name of the NIC.
        chunks: that follow each other through the stages; 1: one stage after the other, as in the document. `recv` must
            have the same number; `rehearsal.chosen_chunks` predicts the fastest.

    Returns: the plan of the last round, of the last chunk: `failed` names the links that have failed.
    Raises HandoffFailed, HandoffInvalid, or FaninError for a device that can not be reached.
    """
    _check(plan, node, len(plan.first_gpus), chunks)
    if not plan.size:
        return plan
    with contextlib.ExitStack() as opened:
        ends = {
            number: opened.enter_context(
                End(device_of(devices, link.first_nic), node, link.first, plan.size, READ_ONLY)
            )
            for number, link in enumerate(plan.links)
            if node.owns(link.first)
        }
        peers = agree(plan, ends, node, chunks)
        node.take("connected")
        failed = plan.failed
        with ThreadPoolExecutor(max(1, len(ends))) as threads:
            for part in plan.in_chunks(chunks):
                plan = _send_part(part.avoiding(failed), ends, peers, node, threads)
                failed = plan.failed
                node.put({"arrived": True})
        node.take("received")
    return plan


def _send_part(
    plan: Plan, ends: Mapping[int, End], peers: list[dict[str, Any]], node: Node, threads: ThreadPoolExecutor
) -> Plan:
    """Write all stripes, also those of links that fail. Returns the plan of the last round."""
    while True:
        if plan.spread:
            node.copy(plan.spread)
            node.gather()
        work: dict[int, list[tuple[int, int]]] = {}
        for link, copy in plan.send:
            if link in ends:
                work.setdefault(link, []).append((copy.offset, copy.length))
        rounds = {link: threads.submit(ends[link].write, ranges, peers[link]) for link, ranges in work.items()}
        outcomes = {link: each.result() for link, each in rounds.items()}
        said = node.gather([[link, joined(arrived)] for link, (whole, arrived) in outcomes.items() if not whole])
        failures = failures_of([each for of_a_process in said for each in of_a_process])
        if not failures:
            return plan
        try:
            plan = plan.without(failures)
        except HandoffInvalid as error:
            node.put({"lost": error.cause})
            raise HandoffFailed(error.cause, error.remedy) from None
        node.put({"failures": list(failures.items())})


def recv(plan: Plan, node: Node, devices: Mapping[str, str], chunks: int = 1) -> Plan:
    """Receive the data of `send` into the memory of every GPU of node 2.

    Arguments, returns and errors are those of `send`. With several chunks, the copies within this node overlap with the
    arrival of the next chunk.
    """
    _check(plan, node, len(plan.second_gpus), chunks)
    if not plan.size:
        return plan
    with contextlib.ExitStack() as opened:
        ends = {
            number: opened.enter_context(
                End(device_of(devices, link.second_nic), node, link.second, plan.size, WRITTEN)
            )
            for number, link in enumerate(plan.links)
            if node.owns(link.second)
        }
        agree(plan, ends, node, chunks)
        node.gather()
        node.put({"connected": True})
        failed = plan.failed
        for part in plan.in_chunks(chunks):
            plan = part.avoiding(failed)
            while "arrived" not in (said := node.take("arrived", "failures", "lost")):
                if "lost" in said:
                    raise HandoffFailed(str(said["lost"]), "repair a link and begin anew")
                plan = plan.without(failures_of(said["failures"]))
            failed = plan.failed
            if plan.diffuse:
                node.copy(plan.diffuse)
                node.gather()
            node.copy(plan.collect)
        node.gather()
        node.put({"received": True})
    return plan


class End:
    """One end of a link: a queue pair of a NIC, and registered memory of a GPU."""

    def __init__(self, device: str, node: Node, gpu: int, size: int, rights: int) -> None:
        self.rights = rights
        self.context = Context(device)
        try:
            self.pd = PD(self.context)
            self.cq = CQ(self.context)
            self.mr = node.register(self.pd, gpu, size, rights)
            self.qp = QP(self.pd, QPInitAttr(IBV_QPT_RC, self.cq, self.cq))
            self.gid = self.context.query_gid().gid
        except BaseException:
            self.context.close()
            raise

    def __enter__(self) -> End:
        return self

    def __exit__(self, *reason: object) -> None:
        with contextlib.suppress(FaninError):  # a lost device needs nothing back
            self.context.close()

    def described(self) -> dict[str, Any]:
        """Numbers and addresses for the other end."""
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
    """What both nodes must agree on."""
    return hashlib.sha256(f"{plan!r} in {chunks}".encode()).hexdigest()


def agree(plan: Plan, ends: Mapping[int, End], node: Node, chunks: int) -> list[dict[str, Any]]:
    """Exchange plans and queue pairs with the other node and connect those of this process. Returns all other ends."""
    digest = digest_of(plan, chunks)
    here = node.gather({"plan": digest, "ends": [[link, end.described()] for link, end in ends.items()]})
    _check_plans(digest, here)  # first: with another plan, a process has other links
    described = {link: end for each in here for link, end in each["ends"]}
    if lacking := sorted(set(range(len(plan.links))) - described.keys()):
        raise HandoffInvalid(f"no process of this node has the GPU of link {lacking}", "give each GPU to a process")
    node.put({"plan": digest, "ends": [described[link] for link in range(len(plan.links))]})
    said = node.take("plan")
    _check_plans(digest, [said])
    peers = list(_ends_of(said))
    if len(peers) != len(plan.links):
        raise broken(f"it has {len(peers)} ends and not {len(plan.links)}")
    for link, end in ends.items():
        end.connect(peers[link])
    return peers


def _check_plans(digest: str, said: Iterable[Mapping[str, Any]]) -> None:
    if any(each["plan"] != digest for each in said):
        raise HandoffFailed(
            "the processes have different plans", "plan from the same topologies, sizes, options and chunks"
        )


def _ends_of(said: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        for each in said["ends"]:
            yield {"gid": GID(each["gid"]), **{name: int(each[name]) for name in ("qpn", "rkey", "address")}}
    except (KeyError, TypeError, ValueError) as error:
        raise broken(f"its ends can not be read: {error!r}") from None


def failures_of(said: Any) -> dict[int, list[tuple[int, int]]]:
    """The failed links that a message names, and the ranges that have arrived over them."""
    try:
        return {int(link): [(int(offset), int(length)) for offset, length in ranges] for link, ranges in said}
    except (TypeError, ValueError) as error:
        raise broken(f"its failures can not be read: {error!r}") from None


def _check(plan: Plan, node: Node, gpus: int, chunks: int) -> None:
    if chunks < 1:
        raise HandoffInvalid(f"a transfer in {chunks} chunks", "give a number from 1 on")
    node.check(plan.size, gpus)
