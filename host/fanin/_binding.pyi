"""Types of the extension (`binding/`). The collectives are documented there, too."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fanin.membership.progress import Progress

Op = str | Callable[[np.ndarray, np.ndarray], Any]
CallArguments = tuple[Any, ...]  # of Call.arguments
Dtypes = tuple[np.dtype | None, ...]

def configure(
    array_type: type, empty: Callable[..., np.ndarray], dtypes: Dtypes, operations: dict[str, int]
) -> None: ...

class Request:
    name: str
    @property
    def done(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> Any: ...
    def test(self) -> bool: ...
    def progress(self) -> Progress: ...
    def _restart(self) -> bool: ...
    def _received(self) -> tuple[int, tuple[int, ...] | None]: ...
    def _copy_received(self, destination: np.ndarray) -> None: ...

class Communicator:
    def _adopt(self, library: int, device: int, connection: object) -> None: ...
    def _enter(self) -> int: ...
    def _leave(self) -> None: ...
    def _end_job(self, leave: bool, timeout_ms: int) -> int: ...
    def _forget(self) -> None: ...
    def _state(self) -> tuple[int, int, int, int, int]: ...
    def _under_way(self) -> list[Request]: ...
    def _run(self, call: CallArguments, seconds: float) -> Any: ...
    def _start(self, call: CallArguments) -> Request: ...
    def _prepare(self, call: CallArguments) -> Request: ...
    def _segments_of(self, call: CallArguments) -> int: ...
    def allreduce(
        self,
        array: Any,
        out: Any = None,
        op: Op = "sum",
        timeout: float | None = None,
        fence: bool = False,
        datatype: str | None = None,
    ) -> Any: ...
    def iallreduce(
        self,
        array: Any,
        out: Any = None,
        op: Op = "sum",
        timeout: float | None = None,
        fence: bool = False,
        datatype: str | None = None,
    ) -> Request: ...
    def reduce(
        self,
        array: Any,
        out: Any = None,
        op: Op = "sum",
        root: int = 0,
        timeout: float | None = None,
        fence: bool = False,
        datatype: str | None = None,
    ) -> Any: ...
    def ireduce(
        self,
        array: Any,
        out: Any = None,
        op: Op = "sum",
        root: int = 0,
        timeout: float | None = None,
        fence: bool = False,
        datatype: str | None = None,
    ) -> Request: ...
    def reduce_scatter(
        self,
        array: Any,
        out: Any = None,
        op: Op = "sum",
        counts: Sequence[int] | None = None,
        timeout: float | None = None,
        fence: bool = False,
        datatype: str | None = None,
    ) -> Any: ...
    def ireduce_scatter(
        self,
        array: Any,
        out: Any = None,
        op: Op = "sum",
        counts: Sequence[int] | None = None,
        timeout: float | None = None,
        fence: bool = False,
        datatype: str | None = None,
    ) -> Request: ...
    def broadcast(self, array: Any, root: int = 0, timeout: float | None = None, fence: bool = False) -> Any: ...
    def ibroadcast(self, array: Any, root: int = 0, timeout: float | None = None, fence: bool = False) -> Request: ...
    def allgather(self, array: Any, out: Any = None, timeout: float | None = None, fence: bool = False) -> Any: ...
    def iallgather(self, array: Any, out: Any = None, timeout: float | None = None, fence: bool = False) -> Request: ...
    def gather(
        self, array: Any, out: Any = None, root: int = 0, timeout: float | None = None, fence: bool = False
    ) -> Any: ...
    def igather(
        self, array: Any, out: Any = None, root: int = 0, timeout: float | None = None, fence: bool = False
    ) -> Request: ...
    def scatter(
        self,
        array: Any = None,
        out: Any = None,
        root: int = 0,
        shape: int | Sequence[int] | None = None,
        dtype: Any = None,
        timeout: float | None = None,
        fence: bool = False,
    ) -> Any: ...
    def iscatter(
        self,
        array: Any = None,
        out: Any = None,
        root: int = 0,
        shape: int | Sequence[int] | None = None,
        dtype: Any = None,
        timeout: float | None = None,
        fence: bool = False,
    ) -> Request: ...
    def barrier(self, timeout: float | None = None, fence: bool = False) -> Any: ...
    def ibarrier(self, timeout: float | None = None, fence: bool = False) -> Request: ...
