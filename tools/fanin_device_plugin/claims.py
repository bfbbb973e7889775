"""Who has which device on this node, as the kubelet tells it (podresources v1).

Two plugins may advertise one GPU: this one as half of a pair, NVIDIA's by its UUID. The kubelet counts each resource by
itself, so it would give the GPU away twice. A device whose id is the id of a GPU or the name or address of a VF is a
claim on the pair, whatever its resource is. So is a device of two halves, such as a pair of ours that was given away
under another name or with another partner.
Record 0090 (docs/decisions) says why the plugin keeps no list of its own.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fanin_cluster.placement.node import NodePair
from fanin_cluster.topology.lookup import canonical
from fanin_device_plugin.kubelet_api import LISTS, messages

SECONDS = 2.0  # within which a kubelet that runs answers
TRIES = 3
BUSY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)  # it limits the rate of all that ask


class ClaimsUnknown(Exception):
    """The kubelet does not tell what pods have. The message says why."""


class ClaimsUnsupported(Exception):
    """The kubelet is one that never tells."""


@dataclass(frozen=True)
class Claim:
    """A device that a container has. `device` is without the replica that NVIDIA's plugin appends ("GPU-...::2")."""

    resource: str
    device: str
    holder: str  # NAMESPACE/POD/CONTAINER


async def read_claims(socket: Path) -> list[Claim]:
    """All devices of all containers of this node. Raises ClaimsUnknown, ClaimsUnsupported."""
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        answer = await _listed(channel, socket)
    return [
        Claim(devices.resource_name, device.partition("::")[0], f"{pod.namespace}/{pod.name}/{container.name}")
        for pod in answer.pod_resources
        for container in pod.containers
        for devices in container.devices
        for device in devices.device_ids
    ]


async def _listed(channel: grpc.aio.Channel, socket: Path) -> Any:
    tried = 0
    for method in LISTS:
        call = channel.unary_unary(
            method,
            request_serializer=messages["ListPodResourcesRequest"].SerializeToString,
            response_deserializer=messages["ListPodResourcesResponse"].FromString,
        )
        while True:
            try:
                return await call(messages["ListPodResourcesRequest"](), timeout=SECONDS)
            except grpc.aio.AioRpcError as error:
                tried += 1
                if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                    break
                if error.code() not in BUSY or tried == TRIES:
                    raise ClaimsUnknown(f"{socket}: {error.code().name}: {error.details()}") from None
                await asyncio.sleep(SECONDS / 4)
    raise ClaimsUnsupported(f"the kubelet at {socket} does not tell which devices pods have")


def claims_on_halves(
    claims: Iterable[Claim], pairs: Iterable[NodePair], resources: frozenset[str]
) -> Mapping[str, Claim]:
    """The pairs of which somebody has a half, by id. `resources` are ours: a pair that a container has is none."""
    pairs = list(pairs)
    owners = {name.casefold(): pair.id for pair in pairs for name in pair.claims}
    # A device of two halves is a pair of some release of ours: only there "gpu0" means a GPU of this node.
    halves = {pair.pair.gpu.casefold(): pair.id for pair in pairs} | owners
    found = {}
    for claim in claims:
        first, _, second = claim.device.partition("_")
        names = [(owners, claim.device), *(((halves, first), (halves, second)) if second else ())]
        for place, name in names:
            pair = place.get(canonical(name).casefold())
            if pair and not (claim.resource in resources and claim.device == pair):
                found[pair] = claim
    return found


def claims_on_pairs(claims: Iterable[Claim], resources: frozenset[str]) -> Mapping[str, Claim]:
    """The pairs that containers have, by id."""
    return {claim.device: claim for claim in claims if claim.resource in resources}
