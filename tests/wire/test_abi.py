"""The numpy dtypes of the host interface against the C compiler's own sizes and offsets."""

import json
import shutil
import subprocess

import pytest

from fanin_wire import abi, verbs
from tests.waiting import BOUND_S

STRUCTS = sorted(name for name in abi.ffi.list_types()[1] if name.startswith("fanin_"))
ENUMS = {
    "fanin_status": (abi.Status, "FANIN_"),
    "fanin_op": (abi.Op, "FANIN_OP_"),
    "fanin_dtype": (abi.DType, "FANIN_DTYPE_"),
    "fanin_message_type": (abi.MessageType, "FANIN_MSG_"),
    "fanin_access": (abi.Access, "FANIN_ACCESS_"),
    "fanin_service": (abi.Service, "FANIN_SERVICE_"),
    "fanin_completion_kind": (abi.CompletionKind, "FANIN_COMPLETION_"),
    "fanin_qp_state": (verbs.QueuePairState, "FANIN_QP_"),
    "fanin_qp_attribute": (verbs.Attribute, "FANIN_ATTR_"),
    "fanin_wc_status": (verbs.CompletionStatus, "FANIN_WC_"),
    "fanin_wc_opcode": (verbs.CompletionOpcode, "FANIN_WC_"),
    "fanin_wc_flags": (verbs.CompletionFlag, "FANIN_WC_"),
    "fanin_send_opcode": (verbs.RequestOpcode, "FANIN_SEND_"),
    "fanin_send_flags": (verbs.SendFlag, "FANIN_SEND_"),
}


def _program() -> str:
    """C program that prints {struct: {"size": n, member: offset, ...}} and the values of the enums, as JSON."""
    lines = []
    for struct in STRUCTS:
        lines.append(f'    printf("\\"{struct}\\": {{\\"size\\": %zu", sizeof(struct {struct}));')
        for member in abi.dtype(struct).names or ():
            lines.append(f'    printf(", \\"{member}\\": %zu", offsetof(struct {struct}, {member}));')
        lines.append('    printf("},\\n");')
    for name, (values, prefix) in ENUMS.items():
        entries = "".join(f", (int){prefix}{member.name}" for member in values)
        shape = ", ".join(f'\\"{member.name}\\": %d' for member in values)
        lines.append(f'    printf("\\"{name}\\": {{{shape}}},\\n"{entries});')
    body = "\n".join(lines)
    head = '#include <stddef.h>\n#include <stdio.h>\n#include "abi.h"\n'
    return f'{head}int main(void)\n{{\n    printf("{{");\n{body}\n    printf("\\"end\\": 0}}");\n    return 0;\n}}\n'


@pytest.fixture(scope="module")
def compiler_says(tmp_path_factory):
    """The C compiler's values for every struct and enum."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed (cc)")
    folder = tmp_path_factory.mktemp("abi")
    source, program = folder / "layout.c", folder / "layout"
    source.write_text(_program())
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wpadded"]
    include = f"-I{abi.HEADER_PATH.parent}"
    subprocess.run([compiler, *flags, include, str(source), "-o", str(program)], check=True, timeout=BOUND_S)
    return json.loads(subprocess.run([program], check=True, capture_output=True, timeout=BOUND_S).stdout)


@pytest.mark.parametrize("struct", STRUCTS)
def test_layout_is_the_compilers(compiler_says, struct):
    dtype = abi.dtype(struct)
    ours = {"size": dtype.itemsize} | {name: dtype.fields[name][1] for name in dtype.names}
    assert compiler_says[struct] == ours


@pytest.mark.parametrize("name", ENUMS)
def test_enum_is_the_compilers(compiler_says, name):
    assert compiler_says[name] == {member.name: int(member) for member in ENUMS[name][0]}


def test_rights_have_the_numbers_of_verbs():
    rights = {right.name.removeprefix("LOCAL_"): right for right in verbs.Access}
    assert rights.items() <= abi.Access.__members__.items()


def test_sizes_that_are_promised():
    assert (abi.WQE.itemsize, abi.CQE.itemsize) == (128, 64)
    assert (abi.SEND_WQE.itemsize, abi.RECEIVE_WQE.itemsize, abi.WC.itemsize) == (192, 144, 64)


def test_completions_of_both_kinds_are_told_apart_at_one_place():
    assert abi.WC.itemsize == abi.CQE.itemsize
    assert abi.WC.fields["kind"] == abi.CQE.fields["kind"]


def test_inline_data_fit_where_the_pieces_are():
    assert abi.SEND_WQE["sge"].itemsize >= abi.MAX_INLINE_DATA
    assert abi.SEND_WQE["sge"].shape == abi.RECEIVE_WQE["sge"].shape == (abi.MAX_SGE,)


@pytest.mark.parametrize("counter", ["producer", "consumer", "waiting"])
def test_ring_counters_have_a_cache_line_each(counter):
    assert abi.RING.fields[counter][1] % 64 == 0
    assert abi.RING.itemsize == 192


def test_unknown_constant():
    with pytest.raises(KeyError, match="FANIN_NOTHING"):
        abi.constant("FANIN_NOTHING")
