"""libibverbs for the set-up of a port, by ctypes. A preloaded library counts first: its devices serve as well."""

import ctypes
import functools
import os
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

NAME = "libibverbs.so.1"
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4  # enum ibv_access_flags
RC, UD, RAW_PACKET = 2, 4, 8  # enum ibv_qp_type
RESET, INIT, RTR, RTS = 0, 1, 2, 3  # enum ibv_qp_state
# enum ibv_qp_attr_mask
STATE, ACCESS_FLAGS, P_KEY_INDEX, PORT, Q_KEY, AV, PATH_MTU = 1, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
TIMEOUT, RETRIES, RNR_RETRIES, RECEIVE_PSN = 1 << 9, 1 << 10, 1 << 11, 1 << 12
MAX_RD_ATOMIC, RNR_TIMER, SEND_PSN, MAX_DEST_RD_ATOMIC, OTHER_NUMBER = 1 << 13, 1 << 15, 1 << 16, 1 << 17, 1 << 20
ROCE_V2 = 2  # IBV_GID_TYPE_ROCE_V2
ACTIVE = 4  # IBV_PORT_ACTIVE
ASYNC_FD = 268  # offset in struct ibv_context


class GidEntry(Structure):
    """struct ibv_gid_entry"""

    _fields_ = (
        ("gid", c_uint8 * 16),
        ("gid_index", c_uint32),
        ("port_num", c_uint32),
        ("gid_type", c_uint32),
        ("ndev_ifindex", c_uint32),
    )


class DeviceAttributes(Structure):
    """The first members of struct ibv_device_attr matter."""

    _fields_ = (
        ("fw_ver", ctypes.c_char * 64),
        ("guids", c_uint64 * 2),
        ("max_mr_size", c_uint64),
        ("page_size_cap", c_uint64),
        ("vendor", c_uint32 * 3),
        ("max_qp", c_int),
        ("max_qp_wr", c_int),
        ("device_cap_flags", c_uint32),
        ("max_sge", c_int),
        ("max_sge_rd", c_int),
        ("max_cq", c_int),
        ("max_cqe", c_int),
        ("max_mr", c_int),
        ("max_pd", c_int),
        ("max_qp_rd_atom", c_int),
        ("max_ee_rd_atom", c_int),
        ("max_res_rd_atom", c_int),
        ("max_qp_init_rd_atom", c_int),
        ("rest", c_uint8 * 67),
        ("phys_port_cnt", c_uint8),
    )


class PortAttributes(Structure):
    """struct ibv_port_attr, as `ibv_query_port` fills it."""

    _fields_ = (
        ("state", c_int),
        ("max_mtu", c_int),
        ("active_mtu", c_int),
        ("gid_tbl_len", c_int),
        ("rest", c_uint8 * 36),
    )


class Capabilities(Structure):
    """struct ibv_qp_cap"""

    _fields_ = (
        ("max_send_wr", c_uint32),
        ("max_recv_wr", c_uint32),
        ("max_send_sge", c_uint32),
        ("max_recv_sge", c_uint32),
        ("max_inline_data", c_uint32),
    )


class QueuePairInit(Structure):
    """struct ibv_qp_init_attr"""

    _fields_ = (
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("cap", Capabilities),
        ("qp_type", c_int),
        ("sq_sig_all", c_int),
    )


class AddressAttributes(Structure):
    """struct ibv_ah_attr"""

    _fields_ = (
        ("dgid", c_uint8 * 16),
        ("flow_label", c_uint32),
        ("sgid_index", c_uint8),
        ("hop_limit", c_uint8),
        ("traffic_class", c_uint8),
        ("padding", c_uint8),
        ("dlid", c_uint16),
        ("sl", c_uint8),
        ("src_path_bits", c_uint8),
        ("static_rate", c_uint8),
        ("is_global", c_uint8),
        ("port_num", c_uint8),
    )


class QueuePairAttributes(Structure):
    """struct ibv_qp_attr"""

    _fields_ = (
        ("qp_state", c_int),
        ("cur_qp_state", c_int),
        ("path_mtu", c_int),
        ("path_mig_state", c_int),
        ("qkey", c_uint32),
        ("rq_psn", c_uint32),
        ("sq_psn", c_uint32),
        ("dest_qp_num", c_uint32),
        ("qp_access_flags", c_uint32),
        ("cap", Capabilities),
        ("ah_attr", c_uint64 * 4),
        ("alt_ah_attr", c_uint64 * 4),
        ("pkey_index", c_uint16),
        ("alt_pkey_index", c_uint16),
        ("sqd", c_uint8 * 2),
        ("max_rd_atomic", c_uint8),
        ("max_dest_rd_atomic", c_uint8),
        ("min_rnr_timer", c_uint8),
        ("port_num", c_uint8),
        ("timeout", c_uint8),
        ("retry_cnt", c_uint8),
        ("rnr_retry", c_uint8),
        ("rest", c_uint8 * 11),
    )


class Region(Structure):
    """struct ibv_mr"""

    _fields_ = (
        ("context", c_void_p),
        ("pd", c_void_p),
        ("addr", c_void_p),
        ("length", c_size_t),
        ("handle", c_uint32),
        ("lkey", c_uint32),
        ("rkey", c_uint32),
    )


class QueuePair(Structure):
    """The beginning of struct ibv_qp."""

    _fields_ = (
        ("context", c_void_p),
        ("qp_context", c_void_p),
        ("pd", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("handle", c_uint32),
        ("qp_num", c_uint32),
    )


class Channel(Structure):
    """struct ibv_comp_channel"""

    _fields_ = (("context", c_void_p), ("fd", c_int), ("refcnt", c_int))


class AsyncEvent(Structure):
    """struct ibv_async_event. element: number of a port, or address of another object."""

    _fields_ = (("element", c_uint64), ("event_type", c_int))


PROTOTYPES: dict[str, tuple[Any, ...]] = {  # result, arguments
    "ibv_get_device_list": (POINTER(c_void_p), POINTER(c_int)),
    "ibv_free_device_list": (None, POINTER(c_void_p)),
    "ibv_get_device_name": (c_char_p, c_void_p),
    "ibv_open_device": (c_void_p, c_void_p),
    "ibv_close_device": (c_int, c_void_p),
    "ibv_query_device": (c_int, c_void_p, POINTER(DeviceAttributes)),
    "ibv_query_port": (c_int, c_void_p, c_uint8, POINTER(PortAttributes)),
    "_ibv_query_gid_ex": (c_int, c_void_p, c_uint32, c_uint32, POINTER(GidEntry), c_uint32, c_size_t),
    "ibv_alloc_pd": (c_void_p, c_void_p),
    "ibv_dealloc_pd": (c_int, c_void_p),
    "ibv_reg_mr": (POINTER(Region), c_void_p, c_void_p, c_size_t, c_int),
    "ibv_dereg_mr": (c_int, POINTER(Region)),
    "ibv_create_comp_channel": (POINTER(Channel), c_void_p),
    "ibv_destroy_comp_channel": (c_int, POINTER(Channel)),
    "ibv_create_cq": (c_void_p, c_void_p, c_int, c_void_p, POINTER(Channel), c_int),
    "ibv_destroy_cq": (c_int, c_void_p),
    "ibv_create_qp": (POINTER(QueuePair), c_void_p, POINTER(QueuePairInit)),
    "ibv_modify_qp": (c_int, POINTER(QueuePair), POINTER(QueuePairAttributes), c_int),
    "ibv_destroy_qp": (c_int, POINTER(QueuePair)),
    "ibv_create_ah": (c_void_p, c_void_p, POINTER(AddressAttributes)),
    "ibv_destroy_ah": (c_int, c_void_p),
    "ibv_attach_mcast": (c_int, POINTER(QueuePair), POINTER(c_uint8 * 16), c_uint16),
    "ibv_detach_mcast": (c_int, POINTER(QueuePair), POINTER(c_uint8 * 16), c_uint16),
    "ibv_get_cq_event": (c_int, POINTER(Channel), POINTER(c_void_p), POINTER(c_void_p)),
    "ibv_ack_cq_events": (None, c_void_p, c_uint32),
    "ibv_get_async_event": (c_int, c_void_p, POINTER(AsyncEvent)),
    "ibv_ack_async_event": (None, POINTER(AsyncEvent)),
}


@functools.cache
def library() -> Any:
    """Raises OSError: this machine lacks libibverbs; AttributeError: it is too old."""
    preloaded = ctypes.CDLL(None, use_errno=True)
    found = preloaded if hasattr(preloaded, "ibv_get_device_list") else ctypes.CDLL(NAME, use_errno=True)
    for name, (result, *arguments) in PROTOTYPES.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def last_error() -> str:
    """errno of the last call in words."""
    return os.strerror(ctypes.get_errno())
