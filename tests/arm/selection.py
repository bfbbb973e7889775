"""The tests that run on emulated Arm, and those that can not.

An emulated Python is ten times slower, and device code of tests alone must be compiled there. So `make arm` runs a
sample of each folder; with FANIN_TEST_ARM=all, whole folders.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

ALL = os.environ.get("FANIN_TEST_ARM") == "all"


class Part(NamedTuple):
    """Tests of one folder. sample: run by default; whole: with FANIN_TEST_ARM=all. calls_device_code: beyond a device's
    entries; that is compiled on this machine first."""

    name: str
    sample: Sequence[str]
    whole: Sequence[str]
    calls_device_code: bool = True

    @property
    def chosen(self) -> Sequence[str]:
        return self.whole if ALL else self.sample


PARTS = (
    Part(
        "wire",
        ("tests/wire/test_abi.py", "tests/wire/test_codec.py", "tests/wire/test_rocev2.py"),
        ("tests/wire",),
        False,
    ),
    Part(
        "engine",
        ("tests/engine/test_vectors.py", "tests/engine/test_kernels.py", "tests/engine/test_recovery.py"),
        ("tests/engine",),
    ),
    Part(
        "driver",
        ("tests/host/test_core.py", "tests/host/test_rings.py", "tests/host/test_vector.py"),
        ("tests/host", "tests/libfanin"),
        False,
    ),
    Part("port", ("tests/port/test_icrc.py", "tests/port/test_round_trip.py"), ("tests/port",)),
    Part("lanes", ("tests/lanes/test_split.py", "tests/lanes/test_merge.py"), ("tests/lanes",)),
)

# Limits of an emulated program in a namespace
NO_STEERING = "qemu-user has no SO_ATTACH_REUSEPORT_CBPF, by which packets come to their lane"
NO_GROUPS = "qemu-user has no IP_MULTICAST_ALL, by which a socket hears its own groups only"
NO_DROPS = "qemu-user gives 4 bytes of SO_MEMINFO, without the count of dropped packets"
NO_ROUTE = "the namespace has no route to other hosts"
NO_HEADERS = "the root file system has no headers of Python; the step `library` has compiled the extension"
COMPILES = "compiles device code for Arm, which is for the machine that compiles"
LEFT_OUT: dict[str, str] = {
    "tests/lanes/test_cross.py": COMPILES,
    "tests/port/test_crc_arm.py": COMPILES,
    "tests/engine/test_arm_atomics.py": COMPILES,
    "tests/host/test_core.py::test_extension_compiles_without_a_warning": NO_HEADERS,
    "tests/port/test_dropped.py::test_packets_without_room_are_counted": NO_DROPS,
    "tests/port/test_group.py::test_each_lane_gets_its_own_only": NO_STEERING,
    "tests/port/test_group.py::test_group_packets_are_seen_before_repeated_ones": NO_GROUPS,
    "tests/port/test_group.py::test_however_little_a_batch_is": NO_GROUPS,
    "tests/port/test_group.py::test_one_packet_reaches_all_that_listen": NO_GROUPS,
    "tests/port/test_group.py::test_other_groups_are_not_heard": NO_GROUPS,
    "tests/port/test_group.py::test_super_packets_are_not_cut": NO_GROUPS,
    "tests/port/test_group.py::test_the_address_counts_in_the_checksum": NO_GROUPS,
    "tests/port/test_group.py::test_unicast_packets_arrive_beside_the_group": NO_GROUPS,
    "tests/port/test_lanes.py::test_a_lane_that_the_receiver_lacks_is_dropped_and_counted": NO_STEERING,
    "tests/port/test_lanes.py::test_a_second_device_is_refused": NO_STEERING,
    "tests/port/test_lanes.py::test_each_lane_gets_its_own": NO_STEERING,
    "tests/port/test_lanes.py::test_ordinary_traffic_is_lane_0": NO_STEERING,
    "tests/port/test_lanes.py::test_ports_that_can_not_all_be_had_are_given_back": NO_STEERING,
    "tests/port/test_round_trip.py::test_a_destination_that_can_not_be_reached_is_counted": NO_ROUTE,
}
"""Tests by their names, or the start of them, and why they are not run."""
