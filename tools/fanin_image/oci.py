"""Images in the layout of the Open Container Initiative, in one file: an oci-archive of `skopeo`, `podman` and `ctr`.
The same folders give the same bytes.

Sources: OCI image-spec 1.1, image-layout.md, manifest.md, config.md, layer.md. Record 0074 (docs/decisions) says why
images are made without a builder.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
REFERENCE = "org.opencontainers.image.ref.name"
LAYOUT = {"imageLayoutVersion": "1.0.0"}
VARIANTS = {"arm64": {"variant": "v8"}}  # image-index.md, of the platform
COMPRESSION = 6


class Layer(NamedTuple):
    """A folder as a layer: its bytes, and the digest of the unpacked bytes."""

    content: bytes
    unpacked: str


class Image(NamedTuple):
    """An image for one architecture, as Debian and OCI name it. settings: `config` of the configuration."""

    architecture: str
    layers: Sequence[Layer]
    settings: Mapping[str, Any]
    labels: Mapping[str, str]


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def layer_of(folder: Path, time: int) -> Layer:
    """All of a folder, owned by root, with `time` (seconds since 1970) for every file. Files keep their permissions,
    but only root can write them."""
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).parts):
            entry = archive.gettarinfo(path, path.relative_to(folder).as_posix())
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = time
            if not entry.mode & 0o1000:  # not of /tmp
                entry.mode = entry.mode & ~0o022 | 0o444
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    content = unpacked.getvalue()
    return Layer(gzip.compress(content, COMPRESSION, mtime=0), _digest(content))


def write(path: Path, images: Sequence[Image], name: str, time: int) -> None:
    """Write images, one for each architecture, as one file. name: its version, which tools make the tag. time: seconds
    since 1970, for all files."""
    blobs: dict[str, bytes] = {}

    def add(content: bytes, kind: str) -> dict[str, Any]:
        blobs[_digest(content)] = content
        return {"mediaType": kind, "digest": _digest(content), "size": len(content)}

    manifests = []
    for image in images:
        platform = {"architecture": image.architecture, "os": "linux", **VARIANTS.get(image.architecture, {})}
        config = {
            **platform,
            "created": datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z"),
            "config": {**image.settings, "Labels": dict(image.labels)},
            "rootfs": {"type": "layers", "diff_ids": [layer.unpacked for layer in image.layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": add(_json(config), CONFIG),
            "layers": [add(layer.content, LAYER) for layer in image.layers],
            "annotations": dict(image.labels),
        }
        manifests.append({**add(_json(manifest), MANIFEST), "platform": platform})
    whole = manifests[0]
    if len(manifests) > 1:
        whole = add(_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}), INDEX)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**whole, "annotations": {REFERENCE: name}}]}
    files = {f"blobs/{digest.replace(':', '/')}": content for digest, content in blobs.items()}
    files |= {"index.json": _json(index), "oci-layout": _json(LAYOUT)}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for file, content in sorted(files.items()):
            entry = tarfile.TarInfo(file)
            entry.size, entry.mtime, entry.mode = len(content), time, 0o644
            archive.addfile(entry, io.BytesIO(content))


def unpack(path: Path, target: Path) -> dict[str, Any]:
    """Unpack the layers of an image for one architecture into a folder. Returns its configuration. Raises ValueError if
    the file is no such image, or damaged."""
    try:
        return _unpack(path, target)
    except (tarfile.TarError, KeyError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not an image: {error}") from error


def _unpack(path: Path, target: Path) -> dict[str, Any]:
    with tarfile.open(path, "r:") as archive:

        def blob(descriptor: Mapping[str, Any]) -> bytes:
            file = archive.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}")
            content = file.read() if file else b""
            if _digest(content) != descriptor["digest"] or len(content) != descriptor["size"]:
                raise ValueError(f"{path}: {descriptor['digest']} does not match its digest")
            return content

        index = archive.extractfile("index.json")
        (whole,) = json.loads(index.read() if index else b"{}")["manifests"]
        if whole["mediaType"] != MANIFEST:
            raise ValueError(f"{path} has several architectures: give a file of one")
        manifest = json.loads(blob(whole))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(layer)))) as files:
                # Python before 3.11.4 has no filters, and takes members as they are.
                files.extraction_filter = getattr(tarfile, "tar_filter", None)
                files.extractall(target)
        return json.loads(blob(manifest["config"]))
