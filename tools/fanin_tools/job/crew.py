"""Rank processes that stay and take commands, so that several jobs can run one after the other in them."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.job import job_file
from fanin_tools.job.launcher import wait_for_all
from fanin_tools.job.placement import Placement, place

ANSWER_SECONDS = 120.0
AFTER_ERROR_SECONDS = 10.0  # for the others to answer too: the worst error is the one that explains
END_SECONDS = 5.0


class Crew:
    """One worker process for each of `size` ranks on a fabric; `with` ends them."""

    def __init__(self, running: Running, size: int) -> None:
        self.running = running
        self._workers: list[subprocess.Popen[str]] = []
        placement = place(running.fabric, size, "auto")
        for rank in range(size):
            host = placement.nics[placement.node_of(rank)].host
            command = [*namespaces.prefix_command(running.fabric, host), sys.executable, "-m", "fanin_tools.job.worker"]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            self._workers.append(worker)

    def join(self, placement: Placement, job: dict[str, object]) -> None:
        """Let the ranks of `placement` join `job`."""
        path = job_file.write(self.running, job)
        sockets = [str(self.running.state.socket(nic.name)) for nic in placement.nics]
        try:
            for rank in range(placement.size):
                socket = sockets[placement.node_of(rank)]
                self._tell(rank, {"do": "join", "job": str(path), "rank": rank, "socket": socket})
            self._answers(range(placement.size))
        finally:
            path.unlink(missing_ok=True)

    def ask(self, size: int, do: str, **arguments: Any) -> list[dict[str, Any]]:
        """Give the first `size` ranks the same command; their answers. ToolError names the rank that failed."""
        for rank in range(size):
            self._tell(rank, {"do": do, **arguments})
        return self._answers(range(size))

    def _tell(self, rank: int, command: dict[str, Any]) -> None:
        stream = self._workers[rank].stdin
        assert stream is not None
        try:
            print(json.dumps(command), file=stream, flush=True)
        except BrokenPipeError:
            raise self._lost(rank) from None

    def _answers(self, ranks: Iterable[int]) -> list[dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}
        end = time.monotonic() + ANSWER_SECONDS
        with selectors.DefaultSelector() as selector:
            for rank in ranks:
                selector.register(self._output(rank), selectors.EVENT_READ, rank)
            while selector.get_map() and time.monotonic() < end:
                for key, _ in selector.select(end - time.monotonic()):
                    answers[key.data] = self._answer(key.data)
                    selector.unregister(key.fileobj)
                    if "error" in answers[key.data]:
                        end = min(end, time.monotonic() + AFTER_ERROR_SECONDS)
            silent = sorted(key.data for key in selector.get_map().values())
        return _checked(answers, silent)

    def _answer(self, rank: int) -> dict[str, Any]:
        line = self._output(rank).readline()
        return json.loads(line) if line else {"error": self._lost(rank).as_dict()}

    def _output(self, rank: int) -> Any:
        return self._workers[rank].stdout

    def _lost(self, rank: int) -> ToolError:
        try:
            code = self._workers[rank].wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        cause = f"its process ended with exit code {code}"
        return ToolError("PEER_LOST", cause, "its error output above says why")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            if worker.stdin is not None and error is None:
                worker.stdin.close()
        if error is not None or not wait_for_all(self._workers, END_SECONDS):
            for worker in self._workers:
                worker.kill()
        wait_for_all(self._workers, None)
        for worker in self._workers:
            if worker.stdout is not None:
                worker.stdout.close()


def _checked(answers: dict[int, dict[str, Any]], silent: list[int]) -> list[dict[str, Any]]:
    """The answers by rank, unless one is an error or missing. A lost process explains more than what it caused."""
    errors = {rank: answer["error"] for rank, answer in answers.items() if "error" in answer}
    if errors:
        rank = min(errors, key=lambda rank: (errors[rank]["name"] != "PEER_LOST", rank))
        error = errors[rank]
        raise ToolError(error["name"], f"rank {rank}: {error['cause']}", error["remedy"])
    if silent:
        cause = f"rank {', '.join(map(str, silent))} did not answer within {ANSWER_SECONDS:.0f} s"
        raise ToolError("TIMEOUT", cause, "look at fanin fabric status and at the logs of the devices")
    return [answers[rank] for rank in sorted(answers)]
