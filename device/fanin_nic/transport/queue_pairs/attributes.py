"""The attributes of a queue pair, and the changes of state that take them (section 10.3.1, and chapter 11): as in
`ibv_modify_qp` a change demands some attributes, allows others, and refuses the rest."""

from typing import NamedTuple

from fanin_wire.rocev2 import MAX_RETRIES, PATH_MTUS, PSN_BITS, QPN_BITS, RNR_TIMES_NS, Transport
from fanin_wire.verbs import MAX_RD_ATOMIC
from fanin_wire.verbs import Attribute as A
from fanin_wire.verbs import QueuePairState as S

MAX_TIMEOUT = 31


class AttributesInvalid(ValueError):
    """A queue pair can not be modified so; the message says why."""


class Change(NamedTuple):
    """The attributes that a change of state must have, and those that it may have."""

    required: A = A(0)
    optional: A = A(0)


_PORT = A.PKEY_INDEX | A.PORT
_RIGHTS = A.CUR_STATE | A.ACCESS_FLAGS
_PATH = A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN
_LIMITS = A.TIMEOUT | A.RETRY_CNT | A.RNR_RETRY | A.MAX_QP_RD_ATOMIC

CHANGES: dict[Transport, dict[tuple[S, S], Change]] = {
    Transport.RC: {
        (S.RESET, S.INIT): Change(_PORT | A.ACCESS_FLAGS),
        (S.INIT, S.INIT): Change(A(0), _PORT | A.ACCESS_FLAGS),
        (S.INIT, S.RTR): Change(_PATH | A.MAX_DEST_RD_ATOMIC | A.MIN_RNR_TIMER, A.ACCESS_FLAGS | A.PKEY_INDEX),
        (S.RTR, S.RTS): Change(_LIMITS | A.SQ_PSN, _RIGHTS | A.MIN_RNR_TIMER),
        (S.RTS, S.RTS): Change(A(0), _RIGHTS | A.MIN_RNR_TIMER),
        (S.RTS, S.SQD): Change(A(0), A.EN_SQD_ASYNC_NOTIFY),
        (S.SQD, S.RTS): Change(A(0), _RIGHTS | A.MIN_RNR_TIMER),
        (S.SQD, S.SQD): Change(A(0), _PORT | A.AV | _LIMITS | A.MAX_DEST_RD_ATOMIC | A.ACCESS_FLAGS | A.MIN_RNR_TIMER),
    },
    Transport.UC: {
        (S.RESET, S.INIT): Change(_PORT | A.ACCESS_FLAGS),
        (S.INIT, S.INIT): Change(A(0), _PORT | A.ACCESS_FLAGS),
        (S.INIT, S.RTR): Change(_PATH, A.ACCESS_FLAGS | A.PKEY_INDEX),
        (S.RTR, S.RTS): Change(A.SQ_PSN, _RIGHTS),
        (S.RTS, S.RTS): Change(A(0), _RIGHTS),
        (S.RTS, S.SQD): Change(A(0), A.EN_SQD_ASYNC_NOTIFY),
        (S.SQD, S.RTS): Change(A(0), _RIGHTS),
        (S.SQD, S.SQD): Change(A(0), A.AV | A.ACCESS_FLAGS | A.PKEY_INDEX),
        (S.SQE, S.RTS): Change(A(0), _RIGHTS),
    },
    Transport.UD: {
        (S.RESET, S.INIT): Change(_PORT | A.QKEY),
        (S.INIT, S.INIT): Change(A(0), _PORT | A.QKEY),
        (S.INIT, S.RTR): Change(A(0), A.PKEY_INDEX | A.QKEY),
        (S.RTR, S.RTS): Change(A.SQ_PSN, A.CUR_STATE | A.QKEY),
        (S.RTS, S.RTS): Change(A(0), A.CUR_STATE | A.QKEY),
        (S.RTS, S.SQD): Change(A(0), A.EN_SQD_ASYNC_NOTIFY),
        (S.SQD, S.RTS): Change(A(0), A.CUR_STATE | A.QKEY),
        (S.SQD, S.SQD): Change(A(0), A.PKEY_INDEX | A.QKEY),
        (S.SQE, S.RTS): Change(A(0), A.CUR_STATE | A.QKEY),
    },
}
ALWAYS = (S.RESET, S.ERR)  # any state may change to these, without attributes

# Attribute: (member of QUEUE_PAIR, or "" if it is checked and not kept; its allowed values)
VALUES: dict[A, tuple[str, range | tuple[int, ...]]] = {
    A.PKEY_INDEX: ("", range(1)),
    A.PORT: ("", range(1, 2)),
    A.QKEY: ("qkey", range(1 << 32)),
    A.ACCESS_FLAGS: ("access", range(16)),
    A.AV: ("destination", range(1 << 32)),
    A.PATH_MTU: ("mtu", PATH_MTUS),
    A.DEST_QPN: ("remote_qpn", range(1 << QPN_BITS)),
    A.RQ_PSN: ("expected", range(1 << PSN_BITS)),
    A.SQ_PSN: ("next_psn", range(1 << PSN_BITS)),
    A.MAX_DEST_RD_ATOMIC: ("most_responses", range(MAX_RD_ATOMIC + 1)),
    A.MAX_QP_RD_ATOMIC: ("most_reads", range(MAX_RD_ATOMIC + 1)),
    A.MIN_RNR_TIMER: ("rnr_timer", range(len(RNR_TIMES_NS))),
    A.TIMEOUT: ("timeout", range(MAX_TIMEOUT + 1)),
    A.RETRY_CNT: ("retry_count", range(MAX_RETRIES + 1)),
    A.RNR_RETRY: ("rnr_retry", range(MAX_RETRIES + 1)),
    A.CUR_STATE: ("", range(len(S))),
    A.EN_SQD_ASYNC_NOTIFY: ("", range(2)),
}


def check(kind: Transport, state: S, target: S, values: dict[A, int]) -> None:
    """Check a modification of a queue pair of service `kind` from `state` to `target`; `values`: the other attributes.

    Raises AttributesInvalid: no such change, or an attribute is missing, not allowed, or has a bad value.
    """
    change = Change() if target in ALWAYS else CHANGES[kind].get((state, target))
    if change is None:
        raise AttributesInvalid(f"{kind.name}: {state.name} can not change to {target.name}")
    given = A(0)
    for attribute in values:
        given |= attribute
    if lacking := change.required & ~given:
        raise AttributesInvalid(f"{state.name} to {target.name} lacks {names(lacking)}")
    if excess := given & ~(change.required | change.optional):
        raise AttributesInvalid(f"{state.name} to {target.name} does not take {names(excess)}")
    for attribute, value in values.items():
        if value not in VALUES[attribute][1]:
            raise AttributesInvalid(f"{attribute.name} can not be {value}")


def names(attributes: A) -> str:
    return ", ".join(str(attribute.name) for attribute in attributes)
