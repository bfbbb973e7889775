"""An agent that is a process: at a TCP port, or a command that speaks on its standard input and output."""

import contextlib
import re
import select
import shlex
import socket
import subprocess
import time
from typing import Any

import msgspec

from fanin_wire.agent import MAX_LINE, VERSION, AgentError, Answer, Hello, Request, write_line

CONNECT_S, ANSWER_S = 10.0, 30.0
ENDPOINT = re.compile(r"([^\s:]+):(\d{1,5})")
READ_BYTES = 1 << 16
LOST = "AGENT_LOST"


class RemoteAgent:
    """See `agent.Agent`.

    Args:
        place: HOST:PORT, or a command.

    Raises AgentError: AGENT_LOST if nothing answers, VERSION_MISMATCH for another version.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._rest = b""
        try:
            if match := ENDPOINT.fullmatch(place):
                self._socket = socket.create_connection((match[1], int(match[2])), CONNECT_S)
                self._socket.settimeout(ANSWER_S)
                self._in: Any = self._socket
            else:
                self._process = subprocess.Popen(
                    shlex.split(place), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
                self._in = self._process.stdout
        except (OSError, ValueError, IndexError, OverflowError) as error:
            raise AgentError(LOST, f"no agent at {place!r}: {error}") from None
        try:
            hello = self.ask(Hello(version=VERSION))
            if hello.get("version") != VERSION:
                raise AgentError("VERSION_MISMATCH", f"the agent speaks {hello.get('version')}, the suite {VERSION}")
        except AgentError:
            self.close()
            raise
        self.address = str(hello.get("address", ""))

    def ask(self, request: Request) -> Answer:
        """Send a line and read one."""
        try:
            self._write(write_line(request))
            line = self._read_line(time.monotonic() + ANSWER_S + getattr(request, "seconds", 0.0))
        except OSError as error:
            raise AgentError(LOST, f"the agent at {self.place!r}: {error}") from None
        try:
            answer = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise AgentError("WRONG_ANSWER", f"{error}: {line[:80]!r}") from None
        if "error" in answer:
            raise AgentError(str(answer["error"]), str(answer.get("text", "")))
        return answer

    def _write(self, data: bytes) -> None:
        if self._socket:
            self._socket.sendall(data)
        else:
            assert self._process
            assert self._process.stdin
            with contextlib.suppress(BrokenPipeError):  # it has ended: its last answer says why
                self._process.stdin.write(data)

    def _read_line(self, end: float) -> bytes:
        while b"\n" not in self._rest:
            if len(self._rest) > MAX_LINE:
                raise AgentError("WRONG_ANSWER", f"a line has more than {MAX_LINE} bytes")
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AgentError(LOST, f"the agent at {self.place!r} does not answer")
            data = self._socket.recv(READ_BYTES) if self._socket else self._in.read(READ_BYTES)
            if not data:
                raise AgentError(LOST, f"the agent at {self.place!r} has ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self) -> None:
        """End the connection, and the process if it was started here."""
        if self._socket:
            self._socket.close()
        if self._process:
            assert self._process.stdin
            assert self._process.stdout
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            try:
                self._process.wait(CONNECT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
