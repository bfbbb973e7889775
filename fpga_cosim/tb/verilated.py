"""A module of the RTL as a library: Verilator makes C++ of it, and numpy arrays are its ports.

Registers and memories begin with random bits, so nothing may rely on uninitialised state. A record array has one record
for each clock, or for each beat of a stream, and a field for each port. A whole array goes through the module in one
call, millions of clocks a second. Ports of more than 64 bits are arrays of bytes, the lowest first. On request a
library writes each clock to a waveform (VCD), and shows tables of the module's registers.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from fpga_cosim.tb.tools import BUILD, FORMAL, OWN_BUILD, RTL, environment, run, verilator_root

# Ports that the harness drives itself: a clock, and a stream in this clock
CLOCK, RESET, IDLE = "clk", "rst", "is_idle"
HALF_PERIOD_PS = 2000  # of a waveform: 250 MHz
HANDSHAKE = ("s_axis_tvalid", "s_axis_tready", "m_axis_tvalid", "m_axis_tready")
DECLARATIONS = """
void *dut_new(void);
void dut_free(void *dut);
void dut_reset(void *dut);
void dut_run(void *dut, size_t cycles, const uint8_t *in, uint8_t *out);
size_t dut_stream(void *dut, size_t cycles, const uint8_t *offer, const uint8_t *take,
                  size_t beats, const uint8_t *in, size_t room, uint8_t *out, uint32_t *when);
size_t dut_exchange(void *dut, size_t cycles, const uint8_t *rest, size_t beats, const uint8_t *in,
                    size_t room, uint8_t *out);
bool dut_wave(void *dut, const char *path);
void dut_wave_end(void);
const void *dut_table(void *dut, size_t number, size_t *bytes);
"""
WRAPPER = """
#include <cstddef>
#include <cstdint>
#include <cstring>
#include "Vdut.h"
typedef Vdut Dut;

{wave}
static void tick(Dut *dut) {{ {tick} dut->eval(); }}
static void put(Dut *dut, const uint8_t *from) {{ {put} }}
static void get(Dut *dut, uint8_t *to) {{ {get} }}

extern "C" {{
void *dut_new(void) {{
    Verilated::randReset(2);
    prepare_wave();
    Dut *dut = new Dut;
    {low} dut->eval();
    return dut;
}}
void dut_free(void *dut) {{ delete static_cast<Dut *>(dut); }}

void dut_reset(void *any) {{
    Dut *dut = static_cast<Dut *>(any);
    {reset_on} tick(dut); tick(dut); {reset_off} dut->eval();
}}

// One record in and one out a clock; the outputs are those before the edge.
void dut_run(void *any, size_t cycles, const uint8_t *in, uint8_t *out) {{
    Dut *dut = static_cast<Dut *>(any);
    for (size_t i = 0; i < cycles; i++, in += {in_size}, out += {out_size}) {{
        put(dut, in); dut->eval(); get(dut, out); tick(dut);
    }}
}}

// A source that is valid, once it is, until its beat is taken, and a sink that is ready as `take` says. Returns the
// number of beats that came out; when[i] is the clock of beat i.
size_t dut_stream(void *any, size_t cycles, const uint8_t *offer, const uint8_t *take,
                  size_t beats, const uint8_t *in, size_t room, uint8_t *out, uint32_t *when) {{
    Dut *dut = static_cast<Dut *>(any);
    size_t came = 0;
    {stream}
    return came;
}}

// Beats one behind the other, then `rest` until the module has nothing more to do; the sink is always ready. Returns
// the number of beats that came out; the greatest number if it did not end in so many clocks.
size_t dut_exchange(void *any, size_t cycles, const uint8_t *rest, size_t beats, const uint8_t *in,
                    size_t room, uint8_t *out) {{
    Dut *dut = static_cast<Dut *>(any);
    size_t came = 0;
    {exchange}
    return SIZE_MAX;
}}

// A table of registers inside of the module
const void *dut_table(void *any, size_t number, size_t *bytes) {{
    Dut *dut = static_cast<Dut *>(any);
    {tables}
    (void)dut; *bytes = 0;
    return nullptr;
}}
}}
"""
NO_WAVE = """
static void prepare_wave() {}
static void show(Dut *) {}
extern "C" { bool dut_wave(void *, const char *) { return false; } void dut_wave_end(void) {} }
"""
# The state before an edge is shown with the clock low, its effects with the clock high.
WAVE = """
#include "verilated_vcd_c.h"
static VerilatedVcdC *wave = nullptr;
static uint64_t picoseconds = 0;

static void prepare_wave() { Verilated::traceEverOn(true); }
static void show(Dut *) {
    if (wave) { wave->dump(picoseconds); picoseconds += HALF_PERIOD_PS; }
}

extern "C" {
bool dut_wave(void *any, const char *path) {
    wave = new VerilatedVcdC;
    static_cast<Dut *>(any)->trace(wave, 99);
    wave->open(path);
    return wave->isOpen();
}
void dut_wave_end(void) { if (wave) wave->close(); delete wave; wave = nullptr; }
}
"""
STREAM = """
    size_t sent = 0;
    bool offered = false;
    for (size_t i = 0; i < cycles; i++) {{
        offered = sent < beats && (offered || offer[i]);
        dut->s_axis_tvalid = offered;
        if (offered) put(dut, in + sent * {in_size});
        dut->m_axis_tready = take[i];
        dut->eval();
        if (dut->m_axis_tvalid && take[i] && came < room) {{
            get(dut, out + came * {out_size}); when[came++] = i;
        }}
        if (offered && dut->s_axis_tready) {{ sent++; offered = false; }}
        tick(dut);
    }}
    dut->s_axis_tvalid = 0;
"""
EXCHANGE = """
    size_t sent = 0;
    put(dut, rest);
    dut->m_axis_tready = 1;
    for (size_t i = 0; i < cycles; i++) {{
        bool offered = sent < beats;
        dut->s_axis_tvalid = offered;
        if (offered) put(dut, in + sent * {in_size});
        dut->eval();
        if (dut->m_axis_tvalid) {{
            if (came < room) get(dut, out + came * {out_size});
            came++;
        }}
        if (offered && dut->s_axis_tready) sent++;
        bool done = !offered && dut->is_idle;
        tick(dut);
        if (done) return came;
    }}
"""
_PORT = re.compile(r"VL_(IN|OUT)(8|16|64|W|)\(&?\(?(\w+)\)?,(\d+),(\d+)(?:,(\d+))?\)")


def _type(kind: str, words: str) -> Any:
    if kind == "W":
        return ("u1", (4 * int(words),))
    return {"8": "u1", "16": "u2", "": "u4", "64": "u8"}[kind]


def _moves(ports: np.dtype, form: str) -> str:
    assert ports.fields is not None
    return " ".join(
        form.format(name=name, offset=offset, size=field.itemsize) for name, (field, offset, *_) in ports.fields.items()
    )


def _is_stream(ports: set[str]) -> bool:
    return {CLOCK, *HANDSHAKE} <= ports


def _digest(*words: str) -> str:
    """The inputs of a library: this file, all sources of the RTL, and the words of its build."""
    made_of = [path.read_bytes() for path in (Path(__file__), *sorted(RTL.glob("*.v*")), *sorted(FORMAL.glob("*.vh")))]
    return hashlib.sha256(b"".join([*made_of, *(word.encode() for word in words)])).hexdigest()


@cache
def _runtime(include: Path, has_wave: bool) -> tuple[Path, ...]:
    """Verilator's own code, compiled once for all modules."""
    objects = []
    OWN_BUILD.mkdir(parents=True, exist_ok=True)
    for name in ("verilated", "verilated_threads", *(("verilated_vcd_c",) if has_wave else ())):
        target = OWN_BUILD / f"{name}.o"
        if not target.exists() or target.stat().st_mtime < (include / f"{name}.cpp").stat().st_mtime:
            made = target.with_suffix(f".{os.getpid()}")  # two processes of pytest may build it at once
            run("c++", "-O1", "-fPIC", "-std=c++20", f"-I{include}", "-c", include / f"{name}.cpp", "-o", made)
            made.replace(target)
        objects.append(target)
    return tuple(objects)


def _include() -> Path:
    root = verilator_root()
    if root:
        return root / "include"
    printed = run("verilator", "--getenv", "VERILATOR_ROOT").strip() or environment().get("VERILATOR_ROOT", "")
    return Path(printed) / "include"


class Module:
    """A module of the RTL, built with parameters, in reset state.

    Args:
        name: of the module and its file.
        parameters: of the module.
        wave: a file for the waveform of all signals, from the first reset on.
        tables: places of registers or arrays of them, as "instance.name", and the numpy type of an element.
        properties: whether it checks the properties of fpga_cosim/formal.

    Raises OSError if the file of the waveform can not be written.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, int] | None = None,
        wave: Path | None = None,
        tables: Mapping[str, str] | None = None,
        properties: bool = False,
    ) -> None:
        if wave is not None:
            wave.write_bytes(b"")  # an error that says why, and before all work
        values = dict(parameters or {})
        self._has_wave, self._top = wave is not None, name
        self._tables = dict(tables or {})
        kinds = [kind for kind, asked in (("wave", wave), ("tables", tables), ("properties", properties)) if asked]
        label = "-".join([name, *(f"{key}{value}" for key, value in values.items()), *kinds])
        folder = BUILD / label
        folder.mkdir(parents=True, exist_ok=True)
        generics = [f"-G{key}={value}" for key, value in values.items()]
        generics += ["-DPROPERTIES", f"-I{FORMAL}"] if properties else []
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one of several processes builds the module
            library = self._build(name, generics, folder, _digest(label, *self._tables))
        self._ffi = cffi.FFI()
        self._ffi.cdef(DECLARATIONS)
        self._library = self._ffi.dlopen(str(library))
        self._dut = self._ffi.gc(self._library.dut_new(), self._library.dut_free)
        if wave is not None:
            assert self._library.dut_wave(self._dut, os.fsencode(wave))
        self.reset()

    def _build(self, name: str, generics: list[str], folder: Path, state: str) -> Path:
        """The library in a folder, rebuilt if its sources differ; sets the types of the ports."""
        is_current = (folder / "state").exists() and (folder / "state").read_text() == state
        if not is_current:
            for path in (folder / "state", *folder.glob("Vdut*")):  # older sources may have had more files
                path.unlink(missing_ok=True)
            (folder / "observed.vlt").write_text(
                "`verilator_config\n"
                + "".join(f'public_flat_rd -module "*" -var "{place.rpartition(".")[2]}"\n' for place in self._tables)
            )
            run(
                *("verilator", "--cc", "--prefix", "Vdut", "--top-module", name, "--Mdir", folder, f"-I{RTL}"),
                *("-Wall", "-O3", "-fno-inline", "--x-assign", "unique", "--x-initial", "unique"),
                *(["--trace-vcd"] if self._has_wave else []),
                *([folder / "observed.vlt"] if self._tables else []),
                *("--noassert", *generics, RTL / f"{name}.v"),
            )
        header = (folder / "Vdut.h").read_text()
        ports = [(direction, port, _type(kind, words)) for direction, kind, port, _, _, words in _PORT.findall(header)]
        names = {port for _, port, _ in ports}
        own = (CLOCK, RESET, *(HANDSHAKE if _is_stream(names) else ()))
        self.inputs, self.outputs = (
            np.dtype([(port, kind) for direction, port, kind in ports if direction == wanted and port not in own])
            for wanted in ("IN", "OUT")
        )
        library = folder / "dut.so"
        if not is_current:
            self._compile(folder, library, names)
            (folder / "state").write_text(state)
        return library

    def _compile(self, folder: Path, library: Path, names: set[str]) -> None:
        """Compile Verilator's sources of a module with these ports into a library."""
        is_stream = _is_stream(names)
        sizes = {"in_size": self.inputs.itemsize, "out_size": self.outputs.itemsize}
        code = WRAPPER.format(
            put=_moves(self.inputs, "memcpy(&dut->{name}, from + {offset}, {size});"),
            get=_moves(self.outputs, "memcpy(to + {offset}, &dut->{name}, {size});"),
            tick="dut->eval(); show(dut); dut->clk = 1; dut->eval(); show(dut); dut->clk = 0;"
            if CLOCK in names
            else "",
            low="dut->clk = 0;" if CLOCK in names else "",
            reset_on="dut->rst = 1;" if RESET in names else "",
            reset_off="dut->rst = 0;" if RESET in names else "",
            stream=STREAM.format(**sizes) if is_stream else "",
            exchange=EXCHANGE.format(**sizes) if is_stream and IDLE in names else "",
            wave=WAVE.replace("HALF_PERIOD_PS", str(HALF_PERIOD_PS)) if self._has_wave else NO_WAVE,
            tables=" ".join(
                f"if (number == {number}) {{ auto &table = dut->rootp->{self._member(place)}; "
                "*bytes = sizeof table; return &table; }"
                for number, place in enumerate(self._tables)
            ),
            **sizes,
        )
        files = sorted(path.name for path in folder.glob("Vdut*.cpp"))
        once = [name for name in files if name.endswith("Slow.cpp")]
        often = [f'#include "{name}"\n' for name in files if name not in once]
        rare = ['#pragma GCC optimize("O0")\n', *(f'#include "{name}"\n' for name in once)]
        (folder / "wrapper.cc").write_text("".join([*often, code, *rare]))
        include = _include()
        run(
            *(
                "c++",
                "-O0" if self._has_wave else "-O1",
                "-fPIC",
                "-shared",
                "-std=c++20",
                "-pthread",
                f"-I{include}",
                f"-I{include}/vltstd",
            ),
            *(f"-I{folder}", folder / "wrapper.cc", *_runtime(include, self._has_wave), "-o", library),
        )

    def _member(self, place: str) -> str:
        """The name of a register in Verilator's sources."""
        *instances, name = [self._top, *place.split(".")]  # each instance is an object, since none is inlined
        return "".join(f"__PVT__{instance}->" for instance in instances) + name

    def table(self, place: str) -> np.ndarray:
        """A copy of one of the `tables`, as it is now."""
        size = self._ffi.new("size_t *")
        found = self._library.dut_table(self._dut, list(self._tables).index(place), size)
        return np.frombuffer(bytes(self._ffi.buffer(found, size[0])), self._tables[place])

    def close(self) -> None:
        """Complete the waveform. The module remains usable."""
        self._library.dut_wave_end()

    def _bytes(self, array: np.ndarray) -> Any:
        return self._ffi.from_buffer(array.view(np.uint8).reshape(-1)) if array.size else self._ffi.NULL

    def reset(self) -> None:
        """Two clocks with rst, if the module has one."""
        self._library.dut_reset(self._dut)

    def run(self, inputs: np.ndarray) -> np.ndarray:
        """The outputs before the edge of each clock, for inputs of dtype `inputs`, one record a clock."""
        inputs = np.ascontiguousarray(inputs, self.inputs)
        outputs = np.zeros(len(inputs), self.outputs)
        self._library.dut_run(self._dut, len(inputs), self._bytes(inputs), self._bytes(outputs))
        return outputs

    def stream(
        self, beats: np.ndarray, offer: np.ndarray, take: np.ndarray, room: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Beats through an AXI-Stream; `offer` and `take` say for each clock whether the ends are valid and ready.

        Returns the output beats, at most `room` (by default twice as many as went in), and the clock of each.
        """
        beats = np.ascontiguousarray(beats, self.inputs)
        offer, take = np.ascontiguousarray(offer, np.uint8), np.ascontiguousarray(take, np.uint8)
        room = room or 2 * len(beats) + 8
        out, when = np.zeros(room, self.outputs), np.zeros(room, np.uint32)
        came = self._library.dut_stream(
            *(self._dut, len(offer), self._bytes(offer), self._bytes(take)),
            *(
                len(beats),
                self._bytes(beats),
                len(out),
                self._bytes(out),
                self._ffi.cast("uint32_t *", when.ctypes.data),
            ),
        )
        return out[:came], when[:came]

    def exchange(self, beats: np.ndarray, rest: np.ndarray, room: int, cycles: int = 1_000_000) -> np.ndarray:
        """Beats through a module until it `is_idle`, with one record `rest` of the other inputs.

        Returns the output beats, at most `room`. Raises AssertionError if more came, or the module did not become idle.
        """
        beats, rest = np.ascontiguousarray(beats, self.inputs), np.ascontiguousarray(rest, self.inputs)
        out = np.zeros(room, self.outputs)
        given = len(beats), self._bytes(beats), room, self._bytes(out)
        came = int(self._library.dut_exchange(self._dut, cycles, self._bytes(rest), *given))
        assert came <= room, f"{came} beats, or no end in {cycles} clocks"
        return out[:came]


def pipelined(module: Module, inputs: np.ndarray, latency: int) -> np.ndarray:
    """The results of a module with one record a clock, without handshake."""
    padded = np.concatenate([inputs, np.repeat(inputs[-1:], latency)])
    return module.run(padded)[latency:]
