"""Rank processes that stay and take commands, so that several jobs can run in them one after the other; what all ranks'
replies to a list of calls say together."""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import DEFAULT_JOB, job_file
from fanin_tools.launch.placement import Placement, place

REPLY_SECONDS = 120.0
REPLY_AFTER_ERROR_SECONDS = 10.0  # for the other ranks, whose errors may explain more
END_SECONDS = 5.0
SECONDARY_ERRORS = ("ABORTED", "PEER_LOST", "FLUSHED")  # errors that another rank's failure causes
Replies = list[dict[str, Any]]  # by rank


class WorkerPool:
    """One worker process for each of `size` ranks on a fabric; `with` ends them. reply_seconds: limit for the answer to
    a command."""

    def __init__(self, running: Running, size: int, reply_seconds: float = REPLY_SECONDS) -> None:
        self.running, self._reply_seconds = running, reply_seconds
        placement = place(running.fabric, size, "auto")
        pairs = [socket.socketpair() for _ in range(size)]
        self._ranks = [ours for ours, _ in pairs]
        self._streams = [ours.makefile("r") for ours in self._ranks]
        places = []
        for rank, (_, theirs) in enumerate(pairs):
            host = placement.nics[placement.node_of(rank)].host
            namespace = namespaces.namespace(running.fabric, host) if running.fabric.netns else ""
            places.append(f"{theirs.fileno()}:{namespace}")
        command = [sys.executable, "-m", "fanin_tools.launch.worker", *places]
        passed = [theirs.fileno() for _, theirs in pairs]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=passed, process_group=0)
        for _, theirs in pairs:
            theirs.close()

    def join(self, placement: Placement, job: dict[str, object], name: str = DEFAULT_JOB, staged: bool = True) -> None:
        """Let the ranks of `placement` join a job.

        job: its description (`job_file.describe`). name: in later commands. staged: the library may copy ordinary
        memory through bounce buffers; else the devices access it directly.
        """
        path = job_file.write(self.running, job)
        sockets = [str(self.running.state.socket(nic.name)) for nic in placement.nics]
        try:
            for rank in range(placement.size):
                place_of = {"number": rank, "socket": sockets[placement.node_of(rank)]}
                self._send(rank, {"do": "join", "name": name, "job": str(path), "staged": staged, **place_of})
            self._replies(range(placement.size))
        finally:
            path.unlink(missing_ok=True)

    def call(self, ranks: int | Sequence[int], do: str, **arguments: Any) -> list[dict[str, Any]]:
        """Let ranks carry out the command `do`; their replies, by rank. ranks: numbers, or how many from 0 on. Raises
        ToolError, with the rank that failed."""
        asked = range(ranks) if isinstance(ranks, int) else ranks
        for rank in asked:
            self._send(rank, {"do": do, **arguments})
        return self._replies(asked)

    def _send(self, rank: int, command: dict[str, Any]) -> None:
        """A rank whose process has ended replies with an error."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._ranks[rank].sendall(json.dumps(command).encode() + b"\n")

    def _replies(self, ranks: Sequence[int]) -> list[dict[str, Any]]:
        replies: dict[int, dict[str, Any]] = {}
        end = time.monotonic() + self._reply_seconds
        with selectors.DefaultSelector() as selector:
            for rank in ranks:
                selector.register(self._ranks[rank], selectors.EVENT_READ, rank)
            while selector.get_map() and time.monotonic() < end:
                for key, _ in selector.select(end - time.monotonic()):
                    replies[key.data] = self._reply(key.data)
                    selector.unregister(key.fileobj)
                    if "error" in replies[key.data]:
                        end = min(end, time.monotonic() + REPLY_AFTER_ERROR_SECONDS)
            silent = sorted(key.data for key in selector.get_map().values())
        return _checked(replies, silent, self._reply_seconds)

    def _reply(self, rank: int) -> dict[str, Any]:
        try:
            line = self._streams[rank].readline()
        except ConnectionResetError:
            line = ""
        lost = ToolError("PEER_LOST", "its process has ended", "its error output above says why")
        return json.loads(line) if line else {"error": lost.as_dict()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for stream, connection in zip(self._streams, self._ranks, strict=True):
            stream.close()
            connection.close()
        try:
            self._process.wait(END_SECONDS if error is None else 0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # ends the ranks as well: they are in its group
            self._process.wait()


def _checked(replies: dict[int, dict[str, Any]], silent: list[int], seconds: float) -> list[dict[str, Any]]:
    """By rank. Raises ToolError if one is an error or missing; a lost process comes before its effects."""
    errors = {rank: reply["error"] for rank, reply in replies.items() if "error" in reply}
    if errors:
        rank = min(errors, key=lambda rank: (errors[rank]["name"] != "PEER_LOST", rank))
        error = errors[rank]
        raise ToolError(error["name"], f"rank {rank}: {error['cause']}", error["remedy"])
    if silent:
        cause = f"rank {', '.join(map(str, silent))} did not answer within {seconds:.0f} s"
        raise ToolError("TIMEOUT", cause, "look at fanin fabric status and at the logs of the devices")
    return [replies[rank] for rank in sorted(replies)]


def wrong_elements(replies: Replies) -> dict[int, int]:
    """Over all ranks, by number of the call."""
    wrong: dict[int, int] = {}
    for reply in replies:
        for number, count in reply["wrong"]:
            wrong[number] = wrong.get(number, 0) + count
    return wrong


def count_wrong_elements(replies: Replies) -> dict[int, int]:
    """As `wrong_elements`. Raises ToolError if a call failed."""
    failure = first_failure(replies)
    if failure is not None:
        raise failure[1]
    return wrong_elements(replies)


def first_failure(replies: Replies) -> tuple[int, ToolError] | None:
    """Number and error of the first call that failed on a rank; of its errors, one that is not SECONDARY."""
    stopped = [(*reply["stopped"], rank) for rank, reply in enumerate(replies) if reply["stopped"]]
    if not stopped:
        return None
    number, error, rank = min(stopped, key=lambda entry: (entry[0], entry[1]["name"] in SECONDARY_ERRORS, entry[2]))
    return number, ToolError(error["name"], f"rank {rank}: {error['cause']}", error["remedy"])


def elapsed_seconds(replies: Replies) -> list[float]:
    """Of each call, from the last rank's start to the last rank's end."""
    starts, ends = (zip(*(reply[key] for reply in replies), strict=True) for key in ("start_ns", "end_ns"))
    return [(max(end) - max(start)) * 1e-9 for start, end in zip(starts, ends, strict=True)]
