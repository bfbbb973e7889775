"""The kubelet's messages, byte by byte: the tables read bytes that were written by hand."""

from fanin_device_plugin.kubelet_api import messages


def text(number: int, value: bytes) -> bytes:
    """A field of bytes: its key, its length, its content."""
    return bytes((number << 3 | 2, len(value))) + value


def test_registration() -> None:
    made = messages["RegisterRequest"](
        version="v1beta1", endpoint="a.sock", resource_name="x/y", options={"get_preferred_allocation_available": True}
    )
    options = b"\x10\x01"
    assert made.SerializeToString() == text(1, b"v1beta1") + text(2, b"a.sock") + text(3, b"x/y") + text(4, options)


def test_a_list_of_devices() -> None:
    made = messages["ListAndWatchResponse"]()
    made.devices.add(ID="gpu0_mlx5_4", health="Healthy").topology.nodes.add(ID=1)
    device = text(1, b"gpu0_mlx5_4") + text(2, b"Healthy") + text(3, text(1, b"\x08\x01"))
    assert made.SerializeToString() == text(1, device)


def test_an_allocation() -> None:
    request = messages["AllocateRequest"].FromString(text(1, text(1, b"a") + text(1, b"b")))
    assert list(request.container_requests[0].devices_ids) == ["a", "b"]
    answer = messages["ContainerAllocateResponse"](envs={"K": "V"}, annotations={"k": "v"})
    answer.mounts.add(container_path="/c", host_path="/h", read_only=True)
    answer.devices.add(container_path="/c", host_path="/h", permissions="rw")
    mount = text(1, b"/c") + text(2, b"/h") + b"\x18\x01"
    device = text(1, b"/c") + text(2, b"/h") + text(3, b"rw")
    entries = text(1, text(1, b"K") + text(2, b"V")), text(4, text(1, b"k") + text(2, b"v"))
    assert answer.SerializeToString() == entries[0] + text(2, mount) + text(3, device) + entries[1]


def test_a_preference() -> None:
    wire = text(1, text(1, b"a") + text(1, b"b") + text(2, b"b") + b"\x18\x02")
    (asked,) = messages["PreferredAllocationRequest"].FromString(wire).container_requests
    assert (list(asked.available_deviceIDs), list(asked.must_include_deviceIDs), asked.allocation_size) == (
        ["a", "b"],
        ["b"],
        2,
    )
    assert messages["PreferredAllocationResponse"](
        container_responses=[{"deviceIDs": ["a"]}]
    ).SerializeToString() == text(1, text(1, b"a"))


def test_what_pods_have_with_fields_of_later_kubelets() -> None:
    devices = text(1, b"nvidia.com/gpu") + text(2, b"GPU-1") + text(3, text(1, b"\x08\x00"))
    container = text(1, b"main") + text(2, devices) + b"\x18\x05" + text(5, text(2, b"claim"))
    pod = text(1, b"job") + text(2, b"default") + text(3, container) + b"\x20\x03"
    (found,) = messages["ListPodResourcesResponse"].FromString(text(1, pod)).pod_resources
    assert (found.namespace, found.name, found.containers[0].name) == ("default", "job", "main")
    (given,) = found.containers[0].devices
    assert (given.resource_name, list(given.device_ids)) == ("nvidia.com/gpu", ["GPU-1"])
