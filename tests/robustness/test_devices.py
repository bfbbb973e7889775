"""Real devices under attack, by clients and over UDP, while a job on them must stay right to the last bit."""

import itertools

import pytest

from fanin_tools.fabric import device_query
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.fuzz.engine_fuzz import packet_source
from fanin_tools.stress.fuzz.hostile_sender import Sender
from fanin_tools.stress.fuzz.run import attack_fabric
from fanin_tools.stress.tally import HOSTILE_INPUT, Tally, Work
from tests.waiting import eventually

SECONDS = 4.0  # of an attack; a busy machine needs several
DATAGRAMS, BURST = 3000, 100
STRANGER = "127.66.66.66"
ORDINARY_REASONS = ("unknown_opcode", "unknown_queue_pair", "service", "sender", "qkey", "opcode_sequence")
AFTER_RX = ("key", "unknown_job", "sender", "slot", "stale", "duplicate", "unexpected", "config", "ended")


@pytest.mark.process
@pytest.mark.parametrize("lanes", [1, 2])
def test_a_job_stays_right_beside_hostile_clients_and_packets(
    lanes: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = 20 + lanes
    print(f"seed {seed}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("h", numbered=True)))
    tally, seeds = Tally(seed), itertools.count(seed, 2)

    def lacking() -> list[str]:
        """Cases not met by the end of one more attack."""
        attack_fabric(SECONDS, next(seeds), tally, lanes=lanes)
        assert tally.findings == []
        kinds = [kind.name for kind in HOSTILE_INPUT if kind != Work.PACKETS and not tally.work[kind]]
        return kinds + [reason for reason in ORDINARY_REASONS if not tally.drops[f"ordinary_drop_{reason}"]]

    eventually(lacking, lambda lacks: not lacks)
    assert tally.work[Work.CONTROL_ROUNDS] > 10


@pytest.mark.parametrize("kind", ["switch", "nic"])
def test_every_datagram_is_let_in_or_counted(running: Running, kind: str) -> None:
    """All are counted, by reason or by opcode: none is lost silently."""
    device = next(device for device in running.fabric.devices if device.kind == kind)
    tally = Tally(9)
    sender = Sender(STRANGER, packet_source(9), tally)

    def counted() -> int:
        """Packets in total: dropped by port or engine, or counted by opcode (some dropped then)."""
        counters = device_query.query_status(running.state.socket(device.name))["counters"]
        drops = sum(value for name, value in counters.items() if name.startswith("drop_"))
        taken = sum(value for name, value in counters.items() if name.startswith("rx_"))
        counted_twice = sum(counters[f"drop_{reason}"] for reason in AFTER_RX)
        return drops - counted_twice + taken + counters["ordinary_packets"]

    before = counted()
    try:
        for number in range(1, DATAGRAMS + 1):
            sender.send(device.address, jid=12345, key=1)
            if number % BURST == 0:  # the kernel would drop a flood, and count it as super-packets
                eventually(lambda: counted() - before, lambda grown, sent=number: grown >= sent)
    finally:
        sender.close()
    assert counted() - before == DATAGRAMS
