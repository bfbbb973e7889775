"""One resource class as a device plugin: the service v1beta1.DevicePlugin on a socket of its own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
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
MAX_REQUEST = 1 << 20  # bytes

Prefer = Callable[[Sequence[NodePair], Sequence[NodePair], int], list[NodePair]]
Allocate = Callable[[Sequence[NodePair]], Awaitable[Any]]  # returns a ContainerAllocateResponse
Start = Callable[[Sequence[NodePair]], Awaitable[None]]


class Refused(Exception):
    """A request of the kubelet that can not be granted. The message says why, and goes to the events of the pod."""


class Resource:
    """A class of pairs, its socket, and what the kubelet knows of it.

    Args:
        name: of the resource, DOMAIN/CLASS.
        pairs: by their names.
        folder: of the kubelet's plugins.
        prefer, allocate, start: what is done for GetPreferredAllocation, Allocate and PreStartContainer. They raise
            Refused or PlacementInvalid. `start` is None if nothing is to be done when a container starts.
    """

    def __init__(
        self,
        name: str,
        pairs: Mapping[str, NodePair],
        folder: Path,
        prefer: Prefer,
        allocate: Allocate,
        start: Start | None,
    ) -> None:
        self.name = name
        self.pairs = pairs
        self.endpoint = f"fanin-{name.rpartition('/')[2]}.sock"
        self.faults: dict[str, str] = dict.fromkeys(pairs, "not looked at yet")
        self._folder = folder
        self._prefer, self._allocate, self._start = prefer, allocate, start
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self._socket_id: tuple[int, int] | None = None
        self._kubelet_id: tuple[int, int, int] | None = None  # of the kubelet that took the registration
        self._complaint = ""

    async def set_faults(self, faults: Mapping[str, str]) -> None:
        """Tell the kubelet which pairs can not be used, and why: "" for one that can."""
        changed = {name: fault for name, fault in faults.items() if self.faults[name] != fault}
        if not changed:
            return
        for name, fault in changed.items():
            log.warning("%s: %s is %s", self.name, name, f"unhealthy: {fault}" if fault else "healthy")
        async with self._changed:
            self.faults.update(changed)
            self._changed.notify_all()

    async def keep_registered(self) -> None:
        """Serve and register where the kubelet does not know of this socket: at first, and after it was restarted.

        A kubelet that starts deletes all sockets of its folder and makes its own anew.
        """
        kubelet = _identity(self._folder / KUBELET_SOCKET)
        if kubelet is None:
            return
        if self._server is None or _identity(self._folder / self.endpoint) != self._socket_id:
            await self._serve()
        elif kubelet == self._kubelet_id:
            return
        try:
            await self._register()
        except grpc.aio.AioRpcError as error:
            self._kubelet_id = None
            complaint = f"{error.code().name}: {error.details()}"
            if complaint != self._complaint:  # once, not at each look
                log.warning("%s: the kubelet did not take the registration: %s", self.name, complaint)
            self._complaint = complaint
            return
        self._kubelet_id, self._complaint = kubelet, ""
        log.warning("%s: registered with %d pairs", self.name, len(self.pairs))

    async def close(self) -> None:
        """Stop serving; the socket is removed, unless it is somebody else's by now."""
        if self._server is not None:
            path = self._folder / self.endpoint
            if _identity(path) == self._socket_id:
                path.unlink(missing_ok=True)
            await self._server.stop(grace=None)
            self._server = None

    async def _serve(self) -> None:
        await self.close()
        path = self._folder / self.endpoint
        path.unlink(missing_ok=True)  # of a plugin that was killed
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_REQUEST)])
        server.add_generic_rpc_handlers((self._handlers(),))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._server, self._socket_id, self._kubelet_id = server, _identity(path), None

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
        return messages["DevicePluginOptions"](
            pre_start_required=self._start is not None, get_preferred_allocation_available=True
        )

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
        """All pairs, at once and after each change; the kubelet ends it."""
        told: dict[str, str] = {}
        while True:
            async with self._changed:
                while self.faults == told:
                    await self._changed.wait()
                told = dict(self.faults)
            yield messages["ListAndWatchResponse"](devices=[self._device(pair, told) for pair in self.pairs.values()])

    def _device(self, pair: NodePair, faults: Mapping[str, str]) -> Any:
        device = messages["Device"](ID=pair.name, health=UNHEALTHY if faults[pair.name] else HEALTHY)
        if pair.numa is not None:
            device.topology.nodes.add(ID=pair.numa)
        return device

    def _named(self, names: Sequence[str]) -> list[NodePair]:
        for name in names:
            if name not in self.pairs:
                raise Refused(f"{self.name} has no device {name}")
        if len(set(names)) < len(names):
            raise Refused(f"a device is named twice: {', '.join(names)}")
        return [self.pairs[name] for name in names]

    async def _get_preferred(self, request: Any) -> Any:
        answer = messages["PreferredAllocationResponse"]()
        for each in request.container_requests:
            available, must = self._named(each.available_deviceIDs), self._named(each.must_include_deviceIDs)
            chosen = self._prefer(available, must, each.allocation_size)
            answer.container_responses.add(deviceIDs=[pair.name for pair in chosen])
        return answer

    async def _grant(self, request: Any) -> Any:
        groups = [self._named(each.devices_ids) for each in request.container_requests]
        self._named([pair.name for group in groups for pair in group])  # no pair twice in one request
        for pair in (pair for group in groups for pair in group):
            if self.faults[pair.name]:
                raise Refused(f"{pair.name} can not be used: {self.faults[pair.name]}")
        answers = [await self._allocate(group) for group in groups]
        return messages["AllocateResponse"](container_responses=answers)

    async def _start_container(self, request: Any) -> Any:
        if self._start is not None:
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

    return method


def _identity(path: Path) -> Any:
    """What tells a socket from a later one of the same name; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns
