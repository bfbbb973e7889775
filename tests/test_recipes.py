"""The recipes of CONTRIBUTING.md for an operation and a type name every place.

Both are performed in a copy of the tree, for BXNOR and the 8-bit float e5m2; then the tests that ask for the steps
pass. Of device code the kernels are compiled, and no more. The Verilog is left out, as its profile may.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.deep]
ROOT = Path(__file__).parents[1]
TREE = ("docs", "protocol", "device", "host", "tools", "fpga_cosim", "tests", ".ci", "Makefile", "pyproject.toml")
BUILT = shutil.ignore_patterns("__pycache__", "include")
BOUND_S = 900
TESTS = (
    "tests/wire/test_lookup_tables.py",
    "tests/wire/test_operations.py",
    "tests/wire/test_generate.py",
    "tests/wire/test_verilog_tables.py",
    "tests/wire/test_abi.py",
    "tests/engine/test_kernel_table.py",
    "tests/tools/test_exact_data.py",
    "tests/conformance/test_values.py",
    "tests/conformance/test_reference.py::test_it_computes_what_the_oracle_does",
    "tests/conformance/test_reference.py::test_it_passes_in_this_process",
)
TEST_OF_KERNELS = ("tests/engine/test_kernels.py", "-m", "not deep", "-k", "BXNOR or f8e5m2")
OPERATIONS, DATATYPES = "protocol/fanin_wire/operations.py", "protocol/fanin_wire/datatypes.py"
REFERENCE, KERNELS = "tools/fanin_reference/arithmetic.py", "device/fanin_nic/engine/kernels"
INTEGERS, FLOATS = f"{KERNELS}/integers.py", f"{KERNELS}/floats.py"
MPI = "host/fanin/mpi/abi/mpi_abi.c"  # which does not have every type

# (file, what stands there, what is put before it)
BXNOR = (
    (
        OPERATIONS,
        ")\n\n_BY_CODE = ",
        '    Operation(14, "BXNOR", _BITS, lambda a, b: ~(a ^ b), "each bit: 1 where both are equal"),\n',
    ),
    (
        INTEGERS,
        "LOGICAL = {",
        "def _bitwise_equal(accumulator, data, count):\n"
        "    a, b = elements(accumulator, count), elements(data, count)\n"
        "    for i in range(count):\n"
        "        a[i] = ~(a[i] ^ b[i])\n\n\n",
    ),
    (INTEGERS, "Op.BXOR: _bitwise_xor", "Op.BXNOR: _bitwise_equal, "),
    (REFERENCE, '    "BXOR": lambda', '    "BXNOR": lambda a, b: ~(a ^ b),\n'),
)
E5M2 = (
    (
        DATATYPES,
        ")\n\nLayout = ",
        '    DataType(21, "f8e5m2", np.dtype("<u1"), Family.SMALL_FLOAT, "float8_e5m2", f32_of_e5m2, e5m2_of_f32,\n'
        '        nccl="FLOAT8_E5M2"),\n',
    ),
    (
        DATATYPES,
        "def f32_of_bf16(",
        '''def f32_of_e5m2(stored: np.ndarray) -> np.ndarray:
    """The bits of e5m2, uint8, to float32: they are the upper half of float16."""
    return (stored.astype("<u2") << 8).view("<f2").astype(np.float32)


def e5m2_of_f32(values: np.ndarray) -> np.ndarray:
    """float32 to the bits of e5m2, uint8. What is nearer to 2^16 than to the largest number is infinite."""
    numbers = np.append(f32_of_e5m2(np.arange(0x7C, dtype=np.uint8)), np.float32(2**16))
    magnitude = np.abs(values)
    above = np.searchsorted(numbers, magnitude).clip(1, 0x7C)
    middle = (numbers[above - 1] + numbers[above]) / 2
    bits = np.where((magnitude > middle) | ((magnitude == middle) & (above % 2 == 0)), above, above - 1)
    return np.where(np.isnan(values), 0x7E, bits | np.signbit(values) << 7).astype(np.uint8)


''',
    ),
    (
        FLOATS,
        "@register_jitable\ndef f32_of_bf16",
        """@register_jitable
def f32_of_e5m2(value):
    return f32_of_f16(types.uint16(types.uint16(value) << types.uint16(8)))


@register_jitable
def e5m2_of_f32(value):
    bits = bits_of(value)
    magnitude = bits & UINT32(0x7FFFFFFF)
    subnormal = bits_of(f32_of_bits(magnitude) + types.float32(128)) - UINT32(0x43000000)
    normal = (magnitude - UINT32(112 << 23) + UINT32(0xFFFFF) + ((magnitude >> UINT32(21)) & UINT32(1))) >> UINT32(21)
    rounded = subnormal if magnitude < UINT32(113 << 23) else min(normal, UINT32(0x7C))
    infinite = magnitude >= UINT32(143 << 23)
    return types.uint8((UINT32(0x7C) if infinite else rounded) | (bits >> UINT32(24)) & UINT32(0x80))


""",
    ),
    (FLOATS, "DType.F16: (F16,", "DType.F8E5M2: (F8E5M2, f32_of_e5m2, e5m2_of_f32), "),
    (FLOATS, "BF16 = Format(", "F8E5M2 = Format(types.int8, 0x7C, 0x7E)\n"),
    (REFERENCE, "PAIRS = {", 'LETTERS |= {"f8e5m2": "B"}\n'),
    (
        REFERENCE,
        "AS_BITS = {",
        """def e5m2_number(bits: int) -> float:
    return struct.unpack("<e", struct.pack("<H", bits << 8))[0]


E5M2 = [*map(e5m2_number, range(0x7C)), 2.0**16]


def e5m2_bits(number: float) -> int:
    if math.isnan(number):
        return 0x7E
    magnitude = min(abs(number), 2.0**16)
    nearest = min(range(0x7D), key=lambda bits: (abs(E5M2[bits] - magnitude), bits & 1))
    return nearest | (0x80 if math.copysign(1, number) < 0 else 0)


""",
    ),
    (REFERENCE, '"bf16": (bf16_number', '"f8e5m2": (e5m2_number, e5m2_bits), '),
)
RECIPES = {"Adding an operation of a reduction": (BXNOR, 4), "Adding a type": (E5M2, 5)}


def places(section: str) -> list[str]:
    """The file or folder of each step of a recipe, without those that a command writes."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    cells = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| ")]
    found = ([each for each in re.findall(r"`([^`]+)`", cell) if (ROOT / each).exists()] for cell in cells)
    return [paths[0] for paths in found if paths]


def perform(tree: Path, edits: tuple[tuple[str, str, str], ...]) -> None:
    for name, anchor, added in edits:
        text = (tree / name).read_text()
        assert text.count(anchor) == 1, f"{anchor!r} is {text.count(anchor)} times in {name}: mend this test"
        (tree / name).write_text(text.replace(anchor, added + anchor))


def run(tree: Path, *line: str) -> subprocess.CompletedProcess[str]:
    folders = os.pathsep.join(str(tree / name) for name in ("protocol", "device", "host", "tools"))
    environment = os.environ | {"PYTHONPATH": folders, "FANIN_CACHE_DIR": str(tree / "cache")}
    return subprocess.run(line, cwd=tree, env=environment, capture_output=True, text=True, timeout=BOUND_S)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree after both recipes, with the tables that follow."""
    copy = tmp_path_factory.mktemp("tree")
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=BUILT)
        else:
            shutil.copy(ROOT / name, copy / name)
    for edits, _ in RECIPES.values():
        perform(copy, edits)
    done = run(copy, sys.executable, "-m", "fanin_wire.generate")
    assert done.returncode == 0, done.stderr
    return copy


def pytest_in(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(tree, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)


@pytest.mark.parametrize("section", RECIPES)
def test_the_recipe_names_the_places(section: str) -> None:
    edits, count = RECIPES[section]
    named = [place for place in places(section) if place != MPI]
    assert len(named) == count
    for name, _, _ in edits:
        assert any(name == place or name.startswith(f"{place}/") for place in named), f"{name} is not named"


def test_the_tests_that_ask_for_them_pass(tree: Path) -> None:
    for tests in (TESTS, TEST_OF_KERNELS):
        done = pytest_in(tree, *tests)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert (
        "| 14 | BXNOR | each bit: 1 where both are equal | integer |"
        in (tree / "protocol/fanin_wire/SPEC.md").read_text()
    )
    assert "FANIN_DTYPE_F8E5M2 = 21" in (tree / "protocol/fanin_wire/abi.h").read_text()
    assert "[NCCL_FLOAT8_E5M2] = FANIN_DTYPE_F8E5M2," in (tree / "host/fanin/nccl_lib/names.h").read_text()


@pytest.mark.parametrize(("place", "test"), [(KERNELS, "test_kernel_table.py"), (REFERENCE, "test_reference.py")])
def test_a_place_that_is_left_out_is_found(tree: Path, place: str, test: str) -> None:
    """By the test that the recipe names."""
    names = {name for edits, _ in RECIPES.values() for name, _, _ in edits if name.startswith(place)}
    performed = {name: (tree / name).read_text() for name in names}
    for name in names:
        shutil.copy(ROOT / name, tree / name)
    try:
        done = pytest_in(tree, *TESTS)
    finally:
        for name, text in performed.items():
            (tree / name).write_text(text)
    assert done.returncode == 1, done.stdout[-8000:]
    assert f"/{test}" in done.stdout.partition("short test summary")[2], done.stdout[-8000:]
