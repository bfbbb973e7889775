"""The table of kernels has one for each operation and type that makes sense, and room for all. Nothing is compiled."""

from fanin_nic.engine.kernels import FINISH, NARROW, WIDEN, itemsize_table
from fanin_nic.engine.kernels.table import KERNELS, MAX_DTYPES, MAX_OPS
from fanin_wire.datatypes import DATATYPES, Family
from fanin_wire.operations import OPERATIONS, operation_by_name

MEAN = operation_by_name("MEAN")


def test_there_is_a_kernel_for_every_combination_that_makes_sense() -> None:
    wanted = {(operation.code, entry.code) for operation in OPERATIONS for entry in DATATYPES if operation.takes(entry)}
    wanted |= {(FINISH, entry.code) for entry in DATATYPES if MEAN.takes(entry)}
    small = [entry.code for entry in DATATYPES if entry.family == Family.SMALL_FLOAT]
    wanted |= {(row, code) for row in (WIDEN, NARROW) for code in small}
    assert {(int(row), int(column)) for row, column in KERNELS} == wanted


def test_rows_and_columns_have_room() -> None:
    assert (NARROW, WIDEN, FINISH, MAX_OPS, MAX_DTYPES) == (21, 22, 23, 24, 32)
    assert max(operation.code for operation in OPERATIONS) < NARROW


def test_sizes_of_elements() -> None:
    sizes = itemsize_table().tolist()
    assert [sizes[entry.code] for entry in DATATYPES] == [entry.itemsize for entry in DATATYPES]
    assert sum(sizes) == sum(entry.itemsize for entry in DATATYPES)
