"""Checks of kernel and hardware: CPU, sockets, namespaces, RDMA devices, the cache of compiled code."""

import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path

from fanin_tools import kernel_files
from fanin_tools.doctor.check import CheckResult, Level
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces

SOL_UDP = 17  # include/uapi/linux/udp.h
UDP_SEGMENT = 103
UDP_GRO = 104
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
WANTED_BUFFER = 4 << 20  # bytes: no drops from here on, measured on loopback and veth
CARRYLESS = ("vpclmulqdq", "pclmulqdq", "pmull")  # CPU flags of x86, best first, and of Arm
CAP_NET_RAW = 13  # linux/capability.h
RDMA_FOLDER = Path("/sys/class/infiniband")
CPUS = Path("/proc/cpuinfo")


def run_checks() -> Iterator[CheckResult]:
    yield CheckResult("CPUs", Level.OK, f"{len(os.sched_getaffinity(0))} usable", "everything")
    yield from _kernel_files()
    yield _checksum()
    yield _socket_option("UDP GSO", UDP_SEGMENT, 1400)
    yield _socket_option("UDP GRO", UDP_GRO, 1)
    yield _receive_buffer()
    yield _namespaces()
    yield _rdma()
    yield _cache()


def _kernel_files() -> Iterator[CheckResult]:
    """Files of the kernel that this process can not see."""
    for folder, probes, enables in (
        ("/proc", (kernel_files.PROBE, CPUS), "fabrics, memory that is not registered"),
        ("/sys", (Path("/sys/devices"),), "topology, RDMA devices"),
    ):
        if lacking := [str(probe) for probe in probes if not probe.exists()]:
            detail = f"{', '.join(lacking)} can not be seen"
            yield CheckResult(folder, Level.LIMITED, detail, enables, kernel_files.MOUNT[folder])


def _checksum() -> CheckResult:
    """Carry-less multiplication computes the ICRC at memory speed."""
    flags = _cpu_flags()
    best = next((flag for flag in CARRYLESS if flag in flags), None)
    if best == CARRYLESS[0]:
        return CheckResult("ICRC", Level.OK, best, "checksums at memory speed")
    if best == CARRYLESS[-1] and "crc32" in flags:
        return CheckResult("ICRC", Level.OK, f"{best}, crc32", "checksums at memory speed")
    detail = f"{platform.machine()} with {best or 'no carry-less multiplication'}"
    return CheckResult("ICRC", Level.LIMITED, detail, "checksums at memory speed", "works, with a slower method")


def _cpu_flags() -> set[str]:
    for line in CPUS.read_text().splitlines() if CPUS.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def _socket_option(subject: str, option: int, value: int) -> CheckResult:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(SOL_UDP, option, value)
        except OSError as error:
            detail = f"setsockopt: {error.strerror}"
            return CheckResult(
                subject, Level.LIMITED, detail, "super-packets of many segments", "use Linux 5.0 or newer"
            )
    return CheckResult(subject, Level.OK, "present", "super-packets of many segments")


def _receive_buffer() -> CheckResult:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, WANTED_BUFFER)
        except PermissionError:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WANTED_BUFFER)
        granted = probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # the kernel counts its overhead double
    detail, enables = f"{granted >> 10} KiB", "many segments in flight"
    if granted >= WANTED_BUFFER:
        return CheckResult("socket buffer", Level.OK, detail, enables)
    remedy = f"works, with small windows; for more: sysctl net.core.rmem_max={WANTED_BUFFER}"
    return CheckResult("socket buffer", Level.LIMITED, detail, enables, remedy)


def _namespaces() -> CheckResult:
    enables = "fabrics with a host per namespace (--netns)"
    try:
        namespaces.require()
    except ToolError as error:
        return CheckResult("namespaces", Level.MISSING, error.cause, enables, error.remedy)
    return CheckResult("namespaces", Level.OK, "allowed", enables)


def _rdma() -> CheckResult:
    devices = sorted(path.name for path in RDMA_FOLDER.iterdir()) if RDMA_FOLDER.is_dir() else []
    if devices:
        frames = "allowed" if _may_have_frames() else "not allowed (CAP_NET_RAW)"
        detail = f"{', '.join(devices)}; RAW_PACKET queue pairs are {frames}"
        return CheckResult("RDMA devices", Level.OK, detail, "ordinary verbs traffic, ports over verbs")
    return CheckResult("RDMA devices", Level.ABSENT, "none: UDP carries everything", "ports over verbs")


def _may_have_frames() -> bool:
    """CAP_NET_RAW, which a RAW_PACKET queue pair needs."""
    path = Path("/proc/thread-self/status")
    if not path.exists():
        return False
    status = path.read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return bool(effective >> CAP_NET_RAW & 1)


def _cache() -> CheckResult:
    from fanin_nic.native import cache

    subject, enables, remedy = "compiled code", "start without compiling", cache.CacheUnavailable.remedy
    try:
        folder = cache.choose_cache_folder()
    except cache.CacheUnavailable as error:
        return CheckResult(subject, Level.BROKEN, error.cause, "devices", remedy)
    own = cache.cache_root()
    if own is None or not folder.is_relative_to(own):
        detail = f"{own} can not be written" if own else "there is no home"
        lasting = f"{remedy}: temporary files may be removed"
        return CheckResult(subject, Level.LIMITED, f"{detail}; {folder} serves", enables, lasting)
    if not cache.completion_mark(folder).exists():
        compiles = "works: the first start of a device compiles what is missing, a minute or two"
        return CheckResult(subject, Level.LIMITED, f"{folder} is not complete", enables, compiles)
    return CheckResult(subject, Level.OK, str(folder), enables)
