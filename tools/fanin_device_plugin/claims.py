"""Who has which device on this node, by the kubelet's podresources v1.

Two plugins may advertise one GPU: this one as half of a pair, NVIDIA's by its UUID. The kubelet counts each resource
alone, and would give the GPU away twice. So a device whose id is that of a GPU, or the name or address of a VF, claims
the pair, whatever its resource; so does a device of two halves, such as a pair of ours under another name or with
another partner. Record 0090 (docs/decisions) says why the plugin keeps no list of its own.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fanin_cluster.placement.node import NodePair
from fanin_cluster.topology.report import canonical
from fanin_device_plugin.kubelet_api import LISTS, messages

SECONDS = 2.0  # for a running kubelet to answer
TRIES = 3
BUSY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)  # it limits the rate of requests


class ClaimsUnknown(Exception):
    """The kubelet does not say what pods have. The message says why."""


class ClaimsUnsupported(Exception):
    """The kubelet is of a kind that never says it."""


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
    raise ClaimsUnsupported(f"the kubelet at {socket} does not say which devices pods have")


def claims_on_halves(
    claims: Iterable[Claim], pairs: Iterable[NodePair], resources: frozenset[str]
) -> Mapping[str, Claim]:
    """The pairs of which a container has a half, by id. `resources` are ours, of which containers have whole pairs."""
    pairs = list(pairs)
    owners = {name.casefold(): pair.id for pair in pairs for name in pair.claims}
    # A device of two halves is a pair of one of our releases; only there "gpu0" means a GPU of this node.
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
