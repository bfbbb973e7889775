"""A kubelet as a device plugin sees it: real gRPC servers on sockets in a folder, and its device manager's rules.

As the real one (pkg/kubelet/cm/devicemanager) it deletes all sockets of its folder when it starts; calls the plugin
back during Register; counts a pair as free if it is healthy and no container has it; asks for a preference, then to
allocate, then notes who has what. The end of a stream makes the devices of its resource unhealthy.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from fanin_device_plugin.kubelet_api import (
    HEALTHY,
    LISTER_SERVICES,
    PLUGIN_SERVICE,
    REGISTRATION_SERVICE,
    UNHEALTHY,
    messages,
)
from tests.waiting import BOUND_S


class NotEnough(Exception):
    """Too few free devices: the container's pod waits."""


@dataclass
class Endpoint:
    channel: grpc.Channel
    options: Any
    health: dict[str, str] = field(default_factory=dict)  # by device; empty before the first list
    numa: dict[str, list[int]] = field(default_factory=dict)
    lists: int = 0

    def call(self, method: str, request: str, answer: str, value: Any) -> Any:
        """A unary method of the plugin. Raises grpc.RpcError."""
        return self.channel.unary_unary(
            f"/{PLUGIN_SERVICE}/{method}",
            request_serializer=messages[request].SerializeToString,
            response_deserializer=messages[answer].FromString,
        )(value, timeout=BOUND_S)


class FakeKubelet:
    """See above. `held`: the devices of each resource that each holder (NAMESPACE/POD/CONTAINER) has."""

    def __init__(self, folder: Path) -> None:
        self.plugins = folder / "device-plugins"
        self.pod_resources = folder / "pod-resources/kubelet.sock"
        for each in (self.plugins, self.pod_resources.parent):
            each.mkdir()
        self.endpoints: dict[str, Endpoint] = {}
        self.held: dict[str, dict[str, list[str]]] = {}
        self.changed = threading.Condition()
        self.lister = LISTER_SERVICES[0]
        self.refuses = ""  # reason for which registrations are refused
        self.late = False  # whether registrations wait for an answer
        self._servers: list[grpc.Server] = []
        self._watches: list[grpc.Call] = []
        self.start()

    def start(self) -> None:
        """Delete all sockets of the folder, and listen."""
        for each in self.plugins.glob("*"):
            each.unlink()
        self._servers = [
            self._serve(self.plugins / "kubelet.sock", REGISTRATION_SERVICE, "Register", self._register),
            self._serve(self.pod_resources, self.lister, "List", self._list),
        ]

    def stop(self) -> None:
        """End as after a kill: its sockets stay."""
        for server in self._servers:
            server.stop(grace=None).wait()
        with self.changed:
            gone, self.endpoints = self.endpoints, {}
        for endpoint in gone.values():
            endpoint.channel.close()

    def restart(self) -> None:
        """A new kubelet, which knows from its checkpoint who has what, and no plugin."""
        self.stop()
        self.start()

    def change_lister(self, service: str) -> None:
        """Use another service for what pods have."""
        self.lister = service
        self.restart()

    def end_streams(self) -> None:
        """End all calls of ListAndWatch, and nothing else."""
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.cancel()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until the plugins have brought about a condition."""
        with self.changed:
            assert self.changed.wait_for(condition, BOUND_S), f"{what}: {self.endpoints}"

    def free(self, resource: str) -> list[str]:
        """Healthy devices of a resource that nobody has."""
        with self.changed:
            endpoint = self.endpoints.get(resource)
            taken = {each for devices in self.held.values() for each in devices.get(resource, [])}
            states = endpoint.health if endpoint else {}
            return [name for name, health in states.items() if health == HEALTHY and name not in taken]

    def allocate(self, resource: str, count: int, holder: str) -> Any:
        """Give devices to a container; the plugin's answer. Raises NotEnough, grpc.RpcError."""
        free = self.free(resource)
        if len(free) < count:
            raise NotEnough(f"{count} of {resource}, where {len(free)} are free")
        endpoint = self.endpoints[resource]
        devices = free[:count]
        if endpoint.options.get_preferred_allocation_available:
            request = messages["PreferredAllocationRequest"]()
            request.container_requests.add(available_deviceIDs=free, allocation_size=count)
            types = "PreferredAllocationRequest", "PreferredAllocationResponse"
            answer = endpoint.call("GetPreferredAllocation", *types, request)
            devices = list(answer.container_responses[0].deviceIDs)
            assert len(devices) == count
            assert set(devices) <= set(free)
        given = self.allocate_these(resource, devices)
        self.held[holder] = {resource: devices}
        self.start_container(resource, devices)
        return given

    def start_container(self, resource: str, devices: list[str]) -> None:
        """With devices that it was given. Raises grpc.RpcError."""
        endpoint = self.endpoints[resource]
        if endpoint.options.pre_start_required:
            request = messages["PreStartContainerRequest"](devices_ids=devices)
            endpoint.call("PreStartContainer", "PreStartContainerRequest", "PreStartContainerResponse", request)

    def allocate_these(self, resource: str, devices: list[str]) -> Any:
        """Ask the plugin for devices, whoever has them. Raises grpc.RpcError."""
        request = messages["AllocateRequest"]()
        request.container_requests.add(devices_ids=devices)
        answer = self.endpoints[resource].call("Allocate", "AllocateRequest", "AllocateResponse", request)
        (given,) = answer.container_responses
        return given

    def _serve(self, socket: Path, service: str, method: str, function: Callable[[Any, Any], Any]) -> grpc.Server:
        socket.unlink(missing_ok=True)
        types = {
            "Register": ("RegisterRequest", "Empty"),
            "List": ("ListPodResourcesRequest", "ListPodResourcesResponse"),
        }
        request, answer = types[method]
        handler = grpc.unary_unary_rpc_method_handler(
            function,
            request_deserializer=messages[request].FromString,
            response_serializer=messages[answer].SerializeToString,
        )
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        return server

    def _register(self, request: Any, context: grpc.ServicerContext) -> Any:
        while self.late and context.is_active():
            time.sleep(0.01)
        if self.refuses or request.version != "v1beta1":
            context.abort(grpc.StatusCode.UNKNOWN, self.refuses or f"version {request.version} is not supported")
        channel = grpc.insecure_channel(f"unix:{self.plugins / request.endpoint}")
        endpoint = Endpoint(channel, request.options)
        endpoint.options = endpoint.call("GetDevicePluginOptions", "Empty", "DevicePluginOptions", messages["Empty"]())
        with self.changed:
            old = self.endpoints.pop(request.resource_name, None)
            self.endpoints[request.resource_name] = endpoint
            self.changed.notify_all()
        if old is not None:
            old.channel.close()
        threading.Thread(target=self._watch, args=(endpoint,), daemon=True).start()
        return messages["Empty"]()

    def _watch(self, endpoint: Endpoint) -> None:
        watch = endpoint.channel.unary_stream(
            f"/{PLUGIN_SERVICE}/ListAndWatch",
            request_serializer=messages["Empty"].SerializeToString,
            response_deserializer=messages["ListAndWatchResponse"].FromString,
        )
        try:
            answers = watch(messages["Empty"]())
            self._watches.append(answers)
            for answer in answers:
                with self.changed:
                    endpoint.health = {each.ID: each.health for each in answer.devices}
                    endpoint.numa = {each.ID: [node.ID for node in each.topology.nodes] for each in answer.devices}
                    endpoint.lists += 1
                    self.changed.notify_all()
        except (grpc.RpcError, ValueError):  # it ended, or its channel was closed before it began
            pass
        with self.changed:
            endpoint.health = dict.fromkeys(endpoint.health, UNHEALTHY)
            self.changed.notify_all()

    def _list(self, request: Any, context: grpc.ServicerContext) -> Any:
        answer = messages["ListPodResourcesResponse"]()
        for holder, resources in list(self.held.items()):
            namespace, name, container = holder.split("/")
            pod = answer.pod_resources.add(name=name, namespace=namespace)
            devices = pod.containers.add(name=container).devices
            for resource, names in resources.items():
                devices.add(resource_name=resource, device_ids=names)
        return answer
