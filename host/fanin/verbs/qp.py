"""QP: a queue pair of ordinary traffic (RC, UC, UD), in pyverbs' habits."""

from dataclasses import dataclass, fields
from typing import Any

from fanin.driver import check, ffi, library, refused
from fanin.errors import InvalidRequest
from fanin.verbs.cq import CQ
from fanin.verbs.enums import PATH_MTU_BYTES
from fanin.verbs.gid import GID, AHAttr, GlobalRoute
from fanin.verbs.mr import PD
from fanin.verbs.resource import Resource, columns
from fanin.verbs.srq import SRQ
from fanin.verbs.work_requests import RecvWR, SendWR, new
from fanin_wire.abi import MAX_INLINE_DATA, MAX_SGE, ORDINARY_DEPTH, Service, Status
from fanin_wire.rocev2 import PATH_MTUS
from fanin_wire.verbs import Attribute as A
from fanin_wire.verbs import QueuePairState as S

UC, UD = int(Service.UC), int(Service.UD)
FEWER_QUEUE_PAIRS = "Close queue pairs that are not needed; other programs have theirs from the same device."


@dataclass
class QPCap:
    """Limits that a program asks for. The device gives every queue pair these defaults, and no more."""

    max_send_wr: int = ORDINARY_DEPTH
    max_recv_wr: int = ORDINARY_DEPTH
    max_send_sge: int = MAX_SGE
    max_recv_sge: int = MAX_SGE
    max_inline_data: int = MAX_INLINE_DATA


@dataclass
class QPInitAttr:
    """scq, rcq: completion queues; rcq None: the same. srq: shared receive queue; None: a receive queue of its own."""

    qp_type: int = UD
    scq: CQ | None = None
    rcq: CQ | None = None
    cap: QPCap | None = None
    sq_sig_all: int = 1
    srq: SRQ | None = None


@dataclass
class QPAttr:
    """The attributes of a queue pair. A change of state passes on those that it needs."""

    qp_state: int = int(S.RESET)
    cur_qp_state: int = int(S.RESET)
    port_num: int = 1
    path_mtu: int = 3  # IBV_MTU_1024
    qkey: int = 0
    rq_psn: int = 0
    sq_psn: int = 0
    dest_qp_num: int = 0
    qp_access_flags: int = 0
    ah_attr: AHAttr | None = None
    pkey_index: int = 0
    max_rd_atomic: int = 1
    max_dest_rd_atomic: int = 1
    min_rnr_timer: int = 12
    timeout: int = 14
    retry_cnt: int = 7
    rnr_retry: int = 7


# Attribute: member of QPAttr, member of struct fanin_qp_attributes; path and address are apart.
_MEMBERS = {
    A.CUR_STATE: ("cur_qp_state", "cur_state"),
    A.ACCESS_FLAGS: ("qp_access_flags", "access"),
    A.PKEY_INDEX: ("pkey_index", "pkey_index"),
    A.PORT: ("port_num", "port"),
    A.QKEY: ("qkey", "qkey"),
    A.TIMEOUT: ("timeout", "timeout"),
    A.RETRY_CNT: ("retry_cnt", "retry_count"),
    A.RNR_RETRY: ("rnr_retry", "rnr_retry"),
    A.RQ_PSN: ("rq_psn", "receive_psn"),
    A.MAX_QP_RD_ATOMIC: ("max_rd_atomic", "most_reads"),
    A.MIN_RNR_TIMER: ("min_rnr_timer", "rnr_timer"),
    A.SQ_PSN: ("sq_psn", "send_psn"),
    A.MAX_DEST_RD_ATOMIC: ("max_dest_rd_atomic", "most_responses"),
    A.DEST_QPN: ("dest_qp_num", "remote_qpn"),
}
# The attributes of to_init, to_rtr and to_rts for RC; UC has fewer.
_RC_STEPS = {
    S.INIT: A.PKEY_INDEX | A.PORT | A.ACCESS_FLAGS,
    S.RTR: A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN | A.MAX_DEST_RD_ATOMIC | A.MIN_RNR_TIMER,
    S.RTS: A.TIMEOUT | A.RETRY_CNT | A.RNR_RETRY | A.SQ_PSN | A.MAX_QP_RD_ATOMIC,
}
_UC_STEPS = {
    S.INIT: A.PKEY_INDEX | A.PORT | A.ACCESS_FLAGS,
    S.RTR: A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN,
    S.RTS: A.SQ_PSN,
}
_UD_STEPS = {S.INIT: A.PKEY_INDEX | A.PORT | A.QKEY, S.RTR: A(0), S.RTS: A.SQ_PSN}


class QP(Resource):
    """A queue pair of ordinary traffic, in state RESET; with `qp_attr` in RTS (UD) or INIT."""

    def __init__(self, pd: PD, init_attr: QPInitAttr, qp_attr: QPAttr | None = None) -> None:
        pd.require_open()
        send_cq, receive_cq = _queues(pd, init_attr)
        self.context, self.qp_type = pd.context, int(init_attr.qp_type)
        self._steps = {UD: _UD_STEPS, UC: _UC_STEPS}.get(self.qp_type, _RC_STEPS)
        init = ffi.new(
            "struct fanin_qp_init *",
            {
                "service": self.qp_type,
                "domain": pd.domain,
                "send_cq": send_cq.index,
                "receive_cq": receive_cq.index,
                "all_signaled": 1 if init_attr.sq_sig_all else 0,
                "shared_queue": init_attr.srq.index + 1 if init_attr.srq else 0,
            },
        )
        index, number = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        status = library().fanin_create_ordinary_qp(self.context.handle, init, index, number)
        check(status, f"can not create a queue pair{refused(status)}", NO_RESOURCES=FEWER_QUEUE_PAIRS)
        self.index, self.qp_num = int(index[0]), int(number[0])
        super().__init__(pd, *{send_cq, receive_cq}, *([init_attr.srq] if init_attr.srq else []))
        try:
            if qp_attr is not None:
                self.to_rts(qp_attr) if self.qp_type == UD else self.to_init(qp_attr)
        except BaseException:
            self.close()
            raise

    @property
    def qp_state(self) -> int:
        """As the device has it, which enters ERR and SQE by itself."""
        return int(self._attributes().state)

    def modify(self, qp_attr: QPAttr, mask: int) -> None:
        """Change the attributes that `mask` (IBV_QP_STATE, ...) names; InvalidRequest, and no change, if verbs forbids
        it."""
        self.require_open()
        given, state = A(mask), int(qp_attr.qp_state) if mask & A.STATE else self.qp_state
        values = {theirs: int(getattr(qp_attr, ours)) for bit, (ours, theirs) in _MEMBERS.items() if given & bit}
        if given & A.PATH_MTU:
            values["path_mtu"] = PATH_MTU_BYTES.get(qp_attr.path_mtu, 0)
        if given & A.AV:
            values["destination"] = qp_attr.ah_attr.ipv4 if qp_attr.ah_attr else 0
        attributes = new("struct fanin_qp_attributes *", {"mask": int(given), "state": state} | values)
        status = library().fanin_modify_ordinary_qp(self.context.handle, self.index, attributes)
        check(status, f"can not modify queue pair {self.qp_num}{refused(status)}")

    def to_init(self, qp_attr: QPAttr) -> None:
        """RESET to INIT."""
        self._step(qp_attr, S.INIT)

    def to_rtr(self, qp_attr: QPAttr) -> None:
        """To RTR; from RESET through INIT."""
        if self.qp_state == S.RESET:
            self.to_init(qp_attr)
        self._step(qp_attr, S.RTR)

    def to_rts(self, qp_attr: QPAttr) -> None:
        """To RTS; from RESET and INIT through the states between."""
        if self.qp_state in (S.RESET, S.INIT):
            self.to_rtr(qp_attr)
        self._step(qp_attr, S.RTS)

    def _step(self, qp_attr: QPAttr, state: S) -> None:
        qp_attr.qp_state = int(state)
        self.modify(qp_attr, A.STATE | self._steps[state])

    def query(self) -> QPAttr:
        attributes, attr = self._attributes(), QPAttr()
        for ours, theirs in _MEMBERS.values():
            setattr(attr, ours, int(getattr(attributes, theirs)))
        attr.qp_state = attr.cur_qp_state = int(attributes.state)
        attr.port_num = 1
        if attributes.path_mtu in PATH_MTUS:
            attr.path_mtu = PATH_MTUS.index(attributes.path_mtu) + 1
        if attributes.destination:
            attr.ah_attr = AHAttr(GlobalRoute(GID.of_ipv4(attributes.destination)))
        return attr

    def _attributes(self) -> Any:
        self.require_open()
        attributes = ffi.new("struct fanin_qp_attributes *")
        status = library().fanin_query_ordinary_qp(self.context.handle, self.index, attributes)
        check(status, f"can not query queue pair {self.qp_num}")
        return attributes

    def post_send(self, wr: SendWR) -> None:
        """Post a request to send. InvalidRequest: before RTS. QueueFull: take completions first."""
        self.require_open()
        self._check_post(library().fanin_post_send(self.context.handle, self.index, wr.to_c()))

    def post_recv(self, wr: RecvWR) -> None:
        """Post a request to receive. InvalidRequest: in RESET, or with a shared receive queue. QueueFull: no room."""
        self.require_open()
        self._check_post(library().fanin_post_receive(self.context.handle, self.index, wr.to_c()))

    def _check_post(self, status: int) -> None:
        if status:
            check(status, f"can not post to queue pair {self.qp_num}{refused(status)}")

    def _release(self) -> None:
        status = library().fanin_destroy_ordinary_qp(self.context.handle, self.index)
        if status != Status.DEVICE_LOST:
            check(status, f"can not destroy queue pair {self.qp_num}")

    def __str__(self) -> str:
        return columns(qp_num=self.qp_num, qp_type=Service(self.qp_type).name)


def _queues(pd: PD, init_attr: QPInitAttr) -> tuple[CQ, CQ]:
    """Its completion queues, after a check of what is asked for."""
    if init_attr.scq is None:
        raise InvalidRequest("the queue pair has no completion queue", remedy="Give QPInitAttr an scq.")
    if init_attr.qp_type not in list(Service):
        raise InvalidRequest(
            f"queue pair type {init_attr.qp_type} is not supported", remedy="Use IBV_QPT_RC, _UC or _UD."
        )
    offered, wanted = QPCap(), init_attr.cap or QPCap()
    for limit in fields(QPCap):
        most = getattr(offered, limit.name)
        if not 0 <= getattr(wanted, limit.name) <= most:
            raise InvalidRequest(f"{limit.name} of {getattr(wanted, limit.name)}", remedy=f"Ask for at most {most}.")
    receive_cq = init_attr.rcq or init_attr.scq
    for queue in (init_attr.scq, receive_cq, init_attr.srq):
        if queue is not None:
            pd.require_beside(queue)
    return init_attr.scq, receive_cq
