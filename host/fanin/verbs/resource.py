"""The base of all verbs objects: each is closed once, after what was made from it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import chain
from types import TracebackType
from typing import Self

from fanin.errors import InvalidRequest


class Resource:
    """Something of the device that close() gives back; `with` closes at the end of the block.

    A parent keeps its children until they are closed; a `collectable` child is dropped with the program's last
    reference. A subclass calls __init__ when the device has granted it.
    """

    collectable = False

    def __init__(self, *parents: Resource) -> None:
        self.closed = False
        self._parents = parents
        self._kept: set[Resource] = set()
        self._collectable: weakref.WeakSet[Resource] = weakref.WeakSet()
        for parent in parents:
            (parent._collectable if self.collectable else parent._kept).add(self)

    def _children(self) -> Iterable[Resource]:
        return list(chain(self._collectable, self._kept))

    def close(self) -> None:
        """Give back this object and all that was made from it. Harmless twice."""
        if self.closed:
            return
        for child in self._children():
            child.close()
        self.closed = True
        for parent in self._parents:
            parent._kept.discard(self)
        self._release()

    def _release(self) -> None:
        """Tell the device. Called once, when all children are closed."""

    def abandon(self) -> None:
        """Mark this object and all that was made from it as closed, without asking the device."""
        for child in self._children():
            child.abandon()
        self.closed = True

    def require_open(self) -> None:
        if self.closed:
            raise InvalidRequest(f"this {type(self).__name__} is closed", remedy="Make a new one.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def columns(**values: object) -> str:
    """`name : value` lines in aligned columns, as pyverbs prints its objects."""
    return "\n".join(f"{name.replace('_', ' '):<22}: {value}" for name, value in values.items())
