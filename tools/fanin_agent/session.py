"""A session: the requests of one suite, in order."""

import ipaddress
from typing import Any

from fanin.errors import FaninError
from fanin.verbs import Context
from fanin.verbs.context import device_status
from fanin_agent.rank import Rank
from fanin_agent.verbs import QueuePair
from fanin_wire.abi import Status
from fanin_wire.agent import (
    MAX_LINE,
    VERSION,
    AgentError,
    Answer,
    Close,
    ConnectQp,
    Counters,
    CreateQp,
    DestroyQp,
    Hello,
    Join,
    Joined,
    Kill,
    Leave,
    Look,
    OfVerbs,
    PollCq,
    Post,
    PostRecv,
    PostSend,
    QueryQp,
    ReadMr,
    RegMr,
    Wait,
    WriteMr,
    answer_of_error,
    read_request,
    write_line,
)


class Session:
    """The session. socket: control socket of the device."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._ranks: dict[int, Rank] = {}
        self._queue_pairs: dict[int, QueuePair] = {}

    def serve(self, lines: Any, out: Any) -> None:
        """Answer each line until they end. lines, out: binary files."""
        try:
            while line := lines.readline(MAX_LINE + 1):
                out.write(write_line(self.answer(line)))
                out.flush()
                if not line.endswith(b"\n"):
                    return  # too long, or cut off: the next line has no clear start
        finally:
            self.close()

    def answer(self, line: bytes) -> Answer:
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
        if isinstance(request, OfVerbs):
            return self._do_verbs(request)
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
        raise AgentError("WRONG_REQUEST", f"{request} is unknown here")

    def _do_verbs(self, request: Any) -> Answer:
        if isinstance(request, CreateQp | DestroyQp):
            self._forget_queue_pair(request.qp)
        if isinstance(request, CreateQp):
            queue_pair = self._queue_pairs[request.qp] = QueuePair(self._socket, request)
            return queue_pair.created()
        if isinstance(request, DestroyQp):
            return {}
        if request.qp not in self._queue_pairs:
            raise AgentError("UNKNOWN_QUEUE", f"there is no queue pair {request.qp}")
        queue_pair = self._queue_pairs[request.qp]
        match request:
            case ConnectQp():
                return queue_pair.connect(request)
            case PostSend():
                return queue_pair.send(request)
            case PostRecv():
                return queue_pair.receive(request)
            case PollCq():
                return queue_pair.poll(request)
            case RegMr():
                return queue_pair.register(request)
            case WriteMr():
                return queue_pair.store(request)
            case ReadMr():
                return queue_pair.load(request)
            case QueryQp():
                return queue_pair.state()
        raise AgentError("WRONG_REQUEST", f"{request} is unknown here")

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

    def _forget_queue_pair(self, number: int) -> None:
        if queue_pair := self._queue_pairs.pop(number, None):
            queue_pair.close()

    def close(self) -> None:
        """End all ranks, and destroy all queue pairs."""
        for queue in list(self._ranks):
            self._forget(queue)
        for number in list(self._queue_pairs):
            self._forget_queue_pair(number)
