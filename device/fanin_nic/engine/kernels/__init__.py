"""The vector unit: one C function for each op and type, in a table of addresses.

A kernel is `void (void *accumulator, void *data, int64_t count)`: accumulator op data for `count` elements at any
address. Its rules are those of SPEC.md, Arithmetic; its oracle is in `fanin_wire.operations`. Each file holds a family
of types; `table` puts the kernels into rows, `unit` compiles them, `python -m fanin_nic.engine.kernels` measures them.
"""

from fanin_nic.engine.kernels.table import FINISH, NARROW, WIDEN, itemsize_table, kernel_table

__all__ = ["FINISH", "NARROW", "WIDEN", "itemsize_table", "kernel_table"]
