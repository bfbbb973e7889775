"""Who has which device on this node, as the kubelet tells it (podresources v1).

Two plugins may advertise one GPU: this one as half of a pair, NVIDIA's by its UUID. The kubelet counts each resource by
itself, so it would give the GPU away twice. A device of another resource whose id is the id of a GPU or the name or
address of a VF is a claim on the pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from fanin_cluster.placement.node import NodePair
from fanin_device_plugin.kubelet_api import LIST, messages

SECONDS = 2.0  # within which a kubelet that runs answers


class ClaimsUnknown(Exception):
    """The kubelet does not tell what pods have. The message says why."""


@dataclass(frozen=True)
class Claim:
    """A device that a container has. `device` is without the replica that NVIDIA's plugin appends ("GPU-...::2")."""

    resource: str
    device: str
    holder: str  # NAMESPACE/POD/CONTAINER


async def read_claims(socket: Path) -> list[Claim]:
    """All devices of all containers of this node. Raises ClaimsUnknown."""
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(
            LIST,
            request_serializer=messages["ListPodResourcesRequest"].SerializeToString,
            response_deserializer=messages["ListPodResourcesResponse"].FromString,
        )
        try:
            answer = await call(messages["ListPodResourcesRequest"](), timeout=SECONDS)
        except grpc.aio.AioRpcError as error:
            raise ClaimsUnknown(f"{socket}: {error.code().name}: {error.details()}") from None
    return [
        Claim(devices.resource_name, device.partition("::")[0], f"{pod.namespace}/{pod.name}/{container.name}")
        for pod in answer.pod_resources
        for container in pod.containers
        for devices in container.devices
        for device in devices.device_ids
    ]


def foreign_claims(
    claims: Iterable[Claim], pairs: Iterable[NodePair], resources: frozenset[str]
) -> Mapping[str, Claim]:
    """The pairs of which another resource has given away a half, by name. `resources` are ours."""
    owners = {name: pair.name for pair in pairs for name in pair.claims if name}
    return {
        owners[claim.device]: claim for claim in claims if claim.resource not in resources and claim.device in owners
    }


def held_pairs(claims: Iterable[Claim], resources: frozenset[str]) -> Mapping[str, Claim]:
    """The pairs that containers have, by name."""
    return {claim.device: claim for claim in claims if claim.resource in resources}
