"""What a launcher says that is no answer of an agent ends by name, and in bounded time."""

import contextlib

import pytest

from fanin_tools.errors import ToolError
from fanin_tools.hosts.session import Agent

STALLS = "read line; printf '{'; exec sleep 1000"


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        (STALLS, "did not answer in 1 s"),
        ("echo 0", "said '0'"),
        ("echo welcome", "said 'welcome'"),
        ("exit 3", "ended"),
    ],
)
def test_no_answer_is_host_unreachable(script: str, cause: str) -> None:
    agent = Agent("node1", ["sh", "-c", script])
    with contextlib.ExitStack() as stack:
        stack.callback(agent.end)
        with pytest.raises(ToolError, match=cause) as caught:
            agent.ask("hello", 1.0)
    assert caught.value.name == "HOST_UNREACHABLE"
