"""Extracts from the CRDs of NVIDIA's DOCA Platform Framework what validates the objects in `deploy/dpf`.

`python -m tests.deploy.dpf_schemas FOLDER VERSION` writes `crds/schemas.yaml`. FOLDER is `config/dpuservice/crd/bases`
of a checkout of https://github.com/NVIDIA/doca-platform, VERSION its tag. Left out are descriptions, status, defaults
and rules in CEL, and kinds that `deploy/dpf` does not use. No package of an index has these CRDs.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

SCHEMAS = Path(__file__).parent / "crds/schemas.yaml"
KINDS = ("DPUService", "DPUServiceChain", "DPUServiceInterface", "DPUServiceIPAM")
SUBSCHEMAS = ("items", "additionalProperties", "not")
LISTS = ("anyOf", "allOf", "oneOf")
KEPT = {"type", "required", "enum", "pattern", "x-kubernetes-preserve-unknown-fields"}
KEPT |= {f"{end}{what}" for end in ("min", "max") for what in ("imum", "Length", "Items", "Properties")}
HEADER = """\
# Schemas of NVIDIA's DOCA Platform Framework {version} (https://github.com/NVIDIA/doca-platform), under the
# Apache License 2.0 in the file LICENSE beside this one; the licence of Fanin does not cover them. Left out are
# descriptions, status, defaults and rules in CEL, by tests/deploy/dpf_schemas.py, which wrote this file.
"""


def reduced(schema: Any) -> Any:
    """Only what validates an object's fields."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key in KEPT}
    kept |= {key: reduced(schema[key]) for key in SUBSCHEMAS if key in schema}
    kept |= {key: [reduced(item) for item in schema[key]] for key in LISTS if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: reduced(value) for name, value in schema["properties"].items()}
    return kept


def schemas_of(folder: Path) -> dict[str, Any]:
    """Reduced, for each kind of `KINDS` in each of its versions, by `GROUP/VERSION/KIND`."""
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"] if spec["names"]["kind"] in KINDS else ():
            schema = reduced(version["schema"]["openAPIV3Schema"])
            schema["properties"].pop("status", None)
            found[f"{spec['group']}/{version['name']}/{spec['names']['kind']}"] = schema
    return found


def main() -> None:
    folder, version = sys.argv[1:]
    text = "".join(
        yaml.safe_dump({name: schema}, width=100, default_flow_style=True).removeprefix("{").removesuffix("}\n") + "\n"
        for name, schema in schemas_of(Path(folder)).items()
    )
    SCHEMAS.write_text(HEADER.format(version=version) + text)


if __name__ == "__main__":
    main()
