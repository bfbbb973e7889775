"""The library's layouts and codes are those of the real infiniband/verbs.h."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HEADER = Path(__file__).parents[2] / "protocol/fanin_wire/ibv.h"
ABI = Path(__file__).parents[2] / "protocol/fanin_wire/abi.h"
REAL = Path("/usr/include/infiniband/verbs.h")
LEFT_OUT = {  # names of our own for runs of members that the device lacks
    "ibv_device": "ops",
    "ibv_device_attr_ex": "extensions",
    "ibv_async_event": "",
    "ibv_qp_init_attr_ex": "",
    "ibv_send_wr": "remote_srqn bind_mw_or_tso",
    "ibv_context_ops": "compat_before_windows compat_create_cq compat_before_srq compat_of_qp compat_after",
    "verbs_context": "advise_mr_to_query_rt_values flows_and_open_qp get_srq_num_to_close_xrcd placeholder",
}
GROWS = {"ibv_port_attr"}  # longer in newer versions; the caller says how long its own is
OWN_NAMES = {"IBV_EXTENDED", "IBV_QP_EX_WITH_ALL_HERE", "IBV_GID_TYPE_SYSFS_ROCE_V2"}
SHARED = {  # of abi.h: beginnings of the names, here and in verbs
    "fanin_service": ("FANIN_SERVICE_", "IBV_QPT_"),
    "fanin_qp_state": ("FANIN_QP_", "IBV_QPS_"),
    "fanin_send_opcode": ("FANIN_SEND_", "IBV_WR_"),
    "fanin_send_flags": ("FANIN_SEND_", "IBV_SEND_"),
    "fanin_qp_attribute": ("FANIN_ATTR_", "IBV_QP_"),
    "fanin_wc_status": ("FANIN_WC_", "IBV_WC_"),
    "fanin_wc_opcode": ("FANIN_WC_", "IBV_WC_"),
    "fanin_wc_flags": ("FANIN_WC_", "IBV_WC_"),
    "fanin_access": ("FANIN_ACCESS_", "IBV_ACCESS_"),
}
OTHER_NAMES = {"FANIN_ACCESS_WRITE": "IBV_ACCESS_LOCAL_WRITE"}
OWN_CODES = {"FANIN_ACCESS_READ", "FANIN_ACCESS_ORDINARY", "FANIN_ACCESS_REMOTE_INVALIDATE"}
PATHS = {"ibv_send_wr": ["wr.rdma.rkey", "wr.atomic.compare_add", "wr.atomic.rkey", "wr.ud.remote_qkey"]}


def members(body: str) -> list[str]:
    """Of a structure, without those of structures inside."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    body = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\}", "", body))
    functions = re.sub(r"\(\*(\w+)\)\([^;]*\)", r"\1", body)
    declarations = [" ".join(line.split()) for line in functions.split(";") if line.strip()]
    return [re.findall(r"\w+", re.sub(r"\[\d+\]", "", part))[-1] for line in declarations for part in line.split(",")]


def structures() -> dict[str, list[str]]:
    text = HEADER.read_text()
    found = dict(re.findall(r"^(?:struct|union) (\w+) \{(.*?)^\};", text, flags=re.S | re.M))
    return {name: [m for m in members(body) if m not in LEFT_OUT.get(name, "").split()] for name, body in found.items()}


def constants() -> list[str]:
    return sorted(set(re.findall(r"\bIBV_\w+(?= = )", HEADER.read_text())) - OWN_NAMES)


def measured(include: str, folder: Path) -> list[str]:
    """The output of a program with one of the headers."""
    lines = []
    for name, names in structures().items():
        kind = "union" if name == "ibv_gid" else "struct"
        if name not in GROWS:
            lines.append(f'printf("{name} %zu\\n", sizeof({kind} {name}));')
        lines += [
            f'printf("{name}.{m} %zu %zu\\n", offsetof({kind} {name}, {m}), sizeof((({kind} {name} *)0)->{m}));'
            for m in [*names, *PATHS.get(name, [])]
        ]
    lines += [f'printf("{name} %lld\\n", (long long){name});' for name in constants()]
    source = "\n".join([f"#include {include}", "#include <stdio.h>", "int main(void)", "{", *lines, "return 0;", "}"])
    program = folder / "layouts"
    subprocess.run(["cc", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def test_layouts_and_codes_are_those_of_libibverbs(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("a C compiler")
    if not REAL.exists():
        pytest.skip(f"{REAL} (Debian: libibverbs-dev)")
    ours = measured(f'"{HEADER}"', tmp_path)
    assert len(ours) > 300
    assert ours == measured("<infiniband/verbs.h>", tmp_path)


def codes() -> dict[str, str]:
    """Codes of the host interface that stand for those of verbs, and their names there."""
    text = ABI.read_text()
    found = {}
    for enum, (prefix, theirs) in SHARED.items():
        body = re.search(rf"^enum {enum} \{{(.*?)\}};", text, flags=re.S | re.M)
        assert body is not None, enum
        names = re.findall(rf"\b({prefix}\w+) = ", body[1])
        assert names, enum
        found |= {name: OTHER_NAMES.get(name, name.replace(prefix, theirs)) for name in names}
    return {name: other for name, other in found.items() if name not in OWN_CODES}


def test_codes_of_the_host_interface_are_those_of_libibverbs(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("a C compiler")
    if not REAL.exists():
        pytest.skip(f"{REAL} (Debian: libibverbs-dev)")
    pairs = codes()
    assert len(pairs) > 60
    lines = [
        f'if ((long long){ours} != (long long){theirs}) puts("{ours} is not {theirs}");'
        for ours, theirs in pairs.items()
    ]
    includes = [f'#include "{ABI}"', "#include <infiniband/verbs.h>", "#include <stdio.h>"]
    source = "\n".join([*includes, "int main(void)", "{", *lines, "return 0;", "}"])
    program = tmp_path / "codes"
    subprocess.run(["cc", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == ""
