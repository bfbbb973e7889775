"""Agents on several hosts, started by the user's launcher: its standard input and output carry commands and replies."""

import contextlib
import json
import os
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Self

from fanin_tools.errors import ToolError, UsageError

MODULE = "fanin_tools.hosts.agent"
START_SECONDS = 60.0  # for the launcher, and an interpreter on a busy host
SECONDS = 30.0
END_SECONDS = 5.0
MAX_READ = 1 << 16  # bytes
LAST_WORDS = 300  # characters of an error output


def launcher_words(launcher: str, host: str) -> list[str]:
    """Raises UsageError if the launcher has no place for the host."""
    try:
        words = shlex.split(launcher)
    except ValueError as error:
        raise UsageError(f"--launch {launcher!r}: {error}", "quote it as a shell would read it") from None
    if "{host}" not in launcher:
        raise UsageError(f"--launch {launcher!r} has no {{host}}", 'write it as in --launch "ssh {host}"')
    return [word.replace("{host}", host) for word in words]


class Agent:
    """The process on one host."""

    def __init__(self, host: str, line: list[str]) -> None:
        self.host, self._line = host, line
        self._read = b""  # output after the last answer
        self._said: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        except OSError as error:
            self._said.close()
            remedy = "name a launcher that is installed, with its options: --launch"
            raise UsageError(f"{line[0]} can not be started: {error.strerror}", remedy, "NO_PROGRAM") from None

    def ask(self, do: str, limit: float = SECONDS, /, **arguments: Any) -> dict[str, Any]:
        """The reply within `limit` seconds. Raises the host's ToolError, or HOST_UNREACHABLE."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended: its output may say why
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        line = self._read_line(limit)
        reply = None
        with contextlib.suppress(ValueError):
            reply = json.loads(line)
        if not isinstance(reply, dict):
            self._process.kill()  # else the next question would read this answer
            raise self._unreachable(f"said {line.decode(errors='replace').strip()[:LAST_WORDS]!r}" if line else "ended")
        if failed := reply.get("failed"):
            raise ToolError(**failed)
        return reply

    def _read_line(self, limit: float) -> bytes:
        """A line of its output, or what it wrote before it ended. Raises ToolError."""
        assert self._process.stdout is not None
        descriptor, end = self._process.stdout.fileno(), time.monotonic() + limit
        while b"\n" not in self._read:
            if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                self._process.kill()  # else the next question would read this answer
                raise self._unreachable(f"did not answer in {limit:.0f} s")
            if not (more := os.read(descriptor, MAX_READ)):
                break
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _unreachable(self, what: str) -> ToolError:
        if self._process.poll() is None and what == "ended":
            time.sleep(0.1)  # its error output may follow
        self._said.seek(0)
        said = " | ".join(self._said.read().split("\n")).strip(" |")[-LAST_WORDS:]
        cause = f"`{shlex.join(self._line)}` {what}" + (f"; it said: {said}" if said else "")
        remedy = "the launcher must start it without asking; the host needs the same Fanin at that path (--python)"
        return ToolError("HOST_UNREACHABLE", cause, remedy)

    def end(self) -> None:
        """Whatever it does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()


class Session:
    """The agents, by host."""

    def __init__(self, hosts: Iterable[str], launcher: str, python: str) -> None:
        lines = {host: [*launcher_words(launcher, host), python, "-m", MODULE] for host in hosts}
        self.agents: dict[str, Agent] = {}
        try:
            for host, line in lines.items():
                self.agents[host] = Agent(host, line)
        except BaseException:
            self.close()
            raise

    def ask_all(
        self, hosts: Iterable[str], question: Callable[[Agent], dict[str, Any]]
    ) -> dict[str, dict[str, Any] | ToolError]:
        """Each host's answer to a question, asked of all at once; an error in place of an answer."""
        chosen = list(hosts)

        def answer(host: str) -> dict[str, Any] | ToolError:
            try:
                return question(self.agents[host])
            except ToolError as error:
                return error

        with ThreadPoolExecutor(max(1, len(chosen))) as pool:
            return dict(zip(chosen, pool.map(answer, chosen), strict=True))

    def close(self) -> None:
        with ThreadPoolExecutor(max(1, len(self.agents))) as pool:
            list(pool.map(Agent.end, self.agents.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
