"""The interface of agents: the requests of `fanin_wire.agent`, answered."""

from typing import Protocol

from fanin_wire.agent import Answer, Request


class Agent(Protocol):
    """The host of the device under test."""

    def ask(self, request: Request) -> Answer:
        """Carry a request out. Returns the members that its docstring names. Raises AgentError."""

    def close(self) -> None:
        """Give everything back."""
