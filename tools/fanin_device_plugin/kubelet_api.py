"""The interfaces of the kubelet: device plugins (v1beta1) and what pods have (podresources v1), as tables.

The messages, fields and numbers are Kubernetes' public interface:
staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto and .../podresources/v1/api.proto. protobuf makes
classes of the tables when this module is loaded, so no generated code ties it to a release of protobuf. Fields that are
not in the tables are kept and ignored, as protobuf demands.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

# A message -> its fields: number, name, type. "*" is repeated, "{}" a map from text to text.
Table = dict[str, tuple[tuple[int, str, str], ...]]
DEVICE_PLUGIN: Table = {
    "Empty": (),
    "DevicePluginOptions": ((1, "pre_start_required", "bool"), (2, "get_preferred_allocation_available", "bool")),
    "RegisterRequest": (
        (1, "version", "text"),
        (2, "endpoint", "text"),
        (3, "resource_name", "text"),
        (4, "options", "DevicePluginOptions"),
    ),
    "NUMANode": ((1, "ID", "int64"),),
    "TopologyInfo": ((1, "nodes", "*NUMANode"),),
    "Device": ((1, "ID", "text"), (2, "health", "text"), (3, "topology", "TopologyInfo")),
    "ListAndWatchResponse": ((1, "devices", "*Device"),),
    "ContainerPreferredAllocationRequest": (
        (1, "available_deviceIDs", "*text"),
        (2, "must_include_deviceIDs", "*text"),
        (3, "allocation_size", "int32"),
    ),
    "PreferredAllocationRequest": ((1, "container_requests", "*ContainerPreferredAllocationRequest"),),
    "ContainerPreferredAllocationResponse": ((1, "deviceIDs", "*text"),),
    "PreferredAllocationResponse": ((1, "container_responses", "*ContainerPreferredAllocationResponse"),),
    "ContainerAllocateRequest": ((1, "devices_ids", "*text"),),
    "AllocateRequest": ((1, "container_requests", "*ContainerAllocateRequest"),),
    "Mount": ((1, "container_path", "text"), (2, "host_path", "text"), (3, "read_only", "bool")),
    "DeviceSpec": ((1, "container_path", "text"), (2, "host_path", "text"), (3, "permissions", "text")),
    "ContainerAllocateResponse": (
        (1, "envs", "{}"),
        (2, "mounts", "*Mount"),
        (3, "devices", "*DeviceSpec"),
        (4, "annotations", "{}"),
    ),
    "AllocateResponse": ((1, "container_responses", "*ContainerAllocateResponse"),),
    "PreStartContainerRequest": ((1, "devices_ids", "*text"),),
    "PreStartContainerResponse": (),
}
POD_RESOURCES: Table = {
    "ListPodResourcesRequest": (),
    "ContainerDevices": ((1, "resource_name", "text"), (2, "device_ids", "*text")),
    "ContainerResources": ((1, "name", "text"), (2, "devices", "*ContainerDevices")),
    "PodResources": ((1, "name", "text"), (2, "namespace", "text"), (3, "containers", "*ContainerResources")),
    "ListPodResourcesResponse": ((1, "pod_resources", "*PodResources"),),
}
REGISTRATION_SERVICE = f"{VERSION}.Registration"
PLUGIN_SERVICE = f"{VERSION}.DevicePlugin"
LISTER_SERVICES = ("v1.PodResourcesLister", "v1alpha1.PodResourcesLister")  # before Kubernetes 1.20 the second only
REGISTER = f"/{REGISTRATION_SERVICE}/Register"
LISTS = [f"/{each}/List" for each in LISTER_SERVICES]

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {"text": Field.TYPE_STRING, "bool": Field.TYPE_BOOL, "int32": Field.TYPE_INT32, "int64": Field.TYPE_INT64}
POOL = descriptor_pool.DescriptorPool()  # of its own: another package of this process may define these messages, too


def _classes(package: str, table: Table) -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            repeated = kind.startswith("*") or kind == "{}"
            added = message.field.add(name=field, number=number, label=1 + 2 * repeated)
            kind = kind.lstrip("*")
            if kind in SCALARS:
                added.type = SCALARS[kind]
                continue
            added.type = Field.TYPE_MESSAGE
            added.type_name = f".{package}.{kind}"
            if kind == "{}":
                entry = "".join(part.capitalize() for part in field.split("_")) + "Entry"
                added.type_name = f".{package}.{name}.{entry}"
                nested = message.nested_type.add(name=entry)
                nested.options.map_entry = True
                for place, part in enumerate(("key", "value"), 1):
                    nested.field.add(name=part, number=place, label=1, type=Field.TYPE_STRING)
    POOL.Add(file)
    return {name: message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{package}.{name}")) for name in table}


messages: dict[str, Any] = {**_classes(VERSION, DEVICE_PLUGIN), **_classes("v1", POD_RESOURCES)}
