"""Packets on a link, after the kernel has cut the super-packets: RoCEv2, dissected by scapy, ICRC right."""

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from fanin_wire import fields
from fanin_wire.layers import BTH

pytestmark = pytest.mark.netns

SEGMENT_INDEX = fields.CETH.byte_offset("segment_index")


@functools.cache
def namespace_command() -> tuple[str, ...]:
    """Command that runs another in a new network namespace; skips the test if that is impossible."""
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"the program `{tool}` is missing (util-linux, iproute2)")
    command = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--net", "--map-root-user")
    attempt = f"ip link add link0 type veth peer name tap0 && exec {shlex.quote(sys.executable)} --version"
    tried = subprocess.run([*command, "sh", "-c", attempt], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no network namespace with a veth link and this Python can be had here: {tried.stderr.strip()}")
    return command


@pytest.fixture(scope="module")
def capture() -> dict:
    script = Path(__file__).with_name("send_on_link.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [*namespace_command(), sys.executable, str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def frames(capture) -> list:
    return [Ether(bytes.fromhex(frame)) for frame in capture["frames"]]


def test_each_frame_is_one_packet_with_the_right_icrc(frames, rocev2):
    assert len(frames) == 26
    for frame in frames:
        ip, udp, transport = frame[IP], frame[UDP], frame[BTH]
        covered = bytes(udp.payload)[:-4]
        icrc = rocev2.icrc_of(ip.src, ip.dst, udp.sport, covered, ip.id)
        assert icrc == bytes(udp.payload)[-4:] == transport.compute_icrc(bytes(transport))
        assert (ip.flags, udp.dport, transport.opcode) == ("DF", fields.UDP_PORT, fields.Opcode.CONTRIBUTION)


def test_identification_is_the_segment_index(frames):
    indices = [bytes(frame[BTH].payload)[SEGMENT_INDEX] for frame in frames]
    assert [frame[IP].id for frame in frames] == indices == [*range(15), *range(6), *range(3), *range(2)]


def test_packets_are_numbered_in_the_order_sent(frames):
    assert [frame[BTH].psn for frame in frames] == list(range(26))


def test_packets_beyond_the_mtu_are_dropped_and_counted(capture):
    assert +Counter(capture["drops"]) in (Counter(drop_message_size=1), Counter(drop_send_error=1))
