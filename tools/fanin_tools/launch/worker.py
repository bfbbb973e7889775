"""The processes of a worker pool: the first imports all modules, then forks one child for each rank.

Arguments: DESCRIPTOR:NAMESPACE for each rank: a connected socket and the rank's network namespace ("" for none).
Commands are lines of JSON over the socket, {"do": name, ...}; the rank replies to each with one line. `rank_commands`
and `scenario_commands` list them. An error is {"error": {name, cause, remedy}}. A rank ends with its commands, the
first process after all ranks; it sends an error for a rank that has died.
"""

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
from fanin_tools.launch.rank_commands import RankState, Reply, error_reply
from fanin_tools.launch.scenario_commands import COMMANDS_BY_NAME


def execute(rank: RankState, line: str) -> Reply:
    command = json.loads(line)
    try:
        return COMMANDS_BY_NAME[command.pop("do")](rank, **command)
    except fanin.FaninError as error:
        return error_reply(error)


def serve(connection: socket.socket) -> None:
    rank = RankState()
    with connection, connection.makefile("r") as commands:
        for line in commands:
            connection.sendall(_line(execute(rank, line)))
    rank.end()


def _line(reply: Reply) -> bytes:
    return json.dumps(reply).encode() + b"\n"


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
    """Wait until all children have ended, and send an error for each that died. ranks: sockets by process id."""
    while ranks:
        process, status = os.wait()
        with ranks.pop(process) as connection:
            if code := os.waitstatus_to_exitcode(status):
                cause = f"its process ended with exit code {code}"
                lost = ToolError("PEER_LOST", cause, "its error output above says why")
                connection.sendall(_line({"error": lost.as_dict()}))


def main() -> None:
    """Fork the ranks and wait until they have ended. Libraries write to the error output."""
    os.dup2(2, 1)
    places = [argument.partition(":") for argument in sys.argv[1:]]
    connections = [socket.socket(fileno=int(descriptor)) for descriptor, _, _ in places]
    gc.freeze()  # so that the collector does not write to shared pages
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
