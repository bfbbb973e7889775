"""The objects of Kubernetes, also of rendered charts, fit their schemas; pods run programs that exist."""

import copy
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import pytest
from jsonschema import ValidationError

from fanin_image import content
from fanin_wire import settings
from fanin_wire.settings import DeviceSettings

from .kubernetes import CHART, DEPLOY, Object, complaints, judge, objects_in, rendered, values_of

FILES = sorted(path for folder in ("device-plugin", "dpf", "kubelet") for path in (DEPLOY / folder).glob("*.yaml"))
OVER_RDMA: Object = {
    "rdma": {"device": "mlx5_2", "interface": "tmfifo_net0", "tokenSecret": "token"},
    "hostNetwork": True,
}
(SERVICE,) = objects_in(DEPLOY / "dpf/dpuservice.yaml")
VALUES: dict[str, Object] = {
    "defaults": {},
    "switch": {"device": {"kind": "switch", "settings": {"detection": "5.0"}}},
    "rdma": OVER_RDMA,
    "dpf": values_of(SERVICE),
    "everything": {
        "serviceID": "fanin-nic",
        "serviceDaemonSet": {
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "dpu", "operator": "Exists"}]}]},
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "updateStrategy": {"type": "OnDelete"},
        },
        "imagePullSecrets": [{"name": "pull"}],
        "tolerations": [{"key": "dpu", "operator": "Exists", "effect": "NoSchedule"}],
        **OVER_RDMA,
    },
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_schemas_allow_each_object(path: Path) -> None:
    items = objects_in(path)
    assert items
    for item in items:
        judge(item)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_schemas_allow_what_the_chart_renders(values: Object) -> None:
    (item,) = rendered(values)
    judge(item)
    assert item["spec"]["selector"]["matchLabels"].items() <= item["spec"]["template"]["metadata"]["labels"].items()


LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")  # as a server demands; no schema has it
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0+local.7", "0.2.0-rc.1+" + 51 * "a." + "a", "1.0.0-" + 70 * "x"])
@pytest.mark.parametrize("release", ["fanin", "123", 53 * "r"])
def test_labels_of_every_version(tmp_path: Path, version: str, release: str) -> None:
    """Versions of charts may have "+" and be long; a release may have a number as its name."""
    chart = tmp_path / "fanin"
    shutil.copytree(CHART, chart)
    description = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(description.replace("0.1.0", version))
    (item,) = rendered({"device": {"kind": "switch"}}, release, chart)
    judge(item)
    pod = item["spec"]["template"]
    for labels in (item["metadata"]["labels"], item["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]):
        assert [value for value in labels.values() if not LABEL.fullmatch(value)] == []
    assert LABEL.fullmatch(item["metadata"]["name"])
    assert TAG.fullmatch(pod["spec"]["containers"][0]["image"].rpartition(":")[2])


def test_helm_finds_no_fault() -> None:
    assert complaints() == []


BROKEN = {
    "unknown field of a pod": ("kubelet/fanin-nic.yaml", ("spec", "hostNetworks"), True),
    "wrong type in a pod": ("kubelet/fanin-switch.yaml", ("spec", "containers", 0, "command"), "fanin-switch"),
    "unknown field of DPF": ("dpf/dpuservice.yaml", ("spec", "helmCharts"), {}),
    "a registry without its protocol": ("dpf/dpuservice.yaml", ("spec", "helmChart", "source", "repoURL"), "here"),
}


@pytest.mark.parametrize(("file", "place", "value"), BROKEN.values(), ids=BROKEN)
def test_a_broken_object_is_found(file: str, place: tuple[Any, ...], value: Any) -> None:
    (item,) = objects_in(DEPLOY / file)
    inner = broken = copy.deepcopy(item)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValidationError):
        judge(broken)


def test_a_kind_without_a_schema_is_found() -> None:
    with pytest.raises(KeyError, match="DPUServices"):
        judge({**SERVICE, "kind": "DPUServices"})


def test_a_fault_of_the_chart_is_found(tmp_path: Path) -> None:
    chart = tmp_path / "fanin"
    shutil.copytree(CHART, chart)
    template = chart / "templates/daemonset.yaml"
    template.write_text(template.read_text().replace("{{- end }}", "", 1))
    assert complaints(chart)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"devices": {}}, "devices"),
        ({"device": {"kind": "hub"}}, "kind"),
        ({"device": {"settings": {"mtu": 9000}}}, "want string"),
        ({"device": {"settings": {"address": "10.0.0.1"}}}, "address"),
        ({"rdma": {"device": "mlx5_2"}}, r"set rdma\.interface and rdma\.tokenSecret"),
    ],
)
def test_wrong_values_are_refused(values: Object, message: str) -> None:
    with pytest.raises(helm_python.HelmError, match=message):
        rendered(values)


def pods() -> Iterator[tuple[str, Object]]:
    """The static ones, and the chart's."""
    for path in (DEPLOY / "kubelet").glob("*.yaml"):
        yield path.name, objects_in(path)[0]["spec"]
    for name, values in VALUES.items():
        yield name, rendered(values)[0]["spec"]["template"]["spec"]


PODS = dict(pods())


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_pods_agree_with_the_image(pod: Object) -> None:
    """User and programs are the image's, options are a device's, and there is time for the drain."""
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsUser"] == content.USER
    program, *words = container["command"]
    assert program in {*content.COMMANDS, content.START.name}
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    known = {f"--{field.replace('_', '-')}" for field in settings.fields(DeviceSettings)} | {"--settings"}
    assert set(options) <= known
    drain = container["lifecycle"]["preStop"]["exec"]["command"]
    assert drain[:3] == ["fanin", "device", "drain"]
    assert int(drain[-1]) < pod["terminationGracePeriodSeconds"]
    assert {drain[3], container["startupProbe"]["exec"]["command"][3]} == {"/run/fanin/control.sock"}
    assert {"/run/fanin", "/tmp"} <= {mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    if "privileged" in container["securityContext"]:  # a server refuses both
        assert "allowPrivilegeEscalation" not in container["securityContext"]
    else:
        assert "/dev/infiniband" not in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_objects_of_dpf_name_each_other() -> None:
    items = [item for path in (DEPLOY / "dpf").glob("*.yaml") for item in objects_in(path)]
    interfaces = {item["metadata"]["name"]: item for item in items if item["kind"] == "DPUServiceInterface"}
    labels = [item["spec"]["template"]["spec"]["template"]["metadata"]["labels"] for item in interfaces.values()]
    pools = [item["spec"]["metadata"]["labels"] for item in items if item["kind"] == "DPUServiceIPAM"]
    (chain,) = [item for item in items if item["kind"] == "DPUServiceChain"]
    assert set(SERVICE["spec"]["interfaces"]) <= set(interfaces)
    own = interfaces[SERVICE["spec"]["interfaces"][0]]["spec"]["template"]["spec"]["template"]["spec"]["service"]
    assert own["serviceID"] == SERVICE["spec"]["serviceID"]
    assert own["interfaceName"] == SERVICE["spec"]["helmChart"]["values"]["device"]["interface"]
    for switch in chain["spec"]["template"]["spec"]["template"]["spec"]["switches"]:
        for port in switch["ports"]:
            assert port["serviceInterface"]["matchLabels"] in labels
            if "ipam" in port["serviceInterface"]:
                assert port["serviceInterface"]["ipam"]["matchLabels"] in pools


SHOW = '#!/bin/sh\necho "${0##*/}" "$@"\n'


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Runs fanin-start with programs, instead of devices, that print how they are called."""
    for name in ("fanin-nic", "fanin-switch"):
        (tmp_path / name).write_text(SHOW)
        (tmp_path / name).chmod(0o755)

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin", **variables}
        return subprocess.run([content.START, *words], env=environment, capture_output=True, text=True)

    return run


@pytest.mark.process
def test_start_takes_the_address_of_an_interface(started: Any) -> None:
    done = started("nic", "--mtu=9000", FANIN_INTERFACE="lo")
    assert (done.stdout, done.returncode) == ("fanin-nic --address 127.0.0.1 --mtu=9000\n", 0)
    done = started("switch", FANIN_ADDRESS="10.0.0.9")
    assert done.stdout == "fanin-switch --address 10.0.0.9\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (["hub"], {}, "give nic or switch"),
        (["nic"], {}, "set FANIN_INTERFACE"),
        (["nic"], {"FANIN_INTERFACE": "none0"}, "none0: there is no such interface"),
        (
            ["nic"],
            {"FANIN_ADDRESS": "10.0.0.9", "FANIN_RDMA_DEVICE": "mlx5_2"},
            "set FANIN_RDMA_INTERFACE and FANIN_TOKEN",
        ),
    ],
)
def test_start_says_what_is_missing(started: Any, words: list[str], variables: dict[str, str], message: str) -> None:
    done = started(*words, **variables)
    assert (message in done.stderr, done.stdout, done.returncode) == (True, "", 2)
