"""The session of one contender: its ranks start once, measure in each turn, and are ended."""

import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fanin_tools.bench.samples import slowest_rank
from fanin_tools.bench.setups import ELEMENT, FIRST_WARM_UP, repetitions, warm_up
from fanin_tools.errors import ToolError
from fanin_tools.launch import core_binding
from fanin_tools.launch.launcher import wait_for_all, wait_for_any
from fanin_tools.quantities import render_size
from fanin_wire.installation import make_command

START_SECONDS = 120.0  # compiling, or finding the other hosts
ANSWER_SECONDS = 300.0
END_SECONDS = 10.0
TERMINATE_SECONDS = 2.0
EXIT_SECONDS = 2.0  # for the error output of a rank that has closed its connection
SHOWN = 600  # characters of the output of a failed process


class Command:
    """A process: a command line and its environment. Fanin has one for each rank, an MPI one mpiexec. bound: the rank
    to whose core the process is bound, or None. mpiexec binds its ranks itself."""

    def __init__(self, line: Sequence[str], environment: dict[str, str], bound: int | None = None) -> None:
        self.line, self.environment, self.bound = list(line), environment, bound


class Session:
    """A contender's ranks, which wait for commands. ours: whether it is Fanin. calls: number of allreduces, over all
    ranks. said: the processes' output, after their end."""

    def __init__(self, name: str, ours: bool, ranks: int, folder: Path, commands: Sequence[Command]) -> None:
        self.name, self._ours, self._size = name, ours, ranks
        self.calls, self.said = 0, ""
        self._connections: dict[int, socket.socket] = {}
        self._streams: dict[int, Any] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "ranks"))
            listener.listen(ranks)
            try:
                for command in commands:
                    self._processes.append(self._start(command))
                self._accept(listener)
            except BaseException:
                self.close()
                raise

    def _start(self, command: Command) -> subprocess.Popen[bytes]:
        try:
            with nullcontext() if command.bound is None else core_binding.bound(command.bound):
                return subprocess.Popen(
                    command.line,
                    env=command.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=self._errors,
                    stderr=self._errors,
                    process_group=0,
                )
        except OSError as error:
            raise self._failure(f"{command.line[0]}: {error.strerror}") from error

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(0.2)
        end = time.monotonic() + START_SECONDS
        while len(self._connections) < self._size:
            if time.monotonic() > end or any(process.poll() is not None for process in self._processes):
                raise self._failure("its ranks did not start")
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(ANSWER_SECONDS)
            self._register(connection)

    def _register(self, connection: socket.socket) -> None:
        """Under the rank that it names."""
        stream = connection.makefile("r")
        try:
            rank = self._read(stream)["rank"]
        except BaseException:
            stream.close()
            connection.close()
            raise
        self._connections[rank], self._streams[rank] = connection, stream

    def ask(self, **command: Any) -> list[dict[str, Any]]:
        """Send a command to all ranks; their replies, by rank. It sleeps meanwhile."""
        line = json.dumps(command).encode() + b"\n"
        try:
            for rank in range(self._size):
                self._connections[rank].sendall(line)
        except OSError as error:
            raise self._failure(str(error)) from error
        return self._collect()

    def _collect(self) -> list[dict[str, Any]]:
        answers = {}
        with selectors.DefaultSelector() as selector:
            for rank, connection in self._connections.items():
                selector.register(connection, selectors.EVENT_READ, rank)
            while selector.get_map():
                ready = selector.select(ANSWER_SECONDS)
                if not ready:
                    raise self._failure(f"no answer within {ANSWER_SECONDS:.0f} s")
                for key, _ in ready:
                    answers[key.data] = self._read(self._streams[key.data])
                    selector.unregister(key.fileobj)
        return [answers[rank] for rank in range(self._size)]

    def _read(self, stream: Any) -> dict[str, Any]:
        try:
            line = stream.readline()
        except OSError as error:
            raise self._failure(str(error)) from error
        if not line:
            raise self._failure("a rank has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def prepare(self, size: int) -> None:
        """Allocate and warm up the arrays of a message of `size` bytes."""
        self.ask(do="prepare", count=size // ELEMENT, warm=FIRST_WARM_UP)
        self.calls += self._size * FIRST_WARM_UP

    def turn(self, size: int) -> list[int]:
        """Nanoseconds of the slowest rank for each repetition of a turn."""
        return self.time(size, warm_up(size), repetitions(size))

    def time(self, size: int, warm: int, repeat: int) -> list[int]:
        """As `turn`, after `warm` calls that do not count; verifies the last result. Raises ToolError WRONG_RESULT."""
        answers = self.ask(do="time", warm=warm, repeat=repeat)
        self.calls += self._size * (warm + repeat)
        # Verify when all ranks are done, or it would take cores from ranks whose last call still runs.
        if wrong := sum(answer["wrong"] for answer in self.ask(do="verify")):
            cause = f"{self.name}, {render_size(size)}: {wrong} elements have a wrong bit"
            raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")
        return slowest_rank([answer["ns"] for answer in answers])

    def release(self) -> None:
        self.ask(do="release")

    def close(self) -> None:
        """End the ranks by closing their connections, and the processes by signals if that does not suffice."""
        for rank, connection in self._connections.items():
            self._streams[rank].close()
            connection.close()
        if not wait_for_all(self._processes, END_SECONDS if len(self._connections) == self._size else 0):
            self._signal(signal.SIGTERM)  # mpiexec then ends its ranks; those of Open MPI are not in its group
            if not wait_for_all(self._processes, TERMINATE_SECONDS):
                self._signal(signal.SIGKILL)
                wait_for_all(self._processes, None)
        self.said = self._output()
        self._errors.close()

    def _signal(self, number: int) -> None:
        """Signal the groups of the running processes."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, number)

    def _output(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def _failure(self, what: str) -> ToolError:
        if self._processes and all(process.poll() is None for process in self._processes):
            wait_for_any(self._processes, EXIT_SECONDS)
        said = " ".join(self._output().split())[-SHOWN:]
        cause = f"{self.name}: {what}{': ' if said else ''}{said}"
        if self._ours:
            return ToolError("PROGRAM_FAILED", cause, "look at fanin doctor, and at the logs of the devices")
        return ToolError("PEER_FAILED", cause, f"remove .bench and install the peers again: {make_command('peers')}")
