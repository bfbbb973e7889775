"""Scenes of recovery (PROBE, NEED, WAIT, ACK) and of membership (CONFIG to KEEPALIVE)."""

from fanin_wire.abi import Route, Status
from fanin_wire.fields import Opcode

from .scenes import CHILDREN, GROUP, NODES, SWITCH, Scene, offload, place

NODE = NODES[2]
BIT = {"source": 2}
TOKEN = {"token": 0x70CE0001}
BOOT_ID = 0x0123456789ABCDEF
START = {"token": BOOT_ID & 0xFFFFFFFF}  # of a CONFIG and its answer
PLACE = place(517, 512)
CONFIG_SIZE, HOP_SIZE = 40, 32
MAPPED = "::ffff:"


def _up(name: str, text: str, opcode: Opcode, **ceth: int) -> Scene:
    return Scene(name, text, NODE, SWITCH, offload(opcode, **BIT, **ceth))


def _down(name: str, text: str, opcode: Opcode, **ceth: int) -> Scene:
    return Scene(name, text, SWITCH, NODE, offload(opcode, **BIT, **ceth))


def _hop(address: str, bit: int, mask: int) -> dict:
    return {"address": MAPPED + address, "mask": mask, "bit": bit}


def _config(name: str, text: str, route: str, sender: str, hops: list[dict]) -> Scene:
    config = {
        "boot_id": BOOT_ID,
        "digest_high": 0x1122334455667788,
        "digest_low": 0x99AABBCCDDEEFF00,
        "slots": 256,
        "window": 128,
        "chunk": 4096,
        "route": int(Route[route]),
        "hops": len(hops),
    }
    ceth = {"source": hops[0]["bit"], "length": CONFIG_SIZE + HOP_SIZE * len(hops)}
    headers = offload(Opcode.CONFIG, body={"CONFIG": config, "HOP": hops}, **START, **ceth)
    return Scene(name, text, sender, hops[0]["address"].removeprefix(MAPPED), headers)


def _config_ack(name: str, text: str, slots: int, window: int, **ceth: int) -> Scene:
    body = {"CONFIG_ACK": {"slots": slots, "window": window}}
    return Scene(name, text, SWITCH, NODE, offload(Opcode.CONFIG_ACK, body=body, length=8, **BIT, **START, **ceth))


RECOVERY = (
    _up(
        "probe",
        "Node 2 asks for position 517 after its time-out. The token comes back.",
        Opcode.PROBE,
        **PLACE,
        **TOKEN,
    ),
    _down(
        "need",
        "The switch does not have node 2's contribution to position 517: send it again.",
        Opcode.NEED,
        **PLACE,
        **TOKEN,
    ),
    Scene(
        "wait",
        "Position 517 waits for nodes 0 and 3, the more silent of which was heard 1.5 s ago.",
        SWITCH,
        NODE,
        offload(
            Opcode.WAIT,
            body={"WAIT": {"oldest_age_us": 1_500_000, "oldest_child": 2, "kind": 1}},
            length=8,
            node_bitmap=0b1001,
            **BIT,
            **PLACE,
            **TOKEN,
        ),
    ),
    Scene(
        "ack_ring",
        "Node 2 to node 1: of its CONTRIBUTIONs 516, 517 and 519 are stored, of its RESULTs 516.",
        NODES[2],
        NODES[1],
        offload(Opcode.ACK, position=516, seg=4, source=2, node_bitmap=0b1011, rank_bitmap=0b1),
    ),
    Scene(
        "ack_full_map",
        "The whole map: CONTRIBUTIONs 516 to 579 are stored, of RESULTs 516 and 579. The token answers a PROBE.",
        NODES[2],
        NODES[1],
        offload(
            Opcode.ACK, position=516, seg=4, source=2, node_bitmap=2**64 - 1, rank_bitmap=2**63 | 1, token=0x70CE0002
        ),
    ),
)

MEMBERSHIP = (
    _config(
        "config_one_hop",
        "Node 2 joins under one switch: it is bit 2 there, and the switch waits for bits 0 to 3.",
        "TREE",
        NODE,
        [_hop(SWITCH, 2, 0b1111)],
    ),
    _config(
        "config_three_hops",
        "Three levels of switches: the receiver takes the first entry and sends the other two up.",
        "TREE",
        NODE,
        [_hop(SWITCH, 2, 0b1111), _hop("192.0.2.110", 1, 0b11), _hop("192.0.2.120", 0, 0b111)],
    ),
    _config(
        "config_ring",
        "Ring: node 1 begins the chain 1, 2, 3, 0. Each node waits for the one before it; node 0 is the top.",
        "RING",
        NODES[1],
        [_hop(NODES[2], 1, 0b10), _hop(NODES[3], 2, 0b100), _hop(NODES[0], 3, 0b1000)],
    ),
    _config_ack("config_ack", "The job is formed, with 256 slots and a window of 128.", 256, 128),
    _config_ack(
        "config_ack_pending", "Not yet: nodes 0 and 3 have not joined.", 0, 0, status=Status.PENDING, node_bitmap=0b1001
    ),
    _config_ack("config_ack_no_resources", "Refused: 64 slots would fit.", 64, 0, status=Status.NO_RESOURCES),
    _up("leave", "Node 2 has finished and leaves.", Opcode.LEAVE),
    _up(
        "leave_with_abort",
        "Node 2 leaves because something failed there: the job is aborted for all.",
        Opcode.LEAVE,
        status=Status.ABORTED,
    ),
    _down("leave_ack", "The switch has taken the LEAVE, or does not know the job.", Opcode.LEAVE_ACK),
    _up("query", "Node 2 asks for the state of the job.", Opcode.QUERY, **TOKEN),
    _down(
        "status",
        "The job is forming; nodes 0 and 3 are missing.",
        Opcode.STATUS,
        status=Status.PENDING,
        node_bitmap=0b1001,
        **TOKEN,
    ),
    _down("abort", "The job is dead: node 3 is lost.", Opcode.ABORT, status=Status.PEER_LOST, node_bitmap=0b1000),
    _down(
        "abort_lost_switch",
        "The job is dead: the switch above this one, 192.0.2.200, is lost, and with it all of its four children.",
        Opcode.ABORT,
        status=Status.PEER_LOST,
        seg=2,
        node_bitmap=0b1111,
        rank_bitmap=0xC00002C8,
    ),
    _down("nak", "The switch does not know the job.", Opcode.NAK, status=Status.NOT_CONFIGURED),
    _up("keepalive", "Node 2 is alive, and has nothing to say.", Opcode.KEEPALIVE),
    Scene(
        "keepalive_group",
        "An invitation: who hears this hears the multicast group of the switch.",
        SWITCH,
        GROUP,
        offload(Opcode.KEEPALIVE, node_bitmap=CHILDREN),
    ),
)
