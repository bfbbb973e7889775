"""Compares the plugin's tables, arguments and layouts with NCCL's own headers: python -m tests.nccl_lib.headers CLONE.

CLONE is a clone of NCCL (github.com/NVIDIA/nccl); `make nccl` fetches one.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.nccl_lib.plugin import VERSIONS, entries

ROOT = Path(__file__).parents[2]
HEADERS = "src/include/plugin/net"
SOURCE = ROOT / "host/fanin/nccl_lib/interfaces.c"
FUNCTION = re.compile(r"ncclResult_t \(\*(\w+)\)\(([^;]*)\);")  # in NCCL's structures
OUR_FUNCTION = re.compile(r"\bint (\w+)\(([^()]*)\)\s*[;{]")
OUR_TABLE = re.compile(r"struct nccl_interface (ncclNet|ncclCollNet)Plugin_v(\d+) = \{\"Fanin\", \{(.*?)\}\};", re.S)
OUR_ENTRY = re.compile(r"\(nccl_entry\)\((\w+)\)|0")
PASSED_AS = {  # type -> how the machine passes it; every other type is memory, to which only its address is passed
    "int": "int", "size_t": "size_t", "uint64_t": "uint64_t", "ncclDataType_t": "int", "ncclRedOp_t": "int",
    "ncclDebugLogger_t": "function", "nccl_logger": "function",
    "ncclProfilerCallback_t": "function", "profiler": "function",
}  # fmt: skip
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
    """The functions of each version, in their order, and how their arguments are passed."""
    found = []
    tables, arguments = our_tables()
    for version in VERSIONS:
        for kind in ("ncclNet", "ncclCollNet"):
            functions = FUNCTION.findall(structure_of(folder, kind, version))
            names = [name for name, _ in functions]
            if names != entries(kind, version):
                found.append(f"{kind}_v{version}_t has the functions {names}")
            if len(tables[kind, version]) != len(functions):
                found.append(f"{kind}_v{version}_t has {len(functions)} functions, ours {len(tables[kind, version])}")
            for (name, theirs), entry in zip(functions, tables[kind, version], strict=False):
                if entry and passed(theirs) != passed(arguments[entry]):
                    found.append(
                        f"{kind}_v{version}_t: {name} has {passed(theirs)}, {entry} {passed(arguments[entry])}"
                    )
    return found


def structure_of(folder: Path, kind: str, version: int) -> str:
    """The text between the braces of a version's table of functions."""
    text = (folder / f"net_v{version}.h").read_text()
    return text[: text.index(f"}} {kind}_v{version}_t;")].rpartition("typedef struct {")[2]


def our_tables() -> tuple[dict[tuple[str, int], list[str]], dict[str, str]]:
    """Our functions in the order of each table, "" where there is none; and the text of each function's arguments."""
    include = [f"-I{ROOT / folder}" for folder in ("host/fanin/core", "protocol/fanin_wire")]
    command = ["cc", "-std=gnu11", "-E", "-P", *include, SOURCE]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    tables = {(kind, int(version)): OUR_ENTRY.findall(body) for kind, version, body in OUR_TABLE.findall(done.stdout)}
    return tables, dict(OUR_FUNCTION.findall(done.stdout))


def passed(arguments: str) -> list[str]:
    """How each argument is passed: a type of PASSED_AS or "memory", and a star for each level of address."""
    found = []
    for argument in arguments.split(","):
        words = argument.replace("*", " ").replace("const ", "").replace("struct ", "").split()
        found.append(PASSED_AS.get(words[0], "memory") + "*" * (argument.count("*") + argument.count("[")))
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
    print(f"versions {VERSIONS[0]} to {VERSIONS[-1]}: the tables, arguments and layouts are those of {folder}")


if __name__ == "__main__":
    main()
