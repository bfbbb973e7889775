"""The rank processes of a crew: one process imports everything, then forks, one child for each rank.

Arguments: DESCRIPTOR:NAMESPACE of each rank, a connected socket and the network namespace that it runs in (none: ""). A
rank obeys commands that come over its socket as lines of JSON, and answers each with one line. A command is
{"do": name, ...}; `rank` and `scenes` list them. An error is answered as {"error": {name, cause, remedy}}. The end of
the commands ends the rank. The first process ends when all ranks have; it answers for one that dies.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import traceback
from typing import NoReturn

import fanin
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.launch.rank_commands import Answer, RankState, error_answer
from fanin_tools.launch.scenario_commands import COMMANDS_BY_NAME


def execute(rank: RankState, line: str) -> Answer:
    """Carry out one command; the answer."""
    command = json.loads(line)
    try:
        return COMMANDS_BY_NAME[command.pop("do")](rank, **command)
    except fanin.FaninError as error:
        return error_answer(error)


def serve(connection: socket.socket) -> None:
    """Obey until there are no more commands."""
    rank = RankState()
    with connection, connection.makefile("r") as commands:
        for line in commands:
            connection.sendall(_line(execute(rank, line)))
    rank.end()


def _line(answer: Answer) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _run_rank(connection: socket.socket, namespace: str) -> NoReturn:
    code = 1
    try:
        if namespace:
            namespaces.enter(namespace)
        serve(connection)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _report_dead_ranks(ranks: dict[int, socket.socket]) -> None:
    """Wait until all children have ended. ranks: their sockets by process id."""
    while ranks:
        process, status = os.wait()
        with ranks.pop(process) as connection:
            if code := os.waitstatus_to_exitcode(status):
                cause = f"its process ended with exit code {code}"
                lost = ToolError("PEER_LOST", cause, "its error output above says why")
                connection.sendall(_line({"error": lost.as_dict()}))


def main() -> None:
    """Fork the ranks and stay until they have ended. What libraries print goes to the error output."""
    os.dup2(2, 1)
    places = [argument.partition(":") for argument in sys.argv[1:]]
    connections = [socket.socket(fileno=int(descriptor)) for descriptor, _, _ in places]
    gc.freeze()  # memory that is never looked at again stays shared
    ranks = {}
    for connection, (_, _, namespace) in zip(connections, places, strict=True):
        process = os.fork()
        if process == 0:
            for other in connections:
                if other is not connection:
                    other.close()
            _run_rank(connection, namespace)
        ranks[process] = connection
    _report_dead_ranks(ranks)


if __name__ == "__main__":
    main()
