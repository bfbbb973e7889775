"""Whether a set of hosts can work together: devices, addresses, paths in both directions, multicast, an allreduce."""

import ipaddress
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from fanin_tools.errors import ToolError
from fanin_tools.hosts.description import Device, Hosts
from fanin_tools.hosts.probe import SHORTEST
from fanin_tools.hosts.session import START_SECONDS, Session
from fanin_tools.progress import ProgressCallback, activity
from fanin_wire.limits import MIN_MTU

TRIES = 6
ARRIVAL_SECONDS = 0.5
POLL_SECONDS = 0.02
JOIN_SECONDS = 30.0
ALLREDUCE_SECONDS = 4 * JOIN_SECONDS
FIREWALL = "let UDP to port 4791 in and out, from and to the addresses of the devices (nft list ruleset)"
# Errors of the system for a packet that it does not send: name, cause, remedy.
REFUSALS = {
    "EMSGSIZE": (
        "MTU_TOO_SMALL",
        "its network carries packets of {mtu} bytes to there, and the device sends up to {size}",
        "give the interface that MTU (ip link set DEV mtu {size}), or all devices mtu = {mtu}",
    ),
    "EPERM": ("FILTERED", "a packet filter of this host refuses {size} bytes to UDP port 4791", FIREWALL),
    "ECONNREFUSED": ("FILTERED", "the other side refuses UDP port 4791: a packet filter, or nobody listens", FIREWALL),
    "ENETUNREACH": ("NO_ROUTE", "there is no route", "give the hosts addresses of one network, or routes (ip route)"),
    "EHOSTUNREACH": ("NO_ROUTE", "the other host does not answer to ARP, or a router has no route", "ip neighbour"),
}


@dataclass(frozen=True)
class Finding:
    """Something wrong. host: where; "SOURCE -> TARGET" for a path of which either end may be the cause."""

    host: str
    name: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.host}: {self.name}: {self.cause}; {self.remedy}"


@dataclass
class Report:
    """What was found. devices: each device's own report, by address; path: of the allreduce."""

    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    path: str = ""

    def add(self, host: str, error: ToolError) -> None:
        self.findings.append(Finding(host, error.name, error.cause, error.remedy))


class PathFailure(ToolError):
    """What is wrong with a path. host: where; "": at either end, or between them."""

    def __init__(self, error: ToolError, host: str = "") -> None:
        super().__init__(error.name, error.cause, error.remedy)
        self.host = host


class Check:
    """Checks `hosts` by their agents."""

    def __init__(self, hosts: Hosts, session: Session, progress: ProgressCallback) -> None:
        self._hosts, self._session, self._progress = hosts, session, progress
        self._about: dict[str, dict[str, Any]] = {}  # each host's own report
        self._tried: dict[tuple[str, str], bool] = {}  # by source and target host: whether all arrives
        self.report = Report()

    def run(self) -> Report:
        """All steps. A path is tried if its ends answer, the allreduce if nothing is wrong."""
        self._ask_hosts()
        self._ask_devices()
        self._compare_devices()
        self._try_paths()
        self._look_for_strangers()
        if not self.report.findings:
            self._reduce()
        return self.report

    def _find(self, host: str, name: str, cause: str, remedy: str) -> None:
        self.report.findings.append(Finding(host, name, cause, remedy))

    # ---- Hosts ----

    def _ask_hosts(self) -> None:
        addresses = [device.address for device in self._hosts.devices()]
        said = self._session.ask_all(
            self._hosts.names, lambda agent: agent.ask("hello", START_SECONDS, addresses=addresses)
        )
        for host, answer in said.items():
            if isinstance(answer, ToolError):
                self.report.add(host, answer)
                continue
            self._about[host] = answer
            if answer["version"] != metadata.version("fanin"):
                cause = f"Fanin {answer['version']} is installed there, and {metadata.version('fanin')} here"
                self._find(host, "VERSION_MISMATCH", cause, "install the same version on every host")
        for device in self._hosts.devices():
            self._look_for_owner(device)

    def _look_for_owner(self, device: Device) -> None:
        owner = self._about.get(device.host)
        if owner is None:
            return
        if device.address not in owner["own"]:
            remedy = "give its interface that address (ip address add), or correct the file of the hosts"
            self._find(device.host, "NO_ADDRESS", f"{device.address} is not an address of this host", remedy)
        for host, other in self._about.items():
            if device.address in other["own"] and other["network"] != owner["network"]:
                cause = f"it has the address {device.address} of the {device.kind} of {device.host}"
                self._find(host, "ADDRESS_TWICE", cause, "remove it there (ip address del)")

    # ---- Devices ----

    def _ask_devices(self) -> None:
        for device in self._hosts.devices():
            if device.host not in self._about:
                continue
            try:
                found = self._session.agents[device.host].ask("status", socket=device.socket)
            except ToolError as error:
                self.report.add(device.host, error)
                continue
            self.report.devices[device.address] = found
            for name in ("kind", "address"):
                if found[name] != getattr(device, name):
                    cause = f"the device at {device.socket} has {name} {found[name]}, not {getattr(device, name)}"
                    self._find(device.host, "WRONG_DEVICE", cause, "correct its settings, or the file of the hosts")
            if found["draining"]:
                self._find(device.host, "DRAINING", f"the {device} takes no new job", "restart it")

    def _compare_devices(self) -> None:
        """MTU, version, and what must be equal on all devices."""
        known = self.report.devices
        if not known:
            return
        widest = self._hosts.mtu or max(found["mtu"] for found in known.values())
        usual = {name: _most_common(found[name] for found in known.values()) for name in ("version", "detection_s")}
        for device in self._hosts.devices():
            found = known.get(device.address)
            if not found:
                continue
            if found["mtu"] != widest:
                cause = f"the {device} has an MTU of {found['mtu']}, {_whose(self._hosts)} {widest}"
                remedy = "set the MTU of its interface (ip link set DEV mtu), or `mtu` of all devices, and restart it"
                self._find(device.host, "MTU_DIFFERS", cause, remedy)
            for name, value in usual.items():
                if found[name] != value:
                    code = "VERSION_MISMATCH" if name == "version" else "SETTINGS_DIFFER"
                    cause = f"the {device} has {name} {found[name]}, others {value}"
                    self._find(device.host, code, cause, "make it equal on all devices, and restart it")

    # ---- Paths ----

    def _paths(self) -> Iterator[tuple[Device, Device]]:
        """The job's neighbours that answer, in both directions."""
        job, seen = self._hosts.job(), set[tuple[str, str]]()
        for rank in range(job.size):
            place, own = job.membership(rank), job.nodes[rank].address
            ways: list[list[int | str]] = [[own, place.next_address]] if place.next_address else []
            if place.node_index == place.node_count - 1 or not place.next_address:  # of a ring only the last node
                ways.append([own, *(hop.address for hop in place.hops)])
            for lower, upper in itertools.chain.from_iterable(map(itertools.pairwise, ways)):
                pair = str(ipaddress.IPv4Address(lower)), str(ipaddress.IPv4Address(upper))
                seen |= {pair, pair[::-1]}
        for source, target in sorted(seen):
            ends = self._hosts.device(source), self._hosts.device(target)
            if ends[0] and ends[1] and {source, target} <= self.report.devices.keys():
                yield ends[0], ends[1]

    def _try_paths(self) -> None:
        paths, lost = list(self._paths()), []
        with activity("trying the paths between the devices", self._progress, len(paths)) as trying:
            for done, (source, target) in enumerate(paths):
                trying.update(done)
                failure = self._try(source, target)
                between = source.host, target.host
                self._tried[between] = failure is None and self._tried.get(between, True)
                if failure:
                    lost.append((source, target, failure))
        for source, target, failure in lost:
            self.report.add(failure.host or self._suspect(source.host, target.host), failure)
        for switch in self._hosts.switches:
            sender = self._hosts.device(switch.address)
            if switch.group and sender and sender.address in self.report.devices:
                self._try_group(sender, switch.group)

    def _suspect(self, source: str, target: str) -> str:
        """The end of a path with more failing paths; both if they have equally many."""
        shares = {}
        for end in (source, target):
            others = {other: True for pair in self._tried if end in pair for other in pair if other != end}
            for pair, works in self._tried.items():
                others |= {other: False for other in pair if end in pair and other != end and not works}
            shares[end] = list(others.values()).count(False) / max(1, len(others))
        if shares[source] == shares[target]:
            return f"{source} -> {target}"
        return source if shares[source] > shares[target] else target

    def _try(self, source: Device, target: Device) -> PathFailure | None:
        """What is wrong with a path, tried with a short packet and one of full size."""
        longest = min(self.report.devices[end.address]["mtu"] for end in (source, target))
        try:
            for size in (SHORTEST, longest):
                if not self._arrives(source, target, size):
                    return self._explain_loss(source, target, size)
        except ToolError as error:
            return PathFailure(error, source.host)
        return None

    def _arrives(self, source: Device, target: Device, size: int, address: str = "", tries: int = TRIES) -> bool:
        """Whether packets of a size get from a device to another; address: of a group instead. Raises ToolError if the
        source can not send them."""
        before = self._probes(target)
        for _ in range(tries):
            sent = self._session.agents[source.host].ask(
                "send", source=source.address, destination=address or target.address, size=size
            )
            if sent:
                raise _refusal(sent, source, target, size)
            end = time.monotonic() + ARRIVAL_SECONDS
            while time.monotonic() < end:
                if self._probes(target) > before:
                    return True
                time.sleep(POLL_SECONDS)
        return False

    def _probes(self, device: Device) -> int:
        return int(self._session.agents[device.host].ask("status", socket=device.socket)["probes"])

    def _explain_loss(self, source: Device, target: Device, size: int) -> PathFailure:
        if size == SHORTEST:
            cause = f"no UDP packet from the {source} arrives at port 4791 of the {target}"
            return PathFailure(ToolError("FILTERED", cause, f"on both hosts and between them, {FIREWALL}"))
        fits = self._longest(source, target, SHORTEST, size)
        cause = f"packets of {size} bytes from the {source} do not arrive at the {target}; those of {fits} bytes do"
        remedy = f"let the network between them carry {size} bytes (MTU of each interface, filters for long packets)"
        if fits >= MIN_MTU:
            remedy += f", or give all devices mtu = {fits}"
        return PathFailure(ToolError("PATH_MTU", cause, remedy))

    def _longest(self, source: Device, target: Device, fits: int, lost: int) -> int:
        """The longest packet that arrives, between a length that does and one that does not."""
        while lost - fits > 1:
            size = (fits + lost) // 2
            arrives = self._arrives(source, target, size, tries=1)
            fits, lost = (size, lost) if arrives else (fits, size)
        return fits

    def _try_group(self, switch: Device, group: str) -> None:
        """Whether a switch's packets to a group arrive at the NICs below it."""
        below = [host.address for host in self._hosts.hosts if switch.address in self._hosts.switches_above(host)[:1]]
        for nic in self._hosts.devices():
            if nic.address not in below or nic.address not in self.report.devices:
                continue
            try:
                if not self._arrives(switch, nic, SHORTEST, group):
                    cause = f"packets from the {switch} to the group {group} do not arrive at the {nic}"
                    remedy = f'give the NIC parent_group = "{group}", let the network forward it, or use no group'
                    self._find(nic.host, "NO_MULTICAST", cause, remedy)
            except ToolError as error:
                self.report.add(switch.host, error)

    def _look_for_strangers(self) -> None:
        """Hosts may have learnt another hardware address for a device than its own."""
        said = self._session.ask_all(self._about, lambda agent: agent.ask("neighbours"))
        for device in self._hosts.devices():
            own = self._about.get(device.host, {}).get("hardware", [])
            for host, answer in said.items():
                seen = "" if isinstance(answer, ToolError) else answer["neighbours"].get(device.address, "")
                if own and seen and seen not in own and host != device.host:
                    cause = f"{host} finds {device.address} at {seen}, which is not an interface of this host"
                    self._find(device.host, "ADDRESS_TWICE", cause, "find the other host (arping), and remove it there")

    # ---- An allreduce ----

    def _reduce(self) -> None:
        ranks = {host.name: (rank, host.socket) for rank, host in enumerate(self._hosts.hosts)}
        job = self._hosts.job().to_text()
        with activity("an allreduce over all hosts", self._progress) as reducing:
            reducing.update()
            said = self._session.ask_all(
                ranks,
                lambda agent: agent.ask(
                    "allreduce",
                    ALLREDUCE_SECONDS,
                    job=job,
                    rank=ranks[agent.host][0],
                    socket=ranks[agent.host][1],
                    seconds=JOIN_SECONDS,
                ),
            )
        for host, answer in said.items():
            if isinstance(answer, ToolError):
                self.report.add(host, answer)
            elif answer["wrong"]:
                self._find(host, "WRONG_RESULT", f"{answer['wrong']} elements are wrong", "report this defect")
            elif not self.report.path:
                self.report.path = answer["path"]


def _most_common(values: Iterator[Any]) -> Any:
    return Counter(values).most_common(1)[0][0]


def _whose(hosts: Hosts) -> str:
    return "the file of the hosts says" if hosts.mtu else "others have"


def _refusal(sent: dict[str, Any], source: Device, target: Device, size: int) -> ToolError:
    name, cause, remedy = REFUSALS.get(sent["error"], ("SEND_ERROR", sent["text"], "see the cause"))
    numbers = {"mtu": sent["mtu"], "size": size}
    return ToolError(name, f"from the {source} to the {target}: {cause.format(**numbers)}", remedy.format(**numbers))
