"""A session: the requests of one suite, carried out in order."""

from __future__ import annotations

import ipaddress
from typing import Any

from fanin.errors import FaninError
from fanin.verbs import Context
from fanin.verbs.context import device_status
from fanin_agent.rank import Rank
from fanin_wire.abi import Status
from fanin_wire.agent import (
    MAX_LINE,
    VERSION,
    AgentError,
    Answer,
    Close,
    Counters,
    Hello,
    Join,
    Joined,
    Kill,
    Leave,
    Look,
    Post,
    Wait,
    answer_of_error,
    read_request,
    write_line,
)


class Session:
    """See above. socket: control socket of the device."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._ranks: dict[int, Rank] = {}

    def serve(self, lines: Any, out: Any) -> None:
        """Answer each line until they end.

        Args:
            lines, out: binary files.
        """
        try:
            while line := lines.readline(MAX_LINE + 1):
                out.write(write_line(self.answer(line)))
                out.flush()
                if not line.endswith(b"\n"):
                    return  # too long, or cut off: what follows can not be told apart
        finally:
            self.close()

    def answer(self, line: bytes) -> Answer:
        """The answer to a line."""
        try:
            return self._do(read_request(line))
        except AgentError as error:
            return answer_of_error(error)
        except FaninError as error:
            return answer_of_error(AgentError(Status(error.status).name, error.detail or str(error)))

    def _do(self, request: Any) -> Answer:
        match request:
            case Hello():
                return self._hello()
            case Join():
                return self._join(request)
            case Counters():
                return {"counters": device_status(self._socket).get("counters", {})}
            case Close():
                self._forget(request.queue)
                return {}
        rank = self._rank(request.queue)
        match request:
            case Joined():
                return rank.joined(request.seconds)
            case Post():
                return rank.post(request)
            case Wait():
                return rank.wait(request.seconds)
            case Look():
                return rank.look()
            case Leave():
                return rank.leave(request.seconds)
            case Kill():
                rank.kill()
                return {}
        raise AgentError("WRONG_REQUEST", f"{request} is none")

    def _hello(self) -> Answer:
        with Context(self._socket) as context:
            address = context.query_device().address
        return {"version": VERSION, "address": str(ipaddress.IPv4Address(address))}

    def _join(self, request: Join) -> Answer:
        self._forget(request.queue)
        self._ranks[request.queue] = Rank(self._socket, request)
        return {}

    def _rank(self, queue: int) -> Rank:
        try:
            return self._ranks[queue]
        except KeyError:
            raise AgentError("UNKNOWN_QUEUE", f"queue {queue} has not joined") from None

    def _forget(self, queue: int) -> None:
        if rank := self._ranks.pop(queue, None):
            rank.close()

    def close(self) -> None:
        """All ranks end."""
        for queue in list(self._ranks):
            self._forget(queue)
