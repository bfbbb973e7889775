"""Validation of Kubernetes' objects: its own schemas, those of DPF, and Helm's engine, which renders the chart."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import helm_python
import jsonschema
import kubernetes_validate
import yaml

from .dpf_schemas import SCHEMAS

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "chart"
VERSIONS = ("1.30", kubernetes_validate.latest_version())  # DPF 24.10's, and the newest
DPF_GROUP = "svc.dpu.nvidia.com/"
HELM_ERROR = 3  # of helm_python: severity of a message

Object = dict[str, Any]


def objects_in(path: Path) -> list[Object]:
    return list(yaml.load_all(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def judge(item: Object) -> None:
    """Raises jsonschema.ValidationError for an object that its schema does not allow, also for unknown fields; KeyError
    for a kind of DPF without a schema here."""
    if item["apiVersion"].startswith(DPF_GROUP):
        jsonschema.Draft202012Validator(_dpf_schemas()[f"{item['apiVersion']}/{item['kind']}"]).validate(item)
        return
    for version in VERSIONS:
        kubernetes_validate.validate(item, version, strict=True)


@functools.cache
def _dpf_schemas() -> Mapping[str, Object]:
    return {name: _closed(schema) for name, schema in yaml.safe_load(SCHEMAS.read_text()).items()}


def _closed(schema: Any, *, root: bool = True) -> Any:
    """Without further fields, which a server would silently remove."""
    if isinstance(schema, list):
        return [_closed(item, root=False) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value, root=False) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed.setdefault("additionalProperties", False)
        if root:
            closed["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    return closed


def rendered(values: Object, release: str = "fanin", chart: Path = CHART) -> list[Object]:
    """The objects of a chart with values, by Helm's engine. Raises helm_python.HelmError if the values break the
    chart's schema, or a template fails."""
    with helm_python.Chart.load(chart) as loaded:
        files = loaded.render(values, name=release, namespace="fanin")
    texts = [text for name, text in sorted(files.items()) if name.endswith(".yaml")]
    return [item for text in texts for item in yaml.safe_load_all(text) if item]


def complaints(chart: Path = CHART) -> Sequence[str]:
    """What `helm lint` finds wrong."""
    report = helm_python.lint(chart, strict=True)
    return [message["error"] for message in report["messages"] if message["severity"] == HELM_ERROR] + report["errors"]


def values_of(service: Object) -> Object:
    """The values with which DPF renders the chart of a DPUService: the user's and the service's."""
    spec = service["spec"]
    return {
        **spec["helmChart"].get("values", {}),
        "serviceID": spec.get("serviceID", ""),
        "serviceDaemonSet": spec.get("serviceDaemonSet", {}),
    }
