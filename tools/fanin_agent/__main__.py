"""`python -m fanin_agent SOCKET`: the agent for the NIC at a control socket, on standard input and output or by TCP."""

import socket
import sys

from fanin_agent.session import Session
from fanin_wire.command_line import Parser


def serve_at(place: str, device: str) -> None:
    """Serve one suite after the other at HOST:PORT; for port 0 the first line of output names the port."""
    host, _, port = place.rpartition(":")
    with socket.create_server((host, int(port))) as listener:
        print(f"an agent at {host}:{listener.getsockname()[1]}", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                try:
                    Session(device).serve(stream, stream)
                except OSError as error:  # the suite has gone
                    print(f"the connection has ended: {error}", file=sys.stderr)


def main() -> None:
    parser = Parser(prog="python -m fanin_agent", description=__doc__)
    parser.add_argument("socket", help="control socket of the NIC")
    parser.add_argument("--listen", metavar="HOST:PORT", help="serve there; default: standard input and output")
    asked = parser.parse_args()
    if asked.listen is None:
        Session(asked.socket).serve(sys.stdin.buffer, sys.stdout.buffer)
        return
    try:
        serve_at(asked.listen, asked.socket)
    except (OSError, ValueError, OverflowError) as error:
        sys.exit(f"can not listen at {asked.listen!r}: {error}; give HOST:PORT, as 127.0.0.1:7000")
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
