"""The description of a job, which all its ranks share, what the library derives from it, and processes that join a
running job."""

import dataclasses
import functools
import ipaddress
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self

import msgspec

from fanin.driver import complaint, ffi, library
from fanin.errors import InvalidRequest
from fanin.verbs.membership import Membership
from fanin_wire.abi import MAX_HOPS, JobFlag, Route
from fanin_wire.job_text import job_text
from fanin_wire.limits import DEFAULT_JOB_SLOTS, MAX_JOB_CHUNK

ENVIRONMENT_VARIABLE = "FANIN_JOB"
MAX_TEXT = 640  # bytes of a text of the library
START_REMEDY = (
    "Start the program with `fanin run -n N -- PROGRAM` (--mpi is for programs of an MPI), or give Communicator a job, "
    "rank and socket."
)
DESCRIPTION_REMEDY = "Correct the description; `fanin run` writes one, and Job says what its parts mean."
ROUTES = {
    "auto": int(ffi.typeof("enum fanin_job_limit").relements["FANIN_ROUTE_AUTO"]),
    **{name.lower(): int(Route[name]) for name in ("TREE", "RING", "LOCAL")},
}
WIDE, FIXED_START = int(JobFlag.WIDE), int(JobFlag.FIXED_START)
RUN, SHAPE = int(JobFlag.REPRODUCIBLE_RUN), int(JobFlag.REPRODUCIBLE_SHAPE)
REPRODUCIBLE = {"none": 0, "run": RUN, "shape": RUN | SHAPE | WIDE}


class JobNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node of the job: the IPv4 address of its NIC, and the ranks on it.

    switches: addresses of the offloading switches above it, lowest first. ring: nodes with the same number hang on a
    switch that does not offload; they form a ring, and its last node alone sends to the switches above.
    """

    address: str
    ranks: tuple[int, ...]
    switches: tuple[str, ...] = ()
    ring: int | None = None


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The members of a job, their path through the fabric, and the sizes of segments. Equal on every rank.

    jid and key: job id, and the random key of this incarnation. route: "auto", "tree", "ring" (of all nodes, whatever
    the switches) or "local". chunk: payload bytes of a segment; 0: as many as the MTU of this rank's NIC allows, at
    most 4096; give a number where NICs differ. slots: seg buffers asked of each device (a power of 2). reproducible:
    "none", "run" or "shape". wide: sums of f16 and bf16 travel as f32 ("shape" implies it). Raises InvalidRequest if
    members contradict each other.
    """

    jid: int
    key: int
    nodes: tuple[JobNode, ...]
    route: Literal["auto", "tree", "ring", "local"] = "auto"
    chunk: int = 0
    slots: int = DEFAULT_JOB_SLOTS
    reproducible: Literal["none", "run", "shape"] = "none"
    wide: bool = False

    def __post_init__(self) -> None:
        ranks = sorted(rank for node in self.nodes for rank in node.ranks)
        if not ranks or ranks != list(range(len(ranks))):
            raise _wrong("the nodes must hold the ranks 0 to N - 1, each once")
        self._describe(0)

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Self:
        """From a dictionary of its members, such as decoded JSON."""
        try:
            return msgspec.convert(description, cls)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, InvalidRequest):
                raise error.__cause__ from None
            raise _wrong(str(error)) from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """From a file with the text of to_text; `fanin run` writes one."""
        job = ffi.new("struct fanin_job *")
        if library().fanin_job_of_file(os.fsencode(path), job):
            raise _wrong(complaint())
        try:
            return cls.of(job)
        finally:
            library().free(job.places)

    @classmethod
    def from_environment(cls) -> Self:
        """From the file that $FANIN_JOB names."""
        return cls.from_file(environment(ENVIRONMENT_VARIABLE))

    @classmethod
    def of(cls, job: Any) -> Self:
        """From a struct fanin_job."""
        nodes: dict[tuple[str, tuple[str, ...], int | None], list[int]] = {}
        for rank in range(job.ranks):
            nodes.setdefault(_place(job.places[rank]), []).append(rank)
        modes = [name for name, flags in REPRODUCIBLE.items() if job.flags & flags == flags]
        return cls(
            jid=job.jid,
            key=job.key,
            nodes=tuple(JobNode(place[0], tuple(ranks), *place[1:]) for place, ranks in nodes.items()),
            route={code: name for name, code in ROUTES.items()}[job.route],  # type: ignore[arg-type]
            chunk=job.chunk,
            slots=job.slots,
            reproducible=modes[-1],  # type: ignore[arg-type]
            wide=bool(job.flags & WIDE & ~REPRODUCIBLE[modes[-1]]),
        )

    def to_dict(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    def to_text(self) -> str:
        return job_text(self.to_dict())

    @property
    def c(self) -> Any:
        """A struct fanin_job, which lives as long as this object."""
        return self._c_and_places[0]

    @functools.cached_property
    def _c_and_places(self) -> tuple[Any, Any]:
        places = ffi.new("struct fanin_place[]", self.size)
        try:
            for node in self.nodes:
                place = place_of(node)
                for rank in node.ranks:
                    places[rank] = place
            numbers = {name: getattr(self, name) for name in ("jid", "key", "chunk", "slots")}
            numbers |= {"route": ROUTES[self.route], "ranks": self.size}
            flags = REPRODUCIBLE[self.reproducible] | (WIDE if self.wide else 0)
            return ffi.new("struct fanin_job *", {**numbers, "flags": flags, "places": places}), places
        except KeyError as error:
            raise _wrong(f"{error} is no route or mode; see Job") from None
        except (OverflowError, TypeError) as error:
            raise _wrong(f"a number does not fit: {error}") from None

    def _describe(self, rank: int) -> Any:
        """The struct fanin_join of a rank."""
        join = ffi.new("struct fanin_join *")
        if library().fanin_describe(self.c, rank, join):
            raise _wrong(complaint())
        return join

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(len(node.ranks) for node in self.nodes)

    @functools.cached_property
    def chosen_route(self) -> str:
        """The route that is taken: local on one node, else the one asked for. "auto": tree if the nodes share a switch,
        unless all are in one ring below it; else ring."""
        join = self._describe(0)
        return "tree" if join.flags & FIXED_START else Route(join.route).name.lower()

    @property
    def sends_wide(self) -> bool:
        """Whether sums of f16 and bf16 travel as f32."""
        return bool(self.c.flags & WIDE)

    def node_of(self, rank: int) -> int:
        """Index of the node that holds a rank."""
        for index, node in enumerate(self.nodes):
            if rank in node.ranks:
                return index
        detail = f"rank {rank} is not one of the {self.size} ranks of job {self.jid}"
        raise InvalidRequest(detail, remedy=f"Give a number from 0 to {self.size - 1}.")

    def membership(self, rank: int) -> Membership:
        """The membership of a rank's queue pair. Without a chunk it has the longest one."""
        self.node_of(rank)
        place = Membership.of(self._describe(rank))
        return place if place.chunk else dataclasses.replace(place, chunk=MAX_JOB_CHUNK)

    def missing_ranks(self, rank: int, missing: int, kind: int) -> tuple[int, ...]:
        """The ranks in a completion's bitmap `missing` at `rank`; `kind` says whose bits they are."""
        ranks = ffi.new("uint32_t[]", self.size)
        count = library().fanin_missing_ranks(self.c, rank, missing, kind, ranks)
        return tuple(ffi.unpack(ranks, count)) if count else ()

    def missing_names(self, rank: int, status: int, missing: int, kind: int, lost_device: int = 0) -> str:
        """In words, after a semicolon; "" if a completion of that `status` names no rank. lost_device: as in a WC."""
        members = {"missing": missing, "missing_kind": kind, "lost_device": lost_device}
        completion = ffi.new("struct fanin_cqe *", {"status": status, **members})
        text = _words(lambda words, room: library().fanin_name_members(self.c, rank, completion, words, room))
        return text and f"; {text}"

    def path(self, rank: int, chunk: int = 0, mtu: int = 0) -> str:
        """The path of the job in words: route, NICs, switches, segments of `chunk` bytes, MTU of the rank's NIC."""
        return _words(lambda words, room: library().fanin_name_path(self.c, rank, chunk, mtu, words, room))


def _words(write: Callable[[Any, int], None]) -> str:
    words = ffi.new("char[]", MAX_TEXT)
    write(words, MAX_TEXT)
    return ffi.string(words).decode()


def place_of(node: JobNode) -> dict[str, Any]:
    """The members of a node's struct fanin_place."""
    hops = [_ipv4(switch) for switch in node.switches]
    if node.ring is not None and node.ring < 0:
        raise _wrong(f"ring {node.ring} of node {node.address} is below 0")
    ring = 0 if node.ring is None else node.ring + 1
    return {"address": _ipv4(node.address), "hops": len(hops), "hop": hops[:MAX_HOPS], "ring": ring}


def _place(place: Any) -> tuple[str, tuple[str, ...], int | None]:
    """Address, switches and ring of a struct fanin_place."""
    address, *switches = map(str, map(ipaddress.IPv4Address, (place.address, *list(place.hop)[: place.hops])))
    return address, tuple(switches), place.ring - 1 if place.ring else None


def _ipv4(address: str) -> int:
    """In host order."""
    try:
        return int(ipaddress.IPv4Address(address))
    except ValueError:
        raise _wrong(f"{address!r} is not an IPv4 address") from None


def _wrong(detail: str) -> InvalidRequest:
    return InvalidRequest(f"job description: {detail}", remedy=DESCRIPTION_REMEDY)


def environment(name: str) -> str:
    """A variable that `fanin run` sets; InvalidRequest if it is missing."""
    try:
        return os.environ[name]
    except KeyError:
        raise InvalidRequest(f"the environment lacks {name}", remedy=START_REMEDY) from None


def newcomers_c(nodes: Iterable[JobNode]) -> Any:
    """An array of struct fanin_newcomer, one for each rank of each node. InvalidRequest if they are no nodes."""
    rows = []
    for node in nodes:
        if not isinstance(node, JobNode):
            remedy = "Give each as JobNode(address, ranks, switches, ring), with the ranks that it gets."
            raise InvalidRequest(f"newcomers are JobNodes, not {node!r}", remedy=remedy)
        rows += [(rank, place_of(node)) for rank in node.ranks]
    try:
        return ffi.new("struct fanin_newcomer[]", [{"rank": rank, "place": place} for rank, place in rows])
    except (OverflowError, TypeError) as error:
        raise InvalidRequest(f"the rank of a newcomer: {error}", remedy="Give whole numbers from 0 on.") from None


def take_places(spares: Sequence[JobNode], present: Iterable[int], size: int) -> list[JobNode]:
    """Give spares the ranks that are not `present` of a job of `size` ranks, the first spare the lowest.

    Ranks for which no spare is left are left out, and those after them move up.
    """
    present = sorted(present)
    lost = [rank for rank in range(size) if rank not in present][: len(spares)]
    kept = sorted([*present, *lost])
    return [
        JobNode(spare.address, (kept.index(rank),), spare.switches, spare.ring)
        for spare, rank in zip(spares, lost, strict=False)
    ]
