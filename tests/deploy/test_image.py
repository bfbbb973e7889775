"""Images: the layout is OCI's, the same content gives the same bytes, and what is missing is named.

`make image` makes whole images, `make image-trial` tries them.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fanin_image import content, oci, wheels
from fanin_image.packages import NotPossible
from fanin_nic.native.target import TARGETS

TIME = 1_700_000_000
NAME = "0.1.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with all kinds of files of an image."""
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/program").write_text("#!/bin/sh\n")
    (root / "usr/bin/program").chmod(0o777)
    (root / "usr/bin/link").symlink_to("program")
    os.link(root / "usr/bin/program", root / "usr/bin/second")
    (root / "secret").write_text("")
    (root / "secret").chmod(0o600)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    return root


def made(root: Path, path: Path, *architectures: str) -> Path:
    layer = oci.layer_of(root, TIME)
    images = [oci.Image(name, [layer], content.SETTINGS, {"a": "b"}) for name in architectures]
    oci.write(path, images, NAME, TIME)
    return path


def files_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}  # type: ignore[union-attr]


def test_layer_has_no_trace_of_its_maker(root: Path) -> None:
    before = oci.layer_of(root, TIME)
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
        os.chown(path, os.getuid(), os.getgid(), follow_symlinks=False)
    assert oci.layer_of(root, TIME) == before
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(before.content))) as archive:
        members = {member.name: member for member in archive.getmembers()}
    assert list(members) == sorted(members)
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members.values()} == {(0, 0, "", TIME)}
    assert members["usr/bin/program"].mode == 0o755
    assert members["secret"].mode == 0o644  # the image's user reads all
    assert members["tmp"].mode == 0o1777
    assert members["usr/bin/link"].linkname == "program"


def test_layout(root: Path, tmp_path: Path) -> None:
    """image-layout.md: each blob by its digest, from index.json to the layers."""
    files = files_of(made(root, tmp_path / "image.tar", "amd64"))
    assert json.loads(files.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(files.pop("index.json"))
    for name, blob in files.items():
        assert name == f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}"

    def blob(descriptor: dict[str, Any]) -> bytes:
        found = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(found) == descriptor["size"]
        return found

    (first,) = index["manifests"]
    assert first["annotations"] == {oci.REFERENCE: NAME}
    assert first["platform"] == {"architecture": "amd64", "os": "linux"}
    manifest = json.loads(blob(first))
    config = json.loads(blob(manifest["config"]))
    (layer,) = manifest["layers"]
    unpacked = gzip.decompress(blob(layer))
    assert config["rootfs"] == {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(unpacked).hexdigest()]}
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert config["config"]["User"] == f"{content.USER}:{content.USER}"


def test_one_file_for_two_architectures(root: Path, tmp_path: Path) -> None:
    files = files_of(made(root, tmp_path / "image.tar", "amd64", "arm64"))
    (first,) = json.loads(files["index.json"])["manifests"]
    assert first["mediaType"] == oci.INDEX
    inner = json.loads(files[f"blobs/{first['digest'].replace(':', '/')}"])
    assert [each["platform"]["architecture"] for each in inner["manifests"]] == ["amd64", "arm64"]
    with pytest.raises(ValueError, match="several architectures"):
        oci.unpack(tmp_path / "image.tar", tmp_path / "target")


def test_same_content_same_bytes(root: Path, tmp_path: Path) -> None:
    first, second = (made(root, tmp_path / name, "arm64").read_bytes() for name in ("first", "second"))
    assert first == second


def test_unpacked_again(root: Path, tmp_path: Path) -> None:
    config = oci.unpack(made(root, tmp_path / "image.tar", "arm64"), tmp_path / "target")
    assert (config["architecture"], config["variant"]) == ("arm64", "v8")
    names = sorted(path.relative_to(tmp_path / "target") for path in (tmp_path / "target").rglob("*"))
    assert names == sorted(path.relative_to(root) for path in root.rglob("*"))
    assert (tmp_path / "target/usr/bin/second").read_text() == "#!/bin/sh\n"


def test_damage_is_found(root: Path, tmp_path: Path) -> None:
    path = made(root, tmp_path / "image.tar", "amd64")
    damaged = path.read_bytes().replace(b'"os":"linux"', b'"os":"minix"')
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="does not match its digest"):
        oci.unpack(path, tmp_path / "target")


def test_what_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "text.tar").write_text("no tar file")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    for name in ("text.tar", "empty.tar"):
        with pytest.raises(ValueError, match=f"{name} is not an image"):
            oci.unpack(tmp_path / name, tmp_path / "target")


def test_every_architecture_has_device_code() -> None:
    assert set(wheels.MACHINES) <= set(TARGETS)
    assert all(TARGETS[name].machine == machine for name, machine in wheels.MACHINES.items())


def test_dependencies_are_those_of_the_project() -> None:
    """With their bounds: no constraint names the device plugin's if this environment lacks them."""
    names = [row.partition(">=")[0] for row in wheels.dependencies()]
    assert {"numba", "numpy", "cffi", "grpcio", "protobuf"} <= set(names)
    assert all("<" in row for row in wheels.dependencies())


def test_python_that_no_release_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    with pytest.raises(NotPossible, match=r"^Python 3\.11 or 3\.13"):
        wheels.suite()


def test_folder_is_kept_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content.packages, "check_tools", lambda: None)

    def fail(folder: Path) -> None:
        folder.mkdir()
        raise NotPossible("the network")

    with pytest.raises(NotPossible):
        content.kept(tmp_path, "recipe", fail)
    assert not list(tmp_path.iterdir())
    folder = content.kept(tmp_path, "recipe", lambda made: made.mkdir())
    assert content.kept(tmp_path, "recipe", fail) == folder


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["riscv64"], {}, "invalid choice: 'riscv64'"),
        (["amd64"], {"SOURCE_DATE_EPOCH": "yesterday"}, "fanin: INVALID: SOURCE_DATE_EPOCH"),
        (["amd64"], {"SOURCE_DATE_EPOCH": "1" * 20}, "fanin: INVALID: SOURCE_DATE_EPOCH"),
    ],
)
def test_wrong_use(arguments: list[str], variables: dict[str, str], message: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fanin_image", "--into", str(tmp_path), *arguments]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert (message in done.stderr, done.returncode) == (True, 2)
    assert not list(tmp_path.iterdir())
