"""PD: the protection domain. Ordinary traffic reaches memory of its own domain only."""

from typing import Any

from fanin.errors import InvalidRequest
from fanin.verbs.context import Context
from fanin.verbs.resource import Resource, columns


class PD(Resource):
    """Protection domain of a context, in which memory regions and queue pairs are made. Collectives reach the memory of
    all domains of a context."""

    def __init__(self, context: Context) -> None:
        context.require_open()
        self.context = context
        self.domain = context.new_domain()
        super().__init__(context)

    def require_beside(self, queue: Any) -> None:
        """Refuse a closed queue, and one of another context, where its number may name another queue."""
        queue.require_open()
        if queue.context is not self.context:
            raise InvalidRequest(
                f"the {type(queue).__name__} belongs to another context", remedy="Make all on one Context."
            )

    def __str__(self) -> str:
        return columns(socket=self.context.socket_path, domain=self.domain)
