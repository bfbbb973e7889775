"""The layouts by which a port works on libibverbs are those of the real infiniband/verbs.h."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fanin_nic.port.verbs import library, raw_queue_pair, records
from fanin_nic.port.verbs.events import Event

REAL = Path("/usr/include/infiniband/verbs.h")
FILLERS = {"rest", "padding", "guids", "vendor", "sqd", "atomics"}  # runs of unused members
STRUCTURES = {  # by the name in C; whole: whether the size is the same, too
    "ibv_gid_entry": (library.GidEntry, True),
    "ibv_device_attr": (library.DeviceAttributes, True),
    "ibv_port_attr": (library.PortAttributes, False),  # longer in newer versions
    "ibv_qp_cap": (library.Capabilities, True),
    "ibv_qp_init_attr": (library.QueuePairInit, True),
    "ibv_ah_attr": (library.AddressAttributes, True),
    "ibv_qp_attr": (library.QueuePairAttributes, True),
    "ibv_mr": (library.Region, True),
    "ibv_qp": (library.QueuePair, False),
    "ibv_comp_channel": (library.Channel, True),
    "ibv_async_event": (library.AsyncEvent, True),
}
IN_ROUTE = {"dgid", "flow_label", "sgid_index", "hop_limit", "traffic_class"}  # members of ibv_ah_attr.grh
TABLES = {  # numpy records: our members, and theirs
    "ibv_sge": (records.SGE, {"address": "addr", "length": "length", "key": "lkey"}),
    "ibv_send_wr": (
        records.SEND_REQUEST,
        {
            "number": "wr_id",
            "next": "next",
            "sges": "sg_list",
            "sge_count": "num_sge",
            "opcode": "opcode",
            "flags": "send_flags",
            "handle": "wr.ud.ah",
            "queue_pair": "wr.ud.remote_qpn",
            "queue_key": "wr.ud.remote_qkey",
        },
    ),
    "ibv_recv_wr": (
        records.RECEIVE_REQUEST,
        {"number": "wr_id", "next": "next", "sges": "sg_list", "sge_count": "num_sge"},
    ),
    "ibv_wc": (
        records.COMPLETION,
        {
            "number": "wr_id",
            "status": "status",
            "opcode": "opcode",
            "vendor_error": "vendor_err",
            "length": "byte_len",
            "immediate": "imm_data",
            "queue_pair": "qp_num",
            "source": "src_qp",
            "flags": "wc_flags",
        },
    ),
}
RULE = {  # parts of a steering rule
    "ibv_flow_attr": (
        raw_queue_pair.RULE_HEAD,
        {
            "mask": "comp_mask",
            "type": "type",
            "size": "size",
            "priority": "priority",
            "parts": "num_of_specs",
            "port": "port",
            "flags": "flags",
        },
    ),
    "ibv_flow_spec_eth": (
        raw_queue_pair.ETHERNET_PART,
        {
            "type": "type",
            "size": "size",
            "destination": "val.dst_mac",
            "ether_type": "val.ether_type",
            "destination_mask": "mask.dst_mac",
            "ether_type_mask": "mask.ether_type",
        },
    ),
    "ibv_flow_spec_ipv4": (
        raw_queue_pair.IPV4_PART,
        {"type": "type", "size": "size", "destination": "val.dst_ip", "destination_mask": "mask.dst_ip"},
    ),
    "ibv_flow_spec_tcp_udp": (
        raw_queue_pair.UDP_PART,
        {"type": "type", "size": "size", "destination": "val.dst_port", "destination_mask": "mask.dst_port"},
    ),
}
FROM_CONTEXT = "(long long)offsetof(struct verbs_context, {}) - (long long)offsetof(struct verbs_context, context)"
FUNCTIONS = {
    "poll_cq": records.POLL,
    "req_notify_cq": records.REQUEST_EVENT,
    "post_send": records.POST_SEND,
    "post_recv": records.POST_RECEIVE,
}
CODES = {
    "IBV_ACCESS_LOCAL_WRITE": library.LOCAL_WRITE,
    "IBV_QPT_UD": library.UD,
    "IBV_QPT_RAW_PACKET": library.RAW_PACKET,
    "IBV_QPS_RESET": library.RESET,
    "IBV_QPS_INIT": library.INIT,
    "IBV_QPS_RTR": library.RTR,
    "IBV_QPS_RTS": library.RTS,
    "IBV_QP_STATE": library.STATE,
    "IBV_QP_PKEY_INDEX": library.P_KEY_INDEX,
    "IBV_QP_PORT": library.PORT,
    "IBV_QP_QKEY": library.Q_KEY,
    "IBV_QP_SQ_PSN": library.SEND_PSN,
    "IBV_GID_TYPE_ROCE_V2": library.ROCE_V2,
    "IBV_PORT_ACTIVE": library.ACTIVE,
    "IBV_WR_SEND": records.SEND_OPCODE,
    "IBV_SEND_SIGNALED": records.SIGNALED,
    "sizeof(struct ibv_grh)": records.GRH_BYTES,
    "offsetof(struct ibv_context, async_fd)": library.ASYNC_FD,
    "offsetof(struct ibv_async_event, element.port_num)": library.AsyncEvent.element.offset,
    "IBV_FLOW_ATTR_NORMAL": raw_queue_pair.NORMAL,
    "IBV_FLOW_SPEC_ETH": raw_queue_pair.ETHERNET,
    "IBV_FLOW_SPEC_IPV4": raw_queue_pair.IPV4,
    "IBV_FLOW_SPEC_UDP": raw_queue_pair.UDP,
    FROM_CONTEXT.format("ibv_create_flow"): raw_queue_pair.CREATE_FLOW,
    FROM_CONTEXT.format("ibv_destroy_flow"): raw_queue_pair.DESTROY_FLOW,
    FROM_CONTEXT.format("sz"): raw_queue_pair.CONTEXT_SIZE,
    "sizeof(struct verbs_context) - offsetof(struct verbs_context, ibv_destroy_flow)": raw_queue_pair.MIN_CONTEXT_SIZE,
    "offsetof(struct ibv_context, abi_compat)": raw_queue_pair.ABI_COMPAT,
    "(uintptr_t)__VERBS_ABI_IS_EXTENDED >> 1": raw_queue_pair.EXTENDED >> 1,  # so that it has no sign
    **{f"IBV_EVENT_{event.name}": int(event) for event in Event},
}


def expected() -> dict[str, int]:
    found = dict(CODES)
    for name, (kind, is_whole) in STRUCTURES.items():
        if is_whole:
            found[f"sizeof(struct {name})"] = ctypes.sizeof(kind)
        for member, *_ in kind._fields_:
            if member not in FILLERS:
                place = f"grh.{member}" if name == "ibv_ah_attr" and member in IN_ROUTE else member
                found[f"offsetof(struct {name}, {place})"] = getattr(kind, member).offset
    for name, (table, members) in (TABLES | RULE).items():
        found[f"sizeof(struct {name})"] = table.itemsize
        for ours, theirs in members.items():
            found[f"offsetof(struct {name}, {theirs})"] = np.dtype(table).fields[ours][1]
    return found | {f"offsetof(struct ibv_context, ops.{name})": place for name, place in FUNCTIONS.items()}


@pytest.mark.process
def test_layouts(tmp_path: Path) -> None:
    if not REAL.exists() or shutil.which("cc") is None:
        pytest.skip(f"{REAL} (Debian: libibverbs-dev), or a C compiler")
    wanted = expected()
    lines = [f'printf("%lld\\n", (long long)({expression}));' for expression in wanted]
    source = "\n".join(
        ["#include <infiniband/verbs.h>", "#include <stdio.h>", "#include <stddef.h>", "int main(void) {", *lines, "}"]
    )
    program = tmp_path / "layouts"
    subprocess.run(["cc", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(wanted, map(int, said), strict=True)) == wanted
