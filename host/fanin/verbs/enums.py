"""The codes of verbs under pyverbs.enums' names: IBV_QPT_RC, IBV_WR_SEND, IBV_QP_STATE, ...

The values are those of infiniband/verbs.h; IBV_ACCESS_REMOTE_INVALIDATE is not in it.
"""

from fanin_wire import abi, rocev2, verbs

_PREFIXES = {
    "IBV_QPT_": abi.Service,
    "IBV_QPS_": verbs.QueuePairState,
    "IBV_QP_": verbs.Attribute,
    "IBV_ACCESS_": verbs.Access,
    "IBV_WR_": verbs.RequestOpcode,
    "IBV_SEND_": verbs.SendFlag,
    "IBV_WC_": verbs.CompletionStatus,
}
IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096 = range(1, 6)
PATH_MTU_BYTES = dict(enumerate(rocev2.PATH_MTUS, 1))
"""Bytes of each IBV_MTU."""

IBV_WC_GRH, IBV_WC_WITH_IMM, IBV_WC_WITH_INV = (int(flag) for flag in verbs.CompletionFlag)
_OPCODES = {
    "IBV_WC_SEND": verbs.CompletionOpcode.SEND,
    "IBV_WC_RDMA_WRITE": verbs.CompletionOpcode.RDMA_WRITE,
    "IBV_WC_RDMA_READ": verbs.CompletionOpcode.RDMA_READ,
    "IBV_WC_COMP_SWAP": verbs.CompletionOpcode.COMP_SWAP,
    "IBV_WC_FETCH_ADD": verbs.CompletionOpcode.FETCH_ADD,
    "IBV_WC_RECV": verbs.CompletionOpcode.RECV,
    "IBV_WC_RECV_RDMA_WITH_IMM": verbs.CompletionOpcode.RECV_RDMA_WITH_IMM,
}
_NAMES = {f"{prefix}{member.name}": int(member) for prefix, codes in _PREFIXES.items() for member in codes}
_NAMES |= {name: int(code) for name, code in _OPCODES.items()}
globals().update(_NAMES)

__all__ = sorted(name for name in globals() if name.startswith("IBV_"))


def __getattr__(name: str) -> int:
    """For type checkers: all names are set above."""
    raise AttributeError(f"module {__name__} has no code {name}")
