"""Compares the plugin's tables and layouts with NCCL's own headers: python -m tests.nccl_lib.headers CLONE.

CLONE is a clone of NCCL (github.com/NVIDIA/nccl); `make nccl` fetches one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.nccl_lib.plugin import VERSIONS, entries

ROOT = Path(__file__).parents[2]
HEADERS = "src/include/plugin/net"
FUNCTION = re.compile(r"ncclResult_t \(\*(\w+)\)")
OURS = {8: "8", 9: "9", 10: "9", 11: "11", 12: "12"}  # the layout of the properties
FIELDS = {  # of NCCL -> ours
    "name": "name", "pciPath": "pci_path", "guid": "guid", "ptrSupport": "pointers", "speed": "speed", "port": "port",
    "regIsGlobal": "is_registered_for_all", "latency": "latency", "maxComms": "max_connections",
    "maxRecvs": "max_receives", "netDeviceType": "device_type", "netDeviceVersion": "device_version",
}  # fmt: skip
SINCE = {
    9: {"forceFlush": "force_flush", "vProps": "nic_count", "maxP2pBytes": "max_message_bytes",
        "maxCollBytes": "max_collective_bytes"},
    11: {"maxMultiRequestSize": "max_grouped_requests"},
    12: {"railId": "rail", "planeId": "plane"},
}  # fmt: skip
NEEDED = """
#include <stddef.h>
#include <stdint.h>
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t, ncclNetDeviceType;
typedef void (*ncclDebugLogger_t)(int, unsigned long, const char *, int, const char *, ...);
typedef ncclResult_t (*ncclProfilerCallback_t)(void **, int, void *, int64_t, void *);
typedef void ncclNetDeviceHandle_v8_t, ncclNetDeviceHandle_v9_t, ncclNetDeviceHandle_v10_t, ncclNetDeviceHandle_v11_t,
    ncclNetDeviceHandle_v12_t;
"""


def differences_of_tables(folder: Path) -> list[str]:
    """The functions of each version, in their order."""
    found = []
    for version in VERSIONS:
        text = (folder / f"net_v{version}.h").read_text()
        for kind in ("ncclNet", "ncclCollNet"):
            structure = text[: text.index(f"}} {kind}_v{version}_t;")].rpartition("typedef struct {")[2]
            if FUNCTION.findall(structure) != entries(kind, version):
                found.append(f"{kind}_v{version}_t has the functions {FUNCTION.findall(structure)}")
    return found


def program(folder: Path) -> str:
    """C that compiles only where sizes and offsets are equal."""
    lines = [NEEDED, *(f'#include "{folder}/net_v{version}.h"' for version in (12, 11, 10, 9, 8))]
    lines.append('#include "nccl_abi.h"')
    for version in VERSIONS:
        theirs, ours = f"ncclNetProperties_v{version}_t", f"struct nccl_properties_v{OURS[version]}"
        fields = FIELDS | {
            their: our for since, more in SINCE.items() if version >= since for their, our in more.items()
        }
        pairs = [f"sizeof({theirs}) == sizeof({ours})"]
        pairs += [f"offsetof({theirs}, {a}) == offsetof({ours}, {b})" for a, b in fields.items()]
        theirs, ours = f"ncclNetSGE_v{version}_t", "struct nccl_piece_v8" if version == 8 else "struct nccl_piece"
        pairs += [f"sizeof({theirs}) == sizeof({ours})", f"offsetof({theirs}, size) == offsetof({ours}, bytes)"]
        lines += [f'_Static_assert({pair}, "version {version}");' for pair in pairs]
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) != 2 or not (folder := Path(sys.argv[1]).resolve() / HEADERS).is_dir():
        sys.exit(f"give a clone of NCCL: it has {HEADERS}")
    wrong = differences_of_tables(folder)
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "layouts.c"
        source.write_text(program(folder))
        include = f"-I{ROOT / 'host/fanin/nccl_lib'}"
        done = subprocess.run(["cc", "-std=c11", "-fsyntax-only", include, source], capture_output=True, text=True)
        wrong += done.stderr.splitlines() if done.returncode else []
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"versions {VERSIONS[0]} to {VERSIONS[-1]}: the tables and layouts are those of {folder}")


if __name__ == "__main__":
    main()
