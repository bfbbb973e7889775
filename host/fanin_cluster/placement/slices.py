"""The pairs of a node as objects of Kubernetes' dynamic resource allocation (DRA), resource.k8s.io/v1.

| object | holds |
| --- | --- |
| ResourceSlice | at most 128 pairs of the node, each a device |
| DeviceClass | one resource class: what a claim names |

| attribute of a device | is |
| --- | --- |
| resourceClass, subnet, nic, vf, gpu | of the pair, in the domain of the driver |
| vfPciBusID | PCI address of the VF |
| resource.kubernetes.io/pciBusID, pcieRoot, numaNode | of the GPU, by Kubernetes' own names |

Names of devices are DNS labels: "_" becomes "-". An unknown value has no attribute.
Source: kubernetes.io/docs/reference/node/dra-standard-device-attributes.
"""

import re
from typing import Any

from fanin_cluster.placement.classes import Pair, PlacementInvalid, ServerClasses
from fanin_cluster.topology.machine import Component, Kind, Machine, numa_of

API = "resource.k8s.io/v1"
STANDARD = "resource.kubernetes.io"
MAX_DEVICES = 128  # of a slice (ResourceSliceMaxDevices)
MAX_TEXT = 64  # characters of an attribute
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def pcie_root(component: Component) -> str:
    """The host bridge above a function, "pci0000:50"; "" if unknown."""
    bridge = next((each for each in component.ancestors() if each.kind is Kind.HOST_BRIDGE), None)
    return f"pci{bridge.address}" if bridge is not None and bridge.address else ""


def device_name(pair: Pair) -> str:
    """The name of a pair as a DNS label."""
    return re.sub(r"[^a-z0-9]+", "-", pair.name.lower()).strip("-")


def objects(machine: Machine, classes: ServerClasses, node: str, driver: str) -> list[dict[str, Any]]:
    """The slices of a node, then a DeviceClass for each resource class.

    Args:
        node: name of the node in Kubernetes.
        driver: name of the driver, a DNS name.

    Raises PlacementInvalid for an invalid name, or if two pairs would have one name.
    """
    for what, name in (("node", node), ("driver", driver)):
        if not SUBDOMAIN.fullmatch(name) or len(name) > 63:
            raise PlacementInvalid(
                f"the name {name!r} of the {what} is not a DNS name", "write it as in node1.example.com"
            )
    gpus = {gpu.name: gpu for gpu in machine.gpus}
    devices = [
        {"name": device_name(pair), "attributes": _attributes(pair, each.name, each.subnet, gpus[pair.gpu])}
        for each in classes.classes
        for pair in each.pairs
    ]
    names = [each["name"] for each in devices]
    if twice := next((each for each in names if names.count(each) > 1), ""):
        raise PlacementInvalid(f"two pairs would be called {twice}", "give their VFs other names")
    parts = [devices[first : first + MAX_DEVICES] for first in range(0, len(devices), MAX_DEVICES)]
    slices = [
        {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}-{number}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": len(parts)},
                "devices": part,
            },
        }
        for number, part in enumerate(parts)
    ]
    return slices + [_device_class(each.name, driver) for each in classes.classes]


def _attributes(pair: Pair, resource: str, subnet: str, gpu: Component) -> dict[str, Any]:
    texts = {
        "resourceClass": resource,
        "subnet": subnet,
        "gpu": pair.gpu,
        "nic": pair.nic,
        "vf": pair.vf,
        "vfPciBusID": pair.address,
        f"{STANDARD}/pciBusID": gpu.address,
        f"{STANDARD}/pcieRoot": pcie_root(gpu),
    }
    found: dict[str, Any] = {name: {"string": text[:MAX_TEXT]} for name, text in texts.items() if text}
    numa = numa_of(gpu)
    if numa is not None:
        found[f"{STANDARD}/numaNode"] = {"int": numa}
    return found


def _device_class(resource: str, driver: str) -> dict[str, Any]:
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].resourceClass == "{resource}"'
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": resource},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
