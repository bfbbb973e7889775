"""PD: the protection domain. A device has one for each client; verbs programs expect the object."""

from __future__ import annotations

from fanin.verbs.context import Context
from fanin.verbs.resource import Resource, columns


class PD(Resource):
    """Protection domain of a context: memory regions and queue pairs are made in it."""

    def __init__(self, context: Context) -> None:
        context.require_open()
        self.context = context
        super().__init__(context)

    def __str__(self) -> str:
        return columns(socket=self.context.socket_path)
