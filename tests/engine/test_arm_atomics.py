"""Shared words on Arm: the compiled code of rings and doorbells has the instructions that its orderings need.

LLVM compiles for Arm on any machine. A run on x86, or emulated there, would prove nothing, since x86 has most of these
orders anyway.
"""

import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import pytest
from numba import njit, types

from fanin_nic.daemon.splitter import tables
from fanin_nic.hostif import rings
from fanin_nic.native import memory
from fanin_nic.native.compiled import OPTIONS
from fanin_nic.native.libraries import EntryCompiler
from fanin_nic.port.verbs import wake
from fanin_nic.port.verbs.records import verbs_at

TRIPLE = "aarch64-unknown-linux-gnu"
BLUEFIELD_2, BLUEFIELD_3 = "cortex-a72", "cortex-a78"
ORDERED = re.compile(r"^\t(ldar|ldapr|ldaxr|stlr|stlxr|swpal|dmb)\s+(.*)$", re.MULTILINE)
WORD, NUMBER = types.uint64, types.int64

pytestmark = pytest.mark.unit


def instructions(function: Callable, arguments: tuple[Any, ...], cpu: str) -> list[str]:
    """The ordered instructions of a function for an Arm core, without repetitions. Those for 64 bits end in `x`, a
    fence in its kind."""
    compiled = njit(**OPTIONS, pipeline_class=EntryCompiler)(function)
    compiled.compile(arguments)
    text = compiled.inspect_llvm(compiled.signatures[0])
    text = re.sub(r"^target (triple|datalayout).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r'"target-(cpu|features)"="[^"]*"', "", text)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, opt=2)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    assembly = machine.emit_assembly(module)
    start = re.search(rf"^_Z\w*{function.__name__}\w*:", assembly, re.MULTILINE)
    assert start, "the function is missing"
    body = assembly[start.end() : assembly.index(".cfi_endproc", start.end())]
    found = [
        name + (f" {rest.strip()}" if name == "dmb" else ".x" if rest.lstrip().startswith("x") else "")
        for name, rest in ORDERED.findall(body)
    ]
    return [name for index, name in enumerate(found) if found[index - 1 : index] != [name]]


def acquire(address):
    return memory.load_acquire(address)


def acquire_64(address):
    return memory.load_acquire_64(address)


def relaxed(address):
    return memory.load_relaxed(address)


def release(address, value):
    memory.store_release(address, value)


def release_64(address, value):
    memory.store_release_64(address, value)


def exchanged(address, value):
    return memory.exchange(address, value)


def fence():
    memory.full_fence()


def waken(address):
    wake.wake(verbs_at(address))


def failed(address):
    wake.fail(verbs_at(address), 1)


HELPERS = (
    (acquire, (WORD,), ["ldar"], ["ldapr"]),
    (acquire_64, (WORD,), ["ldar.x"], ["ldapr.x"]),
    (relaxed, (WORD,), [], []),
    (release, (WORD, types.uint32), ["stlr"], ["stlr"]),
    (release_64, (WORD, WORD), ["stlr.x"], ["stlr.x"]),
    (exchanged, (WORD, types.uint32), ["ldaxr", "stlxr"], ["swpal"]),
    (fence, (), ["dmb ish"], ["dmb ish"]),
)
PLACES = (
    (rings.peek, (WORD, WORD), ["ldar"]),
    (rings.consume, (WORD,), ["stlr"]),
    (rings.fetch, (WORD, WORD), ["ldar", "stlr"]),
    (rings.fetch_ordinary, (WORD, WORD, WORD, types.uint32), ["ldar", "stlr"]),
    (rings.store, (WORD, WORD), ["ldar", "stlr"]),  # no room: look again, overrun; else the producer
    (rings.complete, (WORD, WORD), ["ldar", "stlr", "dmb ish"]),
    (rings.see, (WORD,), ["ldar"]),
    (rings.set_sleeping, (WORD, NUMBER, NUMBER), ["stlr", "dmb ish"]),
    (rings.beat, (WORD, NUMBER, NUMBER), ["stlr"]),
    (tables.submit, (WORD, WORD), ["stlr"]),
    (tables.take, (WORD, WORD), ["ldar", "stlr"]),
    (tables.ring_doorbell, (WORD,), ["dmb ish"]),
)


@pytest.mark.parametrize(
    ("function", "arguments", "older", "newer"), HELPERS, ids=lambda value: getattr(value, "__name__", "")
)
def test_helper(function: Callable, arguments: tuple, older: list[str], newer: list[str]) -> None:
    assert instructions(function, arguments, BLUEFIELD_2) == older
    assert instructions(function, arguments, BLUEFIELD_3) == newer


@pytest.mark.parametrize(
    ("function", "arguments", "expected"), PLACES, ids=lambda value: getattr(value, "__name__", "")
)
def test_place(function: Any, arguments: tuple, expected: list[str]) -> None:
    assert instructions(function.entry.py_func, arguments, BLUEFIELD_2) == expected


def test_resolver_is_woken_by_an_exchange() -> None:
    assert instructions(waken, (WORD,), BLUEFIELD_2) == ["ldaxr", "stlxr"]
    assert instructions(failed, (WORD,), BLUEFIELD_2) == ["stlr", "ldaxr", "stlxr"]


def test_every_helper_is_tried() -> None:
    helpers = {
        name for name in vars(memory) if re.match(r"(load|store)_(acquire|release|relaxed)|exchange$|full_fence$", name)
    }
    assert len(helpers) == len(HELPERS)
