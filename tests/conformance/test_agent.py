"""The agent: its protocol, bad requests, and scripts of a NIC through it, over UDP."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_conform.agents.remote import RemoteAgent
from fanin_tools.cli.app import app
from fanin_tools.fabric.generate import Shape
from fanin_wire.agent import MAX_LINE, AgentError, Hello, Post, data_of, read_request, write_line
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process
SCRIPTS = ["nic_segments/several", "nic_segments/results", "nic_failure/a_rank", "ring_segments/a_b", "ring_below/up"]


@pytest.fixture(scope="module")
def socket() -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        running = Bench("agent").up(Shape(nodes=1, direct=True, lanes=1))
        yield running.state.socket(running.fabric.nics[0].name)


@contextlib.contextmanager
def agent(socket: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "fanin_agent", str(socket), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_scripts_over_udp() -> None:
    """A sample; `fanin conform --target nic` has all."""
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        done = CliRunner().invoke(app, ["conform", "--target", "nic", "--json", *SCRIPTS])
    entries = json.loads(done.stdout)["scripts"]
    assert [(entry["script"], entry["text"]) for entry in entries if entry["outcome"] != "passed"] == []
    assert len(entries) > 5


def test_bad_lines_are_named(socket: Path) -> None:
    """Each gets a named error, and the agent goes on; one that is too long ends it."""
    lines: dict[bytes, str] = {
        b"?": "WRONG_REQUEST",
        b"[]": "WRONG_REQUEST",
        b'{"do":"dance"}': "WRONG_REQUEST",
        b'{"do":"wait","queue":-1}': "WRONG_REQUEST",
        b'{"do":"wait","queue":1,"seconds":1e9}': "WRONG_REQUEST",
        b'{"do":"wait","queue":1,"more":1}': "WRONG_REQUEST",
        b'{"do":"wait","queue":1}': "UNKNOWN_QUEUE",
        b'{"do":"join","queue":1,"jid":1,"key":1,"route":"STAR"}': "WRONG_REQUEST",
        b'{"do":"join","queue":1,"jid":1,"key":1,"route":"RING","next":"here"}': "WRONG_REQUEST",
        b'{"do":"join","queue":1,"jid":1,"key":1,"route":"LOCAL","digest":[1,%d]}' % (1 << 70): "WRONG_REQUEST",
        b'{"do":"join","queue":1,"jid":1,"key":1,"route":"LOCAL","rank_mask":%d}' % (1 << 70): "INVALID_REQUEST",
        b"\xff\xfe": "WRONG_REQUEST",
    }
    with agent(socket) as process:
        assert process.stdin
        assert process.stdout
        for line, name in lines.items():
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["error"] == name, line
        process.stdin.write(b'{"do":"hello","version":1}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["version"] == 1
        process.stdin.write(b" " * (MAX_LINE + 1))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["error"] == "WRONG_REQUEST"
        assert process.wait(BOUND_S) == 0


def test_a_rank_by_hand(socket: Path) -> None:
    """A job of one rank, as in the page; impossible requests are refused by name, and change nothing."""

    def ask(**request: Any) -> dict[str, Any]:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    with agent(socket) as process:
        assert ask(do="join", queue=0, jid=7, key=99, route="LOCAL") == {}
        assert ask(do="joined", queue=0, seconds=30)["status"] == "SUCCESS"
        assert ask(do="wait", queue=0)["status"] == ""
        post = {"do": "post", "queue": 0, "op": "SUM", "dtype": "F32", "length": 8, "data": "0000803f00000040"}
        assert ask(**post | {"dtype": "BOOL"})["error"] == "NOT_SUPPORTED"
        assert ask(**post | {"data": "00"})["error"] == "WRONG_REQUEST"
        assert ask(**post | {"data": "xy"})["error"] == "WRONG_REQUEST"
        assert ask(**post | {"op": "ADD"})["error"] == "WRONG_REQUEST"
        assert ask(**post) == {"mid": 0}
        done = ask(do="wait", queue=0, seconds=30)
        assert (done["status"], done["data"]) == ("SUCCESS", "0000803f00000040")
        assert ask(do="look", queue=0) == {}
        assert ask(do="leave", queue=0) == {"status": "SUCCESS"}
        assert ask(do="close", queue=0) == {}
        assert ask(do="counters")["counters"]


def test_a_region_beyond_the_memory_is_refused(socket: Path) -> None:
    """The other side could write memory of the agent."""
    lines = (
        {"do": "create_qp", "qp": 3, "memory": 64},
        {"do": "reg_mr", "qp": 3, "place": 32, "length": 33},
        {"do": "reg_mr", "qp": 3, "place": 32, "length": 32},
    )
    with agent(socket) as process:
        said, _ = process.communicate(b"".join(json.dumps(line).encode() + b"\n" for line in lines), timeout=BOUND_S)
    made, beyond, within = (json.loads(line) for line in said.splitlines())
    assert beyond["error"] == "WRONG_REQUEST"
    assert within["rkey"] != made["rkey"]


def test_by_tcp_one_suite_after_the_other(socket: Path) -> None:
    """State of the first suite is gone for the next; without a server: AGENT_LOST."""
    with agent(socket, "--listen", "127.0.0.1:0") as process:
        assert process.stdout
        place = process.stdout.readline().decode().split()[-1]
        for _ in range(2):
            with contextlib.closing(RemoteAgent(place)) as connected:
                assert connected.address.startswith("127.")
                with pytest.raises(AgentError, match="UNKNOWN_QUEUE"):
                    connected.ask(Post(queue=0))
    with pytest.raises(AgentError, match="AGENT_LOST"):
        RemoteAgent(place)


def test_commands_that_are_no_agent() -> None:
    for command in ("no-such-program", "true", "'"):
        with pytest.raises(AgentError, match="AGENT_LOST"):
            RemoteAgent(command)
    with pytest.raises(AgentError, match="WRONG_ANSWER"):
        RemoteAgent("echo what")
    with pytest.raises(AgentError, match="VERSION_MISMATCH"):
        RemoteAgent("""echo '{"version": 2}'""")


def test_the_command_line_names_what_is_missing() -> None:
    for arguments, text in (
        (["--target", "nic://127.0.0.9"], "a NIC needs an agent"),
        (["--target", "nic://127.0.0.9", "--agent", "true"], "AGENT_LOST"),
        (["--target", "engine-nic", "--conversations", "1"], "--conversations needs a switch"),
        (["--target", "engine-nic", "duplicates"], "no script for nic"),
    ):
        command = [Path(sys.executable).with_name("fanin"), "conform", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode != 0
        assert text in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_lines_of_requests() -> None:
    request = Post(queue=3, data="00ff", length=2, brings=(0, 1))
    assert read_request(write_line(request)) == request
    assert data_of(request) == b"\x00\xff"
    assert read_request(write_line(Hello(version=1))) == Hello(version=1)
