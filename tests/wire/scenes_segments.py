"""Scenes of CONTRIBUTION and RESULT."""

from dataclasses import replace

from fanin_wire.abi import DType, Status
from fanin_wire.fields import Opcode

from .scenes import (
    AHEAD,
    ALL,
    CHILDREN,
    DATA,
    GROUP,
    HEARS,
    NODES,
    NONE,
    ONE,
    RANKS,
    SWITCH,
    WANTS,
    Scene,
    arithmetic,
    data_scene,
    offload,
    place,
)

UP = {"source": 2, "node_bitmap": 1 << 2, "rank_bitmap": RANKS}  # from node 2 to the switch
DOWN = {"source": 2, "node_bitmap": 1 << 2}  # from the switch to node 2
FROM, TO = NODES[2], SWITCH


def _contribution(name: str, text: str, elements: list, operation: str, datatype: str, position: int = 517) -> Scene:
    flags = {"flags": ALL | DATA | WANTS, "contributions": 4}
    ceth = {**arithmetic(operation, datatype), **place(position, 512), **flags, **UP}
    return data_scene(Opcode.CONTRIBUTION, name, text, FROM, TO, elements, **ceth)


def _bytes_contribution(size: int) -> Scene:
    """ONE position of plain bytes: the only positions whose length need not be a multiple of 4."""
    payload = bytes(range(0xA1, 0xA1 + size))
    ceth = {"flags": ONE | DATA | WANTS, "contributions": 1, "length": size, **place(600, 600, mid=3), **UP}
    return Scene(
        f"contribution_{size}_bytes",
        f"The owner's data of a ONE position, {size} bytes without type: PadCnt is {-size % 4}, the padding is zero.",
        FROM,
        TO,
        offload(Opcode.CONTRIBUTION, payload, **ceth),
        payload,
    )


def _super_packet(index: int, elements: list) -> Scene:
    scene = _contribution(
        f"super_packet_segment_{index}",
        f"Segment {index} of a super-packet of three from lane 1, the last of which is shorter. The kernel or the NIC "
        f"gives it the IP identification {index}, which the receiver learns from segment_index and needs for the ICRC.",
        elements,
        "SUM",
        "f32",
        520 + index,
    )
    scene.headers["CETH"]["segment_index"] = index
    scene.headers["CETH"]["lane"] = 1
    scene.headers["BTH"]["psn"] = 100 + index
    return replace(scene, identification=index, port=0xC001)


CONTRIBUTIONS = (
    _contribution(
        "contribution_f32",
        "The partial of node 2 (four ranks) for position 517, which is segment 5 of message 2. -0.0 stays what it is.",
        [1.5, -0.0, 3.0e38, 1.0e-45],
        "SUM",
        "f32",
    ),
    _contribution("contribution_f64", "MEAN travels as a sum: the top device divides.", [0.1, -2.5], "MEAN", "f64"),
    _contribution("contribution_i32", "Integers are two's complement.", [-1, 2**31 - 1, -(2**31)], "MIN", "i32"),
    _contribution("contribution_i64", "One element of 8 bytes.", [-(2**63) + 1], "MAX", "i64"),
    _contribution(
        "contribution_last_position",
        "Positions are numbers modulo 2^32; the next one is 0, and its seg is 0 as well.",
        [7],
        "SUM",
        "i32",
        2**32 - 1,
    ),
    _bytes_contribution(1),
    _bytes_contribution(2),
    _bytes_contribution(3),
    _bytes_contribution(5),
    _super_packet(0, [1.0, 2.0, 3.0, 4.0]),
    _super_packet(1, [5.0, 6.0, 7.0, 8.0]),
    _super_packet(2, [9.0]),
    Scene(
        "contribution_credit",
        "A ONE position to which node 2 brings nothing: a header only, its credit.",
        FROM,
        TO,
        offload(Opcode.CONTRIBUTION, flags=ONE | WANTS, **place(601, 600, mid=3), **UP),
    ),
    Scene(
        "contribution_barrier",
        "A position of class NONE: nobody brings data and nobody wants any.",
        FROM,
        TO,
        offload(Opcode.CONTRIBUTION, flags=NONE, **place(602, 602, mid=4), **UP),
    ),
    Scene(
        "contribution_poison",
        "POISON: the data of a rank of node 2 can not be read. The status takes their place, the stream stays in step.",
        FROM,
        TO,
        offload(
            Opcode.CONTRIBUTION,
            flags=ALL | WANTS,
            status=Status.LOCAL_PROTECTION_ERROR,
            **arithmetic("SUM", "f32"),
            **place(518, 512),
            **UP,
        ),
    ),
    data_scene(
        Opcode.CONTRIBUTION,
        "contribution_hears_group",
        "Node 2 has heard the multicast group of the switch: the result of this position may come by it.",
        FROM,
        TO,
        [4, 5],
        **arithmetic("SUM", "i32"),
        **place(521, 512),
        flags=ALL | DATA | WANTS | HEARS,
        contributions=4,
        **UP,
    ),
    data_scene(
        Opcode.CONTRIBUTION,
        "contribution_ahead",
        "A broadcast of two numbers by a rank of node 2: the whole message, so its data may go ahead of the result.",
        FROM,
        TO,
        [6, 7],
        dtype=DType.I32,
        **place(603, 603, mid=5),
        flags=ONE | DATA | AHEAD,
        contributions=4,
        **UP,
    ),
    data_scene(
        Opcode.CONTRIBUTION,
        "contribution_ring",
        "Ring: segment 4 of a message begins at node (4 + 1) mod 4 = 1. Node 1 has added its share; nodes 2, 3 and 0 "
        "have not. source is the sender's node index; node 1 wants the result.",
        NODES[1],
        NODES[2],
        [10, 20, 30],
        **arithmetic("SUM", "i32"),
        **place(516, 512),
        flags=ALL | DATA | WANTS,
        contributions=4,
        source=1,
        node_bitmap=0b1101,
        rank_bitmap=0b0010,
    ),
)

RESULTS = (
    data_scene(
        Opcode.RESULT,
        "result_f32",
        "The result of position 517, over all 16 ranks, from the switch to node 2. An overflow gave an infinity.",
        TO,
        FROM,
        [6.0, 0.0, float("inf"), 4.0e-45],
        **arithmetic("SUM", "f32"),
        **place(517, 512),
        flags=ALL | DATA,
        contributions=16,
        **DOWN,
    ),
    data_scene(
        Opcode.RESULT,
        "result_nan",
        "A NaN that arithmetic gave is the canonical one.",
        TO,
        FROM,
        [float("nan")],
        **arithmetic("MAX", "f64"),
        **place(519, 512),
        flags=ALL | DATA,
        contributions=16,
        **DOWN,
    ),
    data_scene(
        Opcode.RESULT,
        "result_group",
        "One packet to the multicast group of the switch, for all four nodes: node_bitmap names them.",
        TO,
        GROUP,
        [16, 20],
        **arithmetic("SUM", "i32"),
        **place(521, 512),
        flags=ALL | DATA,
        contributions=16,
        node_bitmap=CHILDREN,
    ),
    data_scene(
        Opcode.RESULT,
        "result_ahead",
        "The data of contribution_ahead go ahead to nodes 0, 1 and 3 by the group. This packet acknowledges nothing.",
        TO,
        GROUP,
        [6, 7],
        dtype=DType.I32,
        **place(603, 603, mid=5),
        flags=ONE | DATA | AHEAD,
        contributions=4,
        node_bitmap=CHILDREN & ~(1 << 2),
    ),
    Scene(
        "result_header_only",
        "Node 2 did not want the result of this position: a header acknowledges its contribution.",
        TO,
        FROM,
        offload(Opcode.RESULT, flags=ONE, contributions=1, **place(601, 600, mid=3), **DOWN),
    ),
    Scene(
        "result_poison",
        "A rank's data could not be read: the position ends with this status on every rank.",
        TO,
        FROM,
        offload(
            Opcode.RESULT,
            flags=ALL,
            status=Status.LOCAL_PROTECTION_ERROR,
            contributions=12,
            **arithmetic("SUM", "f32"),
            **place(518, 512),
            **DOWN,
        ),
    ),
    data_scene(
        Opcode.RESULT,
        "result_ring",
        "Ring: segment 4 is complete at node 4 mod 4 = 0. Node 0 keeps the result and sends it on; nodes 1, 2 and 3 "
        "still have to take it, and want it.",
        NODES[0],
        NODES[1],
        [40, 80, 120],
        **arithmetic("SUM", "i32"),
        **place(516, 512),
        flags=ALL | DATA,
        contributions=16,
        source=0,
        node_bitmap=0b1110,
        rank_bitmap=0b1110,
    ),
)
