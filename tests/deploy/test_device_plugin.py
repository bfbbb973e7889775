"""The device plugin's manifest agrees with the program: settings, paths, and what a pod asks for."""

from pathlib import Path

import pytest

from fanin_cluster.placement.classes import server_classes
from fanin_cluster.topology.sysfs import read_sysfs
from fanin_device_plugin.settings import Settings, read_settings
from tests.cluster.nodes import write_node_of_the_document

from .kubernetes import DEPLOY, Object, objects_in

NAMESPACE, CONFIG, SET = objects_in(DEPLOY / "device-plugin/device-plugin.yaml")
(POD,) = objects_in(DEPLOY / "device-plugin/training-pod.yaml")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    ((name, text),) = CONFIG["data"].items()
    path = tmp_path / name
    path.write_text(text)
    return read_settings(path)


def mounted(pod: Object) -> dict[str, str]:
    """The container's path of each path of the host."""
    (container,) = pod["containers"]
    places = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    return {each["hostPath"]["path"]: places[each["name"]] for each in pod["volumes"] if "hostPath" in each}


def test_paths_are_those_of_the_node(settings: Settings) -> None:
    """The kubelet takes paths for its own."""
    paths = mounted(SET["spec"]["template"]["spec"])
    assert all(host == inside for host, inside in paths.items())
    assert {settings.plugins, str(Path(settings.pod_resources).parent), settings.files, settings.state} <= set(paths)
    (container,) = SET["spec"]["template"]["spec"]["containers"]
    assert container["command"][0] == "fanin-device-plugin"
    assert container["command"][-1] == f"/etc/fanin/{next(iter(CONFIG['data']))}"
    assert {CONFIG["metadata"]["namespace"], SET["metadata"]["namespace"]} == {NAMESPACE["metadata"]["name"]}


def test_the_pod_asks_for_a_resource_that_there_is(settings: Settings, tmp_path: Path) -> None:
    write_node_of_the_document(tmp_path / "sys")
    classes = server_classes(read_sysfs(tmp_path / "sys"), settings.subnets).classes
    (resource,) = POD["spec"]["containers"][0]["resources"]["limits"]
    assert resource in {f"{settings.domain}/{each.name}" for each in classes}
