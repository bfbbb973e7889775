"""Runs in the guest: makes queue pairs on the rxe device, and posts and polls as the test on the host commands.

Requests come by a virtio port, a line of JSON each: {"call": name, "arguments": {...}}. An answer is also a line:
{"result": ...} or {"error": text}. Bytes are in base 64. `Calls` has the calls.
"""

import base64
import glob
import json
import os
import subprocess
import sys
import time
import traceback

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEVICE = "rxe0"
PORT_NAME = "agent"
GID_INDEX = 1  # of the IPv4 address
DEPTH = 256
PIECES = 4
SECONDS_FOR_GID = 60
PAUSE = 0.001
LISTENING = "0A"  # in /proc/net/tcp


def in_network_order(number):
    """A number of 32 bits in network order, in which verbs demands immediate data."""
    return int.from_bytes(number.to_bytes(4, sys.byteorder), "big")


class Pair:
    def __init__(self, context, domain, kind):
        self.kind = getattr(e, f"IBV_QPT_{kind}")
        self.queues = {"send": CQ(context, DEPTH), "receive": CQ(context, DEPTH)}
        room = QPCap(max_send_wr=DEPTH // 2, max_recv_wr=DEPTH // 2, max_send_sge=PIECES, max_recv_sge=PIECES)
        wanted = QPInitAttr(qp_type=self.kind, scq=self.queues["send"], rcq=self.queues["receive"], cap=room)
        self.qp = QP(domain, wanted)

    def close(self):
        self.qp.close()
        for queue in self.queues.values():
            queue.close()


class Calls:
    """The calls. Handles are numbers of the guest."""

    def __init__(self):
        self.context = Context(name=DEVICE)
        self.domain = PD(self.context)
        self.regions = {}
        self.pairs = {}
        self.routes = {}
        self.programs = {}
        self.last = 0

    def _add(self, table, thing):
        self.last += 1
        table[self.last] = thing
        return self.last

    def device(self):
        port = self.context.query_port(1)
        with open(f"/sys/class/infiniband/{DEVICE}/ports/1/gids/{GID_INDEX}") as file:
            gid = file.read().strip()
        return {"gid": gid, "active_mtu": port.active_mtu, "kernel": os.uname().release}

    def counters(self):
        found = {}
        for path in glob.glob(f"/sys/class/infiniband/{DEVICE}/ports/1/hw_counters/*"):
            try:
                with open(path) as file:
                    found[os.path.basename(path)] = int(file.read())
            except (OSError, ValueError):
                pass
        return found

    def run(self, command, seconds=60):
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        if done.returncode:
            raise RuntimeError(
                f"{command[0]} has ended with {done.returncode}: {done.stdout[-8000:]}{done.stderr[-8000:]}"
            )
        return done.stdout

    def start(self, command, port):
        """Start a program. With a port, wait until it listens to this port of TCP, or has ended."""
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while port and program.poll() is None and not is_listening(port):
            time.sleep(PAUSE)
        return self._add(self.programs, program)

    def finish(self, program, seconds):
        """Exit status and output of a program; it is ended after so many seconds."""
        program = self.programs.pop(program)
        try:
            output, _ = program.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            program.kill()
            output, _ = program.communicate()
        return {"status": program.returncode, "output": output}

    # Memory

    def register(self, length, access):
        """A region of new memory. access: names of rights."""
        region = MR(self.domain, length, sum(getattr(e, f"IBV_ACCESS_{name}") for name in access))
        region.write(bytes(length), length)
        handle = self._add(self.regions, region)
        return {"handle": handle, "start": region.buf, "lkey": region.lkey, "rkey": region.rkey}

    def deregister(self, region):
        self.regions.pop(region).close()

    def fill(self, region, offset, data):
        data = base64.b64decode(data)
        self.regions[region].write(data, len(data), offset=offset)

    def bytes(self, region, offset, length):
        return base64.b64encode(self.regions[region].read(length, offset) if length else b"").decode()

    # Queue pairs

    def queue_pair(self, kind):
        pair = Pair(self.context, self.domain, kind)
        return {"handle": self._add(self.pairs, pair), "qpn": pair.qp.qp_num}

    def destroy(self, pair):
        self.pairs.pop(pair).close()

    def modify(self, pair, mask, address=None, **attributes):
        """Change a queue pair. mask: names of attributes; address: IPv4 address of the other side."""
        wanted = QPAttr()
        for name, value in attributes.items():
            setattr(wanted, name, value)
        if address:
            wanted.ah_attr = self._path(address)
        self.pairs[pair].qp.modify(wanted, sum(getattr(e, f"IBV_QP_{name}") for name in mask))

    def state(self, pair):
        attributes, _ = self.pairs[pair].qp.query(e.IBV_QP_STATE)
        return attributes.qp_state

    def _path(self, address):
        one, two, three, four = (int(part) for part in address.split("."))
        gid = f"0000:0000:0000:0000:0000:ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"
        route = GlobalRoute(dgid=GID(gid), sgid_index=GID_INDEX, hop_limit=64)
        return AHAttr(gr=route, is_global=1, port_num=1)

    # Work

    def post_send(
        self, pair, opcode, pieces=(), flags=("SIGNALED",), wr_id=1, immediate=0, rdma=None, atomic=None, datagram=None
    ):
        """Post a request. pieces: (address, length, lkey); rdma: (rkey, address); atomic: (rkey, address, compare or
        add, swap);
        datagram: (address, QPN, Q_Key)."""
        request = SendWR(
            wr_id=wr_id,
            opcode=getattr(e, f"IBV_WR_{opcode}"),
            num_sge=len(pieces),
            sg=[SGE(*piece) for piece in pieces],
            imm_data=immediate if opcode == "SEND_WITH_INV" else in_network_order(immediate),
            send_flags=sum(getattr(e, f"IBV_SEND_{name}") for name in flags),
        )
        if rdma:
            request.set_wr_rdma(*rdma)
        if atomic:
            request.set_wr_atomic(*atomic)
        if datagram:
            address, qpn, qkey = datagram
            if address not in self.routes:
                self.routes[address] = AH(self.domain, attr=self._path(address))
            request.set_wr_ud(self.routes[address], qpn, qkey)
        self.pairs[pair].qp.post_send(request)

    def post_receive(self, pair, pieces=(), wr_id=1):
        self.pairs[pair].qp.post_recv(RecvWR(wr_id, len(pieces), [SGE(*piece) for piece in pieces]))

    def poll(self, pair, queue, count, seconds):
        """`count` completions, or those of so many seconds."""
        found, end = [], time.monotonic() + seconds
        while True:
            _, completions = self.pairs[pair].queues[queue].poll(count - len(found))
            for done in completions or ():
                found.append(
                    {
                        "wr_id": done.wr_id,
                        "status": done.status,
                        "opcode": done.opcode,
                        "length": done.byte_len,
                        "immediate": in_network_order(done.imm_data),
                        "flags": done.wc_flags,
                        "source_qpn": done.src_qp,
                    }
                )
            if len(found) >= count or time.monotonic() > end:
                return found
            time.sleep(PAUSE)


def is_listening(port):
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as file:
            for row in file:
                place, state = row.split()[1], row.split()[3]
                if state == LISTENING and place.endswith(f":{port:04X}"):
                    return True
    return False


def wait_for_gid(address):
    """An address becomes a GID with some delay."""
    one, two, three, four = (int(part) for part in address.split("."))
    end = time.monotonic() + SECONDS_FOR_GID
    while time.monotonic() < end:
        with open(f"/sys/class/infiniband/{DEVICE}/ports/1/gids/{GID_INDEX}") as file:
            if file.read().strip().endswith(f"ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"):
                return
        time.sleep(PAUSE)
    raise TimeoutError(f"{DEVICE} has no GID of its IPv4 address after {SECONDS_FOR_GID} s")


def port():
    for path in glob.glob("/sys/class/virtio-ports/*/name"):
        with open(path) as file:
            if file.read().strip() == PORT_NAME:
                return open("/dev/" + path.split("/")[-2], "r+b", buffering=0)
    raise FileNotFoundError(f"no virtio port {PORT_NAME}")


def lines(file):
    rest = b""
    while True:
        rest += file.read(1 << 16)
        while b"\n" in rest:
            line, _, rest = rest.partition(b"\n")
            yield line


def main():
    file = port()
    try:
        wait_for_gid(sys.argv[1])
        calls = Calls()
        answer = {"result": "ready"}
    except Exception:
        answer = {"error": traceback.format_exc()}
    write(file, answer)
    for line in lines(file):
        request = json.loads(line)
        try:
            answer = {"result": getattr(calls, request["call"])(**request["arguments"])}
        except Exception as error:
            print(traceback.format_exc(), flush=True)
            answer = {"error": f"{type(error).__name__}: {error}"}
        write(file, answer)


def write(file, answer):
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[file.write(data) :]


sys.exit(main())
