"""One resource class as a device plugin: the service v1beta1.DevicePlugin on its own socket."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fanin_cluster.placement.classes import PlacementInvalid
from fanin_cluster.placement.node import NodePair
from fanin_device_plugin.kubelet_api import (
    HEALTHY,
    KUBELET_SOCKET,
    PLUGIN_SERVICE,
    REGISTER,
    UNHEALTHY,
    VERSION,
    messages,
)

log = logging.getLogger(__name__)
SECONDS = 5.0  # for the kubelet to take a registration
MIN_WAIT, MAX_WAIT = 2.0, 60.0  # seconds between two registrations with one kubelet; each doubles the wait
MAX_REQUEST = 1 << 20  # bytes

Prefer = Callable[[Sequence[NodePair], Sequence[NodePair], int], list[NodePair]]
Allocate = Callable[[Sequence[NodePair]], Awaitable[Any]]  # returns a ContainerAllocateResponse
Start = Callable[[Sequence[NodePair]], Awaitable[None]]
Look = Callable[[], Awaitable[None]]


class Refused(Exception):
    """A refused request of the kubelet. The message says why, and becomes an event of the pod."""


@dataclass(frozen=True)
class State:
    """A pair as the kubelet sees it. fault: why it can not be used; "" if it can."""

    pair: NodePair
    fault: str


class Resource:
    """A class of pairs, its socket, and what the kubelet knows of it.

    Args:
        name: of the resource, DOMAIN/CLASS.
        folder: of the kubelet's plugins.
        look: reads the devices, and calls `show` before a request is answered.
        prefer, allocate, start: serve GetPreferredAllocation, Allocate and PreStartContainer. They raise Refused or
            PlacementInvalid.
    """

    def __init__(self, name: str, folder: Path, look: Look, prefer: Prefer, allocate: Allocate, start: Start) -> None:
        self.name = name
        self.states: dict[str, State] = {}  # by id
        self.endpoint = f"fanin-{name.rpartition('/')[2]}.sock"
        self._folder = folder
        self._look, self._prefer, self._allocate, self._start = look, prefer, allocate, start
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self._socket_id: tuple[int, int, int] | None = None
        self._kubelet_id: tuple[int, int, int] | None = None  # of the kubelet that was asked last
        self._streams = 0  # calls of ListAndWatch that go on
        self._wait, self._next = MIN_WAIT, 0.0  # seconds to the next registration; its time
        self._complaint = ""

    async def show(self, states: dict[str, State]) -> None:
        """Tell the kubelet which pairs exist, and which can not be used."""
        if states == self.states:
            return
        for name, state in states.items():
            old = self.states.get(name)
            if old is None or old.fault != state.fault:
                found = f"unhealthy: {state.fault}" if state.fault else "healthy"
                log.warning("%s: %s (%s) is %s", self.name, state.pair.name, name, found)
        for name in self.states.keys() - states.keys():
            log.warning("%s: %s is gone", self.name, name)
        async with self._changed:
            self.states = states
            self._changed.notify_all()

    async def keep_registered(self) -> None:
        """Serve and register, unless the kubelet already listens to this socket.

        A kubelet that starts deletes all sockets of its folder and makes its own. A kubelet that knows the socket has a
        call of ListAndWatch open.
        """
        kubelet = _identity(self._folder / KUBELET_SOCKET)
        if kubelet is None:
            self._complain(f"{self._folder / KUBELET_SOCKET} is missing; waiting for the kubelet")
            return
        if self._server is None or self.is_replaced:
            if answers(self._folder / self.endpoint):  # two plugins that take it from each other would serve nobody
                self._complain(f"another program serves {self._folder / self.endpoint}; stop one of the two plugins")
                return
            await self._serve()
        elif kubelet == self._kubelet_id and (self._streams or time.monotonic() < self._next):
            return
        if kubelet != self._kubelet_id:
            self._wait = MIN_WAIT
        self._kubelet_id, self._next = kubelet, time.monotonic() + self._wait
        self._wait = min(2 * self._wait, MAX_WAIT)
        try:
            await self._register()
        except grpc.aio.AioRpcError as error:
            self._complain(f"the kubelet did not take the registration: {error.code().name}: {error.details()}")
            return
        self._complaint = ""
        log.warning("%s: registered with %d pairs", self.name, len(self.states))

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:  # once, not each period
            log.warning("%s: %s", self.name, complaint)
        self._complaint = complaint

    async def close(self) -> None:
        """Stop serving; remove the socket, unless another program has replaced it."""
        if self._server is not None:
            if not self.is_replaced:
                (self._folder / self.endpoint).unlink(missing_ok=True)
            await self._server.stop(grace=None)
            self._server = None

    @property
    def is_replaced(self) -> bool:
        return self._socket_id is None or _identity(self._folder / self.endpoint) != self._socket_id

    async def _serve(self) -> None:
        await self.close()
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_REQUEST)])
        server.add_generic_rpc_handlers((self._handlers(),))
        # gRPC removes the file at the path at which it listens, when it begins and when it ends: by then perhaps
        # another program's socket.
        made, path = self._folder / f"{self.endpoint}.new", self._folder / self.endpoint
        server.add_insecure_port(f"unix:{made}")
        await server.start()
        self._server, self._kubelet_id = server, None
        with contextlib.suppress(FileNotFoundError):  # a kubelet that starts has deleted it
            made.rename(path)
        self._socket_id = _identity(path)

    async def _register(self) -> None:
        request = messages["RegisterRequest"](
            version=VERSION, endpoint=self.endpoint, resource_name=self.name, options=self._options()
        )
        async with grpc.aio.insecure_channel(f"unix:{self._folder / KUBELET_SOCKET}") as channel:
            call = channel.unary_unary(
                REGISTER,
                request_serializer=messages["RegisterRequest"].SerializeToString,
                response_deserializer=messages["Empty"].FromString,
            )
            await call(request, timeout=SECONDS)

    def _options(self) -> Any:
        return messages["DevicePluginOptions"](pre_start_required=True, get_preferred_allocation_available=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        unary = {
            "GetDevicePluginOptions": (self._get_options, "Empty", "DevicePluginOptions"),
            "GetPreferredAllocation": (
                self._get_preferred,
                "PreferredAllocationRequest",
                "PreferredAllocationResponse",
            ),
            "Allocate": (self._grant, "AllocateRequest", "AllocateResponse"),
            "PreStartContainer": (self._start_container, "PreStartContainerRequest", "PreStartContainerResponse"),
        }
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                _refusing(function),
                request_deserializer=messages[request].FromString,
                response_serializer=messages[answer].SerializeToString,
            )
            for method, (function, request, answer) in unary.items()
        }
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(
            self._list_and_watch,
            request_deserializer=messages["Empty"].FromString,
            response_serializer=messages["ListAndWatchResponse"].SerializeToString,
        )
        return grpc.method_handlers_generic_handler(PLUGIN_SERVICE, handlers)

    async def _get_options(self, request: Any) -> Any:
        return self._options()

    async def _list_and_watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """All pairs, at once and after each change, until the kubelet ends it."""
        self._streams, began = self._streams + 1, time.monotonic()
        context.add_done_callback(lambda _: self._stream_ended(began))
        told: dict[str, State] | None = None
        while True:
            async with self._changed:
                while self.states is told:
                    await self._changed.wait()
                told = self.states
            yield messages["ListAndWatchResponse"](devices=[self._device(each) for each in told.values()])

    def _stream_ended(self, began: float) -> None:
        self._streams -= 1
        if time.monotonic() - began > MAX_WAIT:
            self._wait, self._next = MIN_WAIT, 0.0

    def _device(self, state: State) -> Any:
        device = messages["Device"](ID=state.pair.id, health=UNHEALTHY if state.fault else HEALTHY)
        if state.pair.numa is not None:
            device.topology.nodes.add(ID=state.pair.numa)
        return device

    def _named(self, names: Sequence[str]) -> list[NodePair]:
        # A container of an earlier release starts again with the ids that it was given: names of pairs.
        known = {each.pair.name: each.pair for each in self.states.values()}
        known |= {name: each.pair for name, each in self.states.items()}
        for name in names:
            if name not in known:
                raise Refused(f"{self.name} has no device {name}")
        if len(set(names)) < len(names):
            raise Refused(f"a device is named twice: {', '.join(names)}")
        return [known[name] for name in names]

    async def _get_preferred(self, request: Any) -> Any:
        answer = messages["PreferredAllocationResponse"]()
        for each in request.container_requests:
            available, must = self._named(each.available_deviceIDs), self._named(each.must_include_deviceIDs)
            chosen = self._prefer(available, must, each.allocation_size)
            answer.container_responses.add(deviceIDs=[pair.id for pair in chosen])
        return answer

    async def _grant(self, request: Any) -> Any:
        await self._look()
        groups = [self._named(each.devices_ids) for each in request.container_requests]
        pairs = [pair for group in groups for pair in group]
        self._named([pair.id for pair in pairs])  # refuses a pair that is twice in one request
        self._refuse_faults(pairs)
        answers = [await self._allocate(group) for group in groups]
        return messages["AllocateResponse"](container_responses=answers)

    def _refuse_faults(self, pairs: Sequence[NodePair]) -> None:
        for pair in pairs:
            if fault := self.states[pair.id].fault:
                raise Refused(f"{pair.name} can not be used: {fault}")

    async def _start_container(self, request: Any) -> Any:
        await self._look()
        await self._start(self._named(request.devices_ids))
        return messages["PreStartContainerResponse"]()


def _refusing(function: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    """A method of the service: a refusal ends the call with FAILED_PRECONDITION and its text."""

    async def method(request: Any, context: Any) -> Any:
        try:
            return await function(request)
        except (Refused, PlacementInvalid) as error:
            log.warning("refused: %s", error)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except OSError as error:  # such as a file of a claim, where the disk is full
            log.warning("refused: %s", error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    return method


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Tells a socket from a later one of the same name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except BlockingIOError:
            return True  # its backlog is full
        except OSError:
            return False
    return True
