"""The RTL broken in one place at a time: the tests of the broken module must fail.

    python -m fpga_cosim.tb.mutants [PART_OF_A_NAME ...]

A mutant is a copy of the RTL with one text replaced. The tests named beside it run against the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from fpga_cosim.tb.tools import BUILD, ROOT, RTL

SWITCH = "switch_core/test_switch_core.py"


class Mutant(NamedTuple):
    """name: what is wrong. module: the file. test: the folder or file of tests that must fail."""

    name: str
    module: str
    right: str
    wrong: str
    test: str = ""


MUTANTS = (
    Mutant("time to live counts", "icrc", "covered[8*22 +: 8] = 8'hff;", "covered[8*22 +: 8] = data[8*22 +: 8];"),
    Mutant("bytes behind the end count", "icrc", "if (bytes <= i[6:0])", "if (bytes < i[6:0])"),
    Mutant("zeros are not taken back", "icrc", "undo_2 <= undo_1;", "undo_2 <= 6'd0;"),
    Mutant("frames run into each other", "icrc", "(first_1 ? start : state)", "state"),
    Mutant("a read sees the write beside it", "ram", "read_data <= memory[read_address];",
           "read_data <= write_enable && write_address == read_address ? write_data : memory[read_address];"),
    Mutant("the last entry is lost", "fifo", "if (push && !is_full) begin", "if (push && !is_full && tail[1:0] != 2'd3) begin"),
    Mutant("full too early", "fifo", "assign is_full = head[ADDRESS-1:0] == tail[ADDRESS-1:0] &&",
           "assign is_full = head[ADDRESS-1:0] == tail[ADDRESS-1:0] + 1'b1 ||"),
    Mutant("sums of bool", "computed_operation", "is_computed = is_integer || is_float;",
           "is_computed = is_integer || is_float || is_bool;"),
    Mutant("i16 is unsigned", "computed_operation", "begin is_signed = 1'b1; size_log2 = 2'd1; end",
           "begin size_log2 = 2'd1; end"),
    Mutant("copies are computed", "vector_unit", "is_copy ? own_b :", "is_copy ? own_a :"),
    Mutant("the type of the next beat", "vector_unit", "result[64*lane +: 64] = sums_4 ?", "result[64*lane +: 64] = sums_3 ?"),
    Mutant("the upper half is the lower", "vector_unit", ".a(own_a[63:32]), .b(own_b[63:32]), .sum",
           ".a(own_a[31:0]), .b(own_b[63:32]), .sum"),
    Mutant("the tail of a payload is lost", "frame_receiver", "bytes > 7'd50;", "bytes > 7'd52;"),
    Mutant("the ring runs over", "frame_receiver", "assign no_room = filled >= {1'b0, {RING{1'b1}}};",
           "assign no_room = filled == {(RING + 1){1'b1}};"),
    Mutant("a long payload is stored whole", "frame_receiver", "wants_write && stored < MOST[RING:0];", "wants_write;"),
    Mutant("any ICRC is right", "frame_receiver", ".data(crc == RIGHT)", ".data(crc[31:1] == RIGHT[31:1])"),
    Mutant("the checksum of IPv4 does not count", "packet_parser", "&& checksum == 20'hffff", "&& checksum != 20'd0"),
    Mutant("source 64", "packet_parser", "source > 8'd63", "source > 8'd64"),
    Mutant("padding does not count", "packet_parser", " + {15'd0, padcount}", " + {15'd0, padcount & 2'd0}"),
    Mutant("the version of the BTH does not count", "packet_parser", "bth_version != 4'd0 ||", "bth_version == 4'd15 ||"),
    Mutant("padding is not zero", "frame_sender", "k[15:0] >= filled)", "k[15:0] >= covered)"),
    Mutant("one carry of the checksum", "frame_sender",
           "    checksum = {4'd0, checksum[15:0]} + {16'd0, checksum[19:16]};\n"
           "    checksum = {4'd0, checksum[15:0]} + {16'd0, checksum[19:16]};\nend",
           "    checksum = {4'd0, checksum[15:0]};\nend"),
    Mutant("half an ICRC", "frame_sender", "wire straddles = covered[5:0] == 6'd62;", "wire straddles = 1'b0;"),
    Mutant("the sender does not stand still", "frame_sender", "assign slot_read = advance;", "assign slot_read = 1'b1;"),
    Mutant("an open slot is replaced", "slot_rule", "replaces && !slot_is_final", "replaces && !slot_is_final && slot_has_data"),
    Mutant("the position before the first", "slot_rule", "distance == 32'd0 && !slot_is_fresh", "distance == 32'd0"),
    Mutant("two data of one", "slot_rule", "(contributor_class == `FANIN_CLASS_ONE || length", "(length"),
    Mutant("the lowest bit is the highest", "lowest_bit", "for (i = 63; i >= 0; i = i - 1)", "for (i = 0; i < 64; i = i + 1)"),
    Mutant("a slot is read before it is written", "accumulator", "i < LATENCY - 2; i = i + 1) begin\n        if", "i < LATENCY - 3; i = i + 1) begin\n        if"),
    Mutant("beats are given back twice", "accumulator", "(takes && !computes ? ring_beats", "(takes ? ring_beats"),
    Mutant("duplicates count", "engine", "|(missing_now & source_bit) && !differs", "!differs", SWITCH),
    Mutant("a result that is still sent is overwritten", "engine", "replaces && !s_fresh && age < outstanding",
           "replaces && !s_fresh && age < outstanding && 1'b0", SWITCH),
    Mutant("the ring is read while it is in use", "engine", "(state == CONFIG && accumulator_is_idle)", "state == CONFIG", SWITCH),
    Mutant("results before their data", "engine", "settled <= settle == 2'd2;", "settled <= settle == 2'd0;", SWITCH),
    Mutant("the least status counts", "engine", "s_status > known(p_status) ?", "s_status < known(p_status) ?", SWITCH),
    Mutant("LEAVE from anywhere", "engine", "source_joined ? child_address != p_address : !is_leave",
           "source_joined ? child_address != p_address && !is_leave : !is_leave", SWITCH),
    Mutant("data for all", "engine", "is_result && wants[own_bit] && has_data", "is_result && has_data", SWITCH),
    Mutant("NEED proves nothing", "engine", "no_loss = !job_loss[job][40] ||", "no_loss = job_loss[job][40] ||", SWITCH),
    Mutant("any chunk", "engine", "{16'd0, p_length} > job_chunk[job] ||", "p_length > 16'd1025 ||", "engine"),
    Mutant("a refused key is forgotten", "engine", "job_refused[job] <= {1'b1, p_key};", "job_refused[job] <= 33'd0;", "engine"),
    Mutant("silence is not noticed", "engine", "if (child_age > DETECTION_US) begin",
           "if (child_age > DETECTION_US + DETECTION_US) begin", "engine"),
)  # fmt: skip


def folder_of(mutant: Mutant) -> Path:
    """Where a mutant is made."""
    return BUILD / "mutants" / mutant.name.replace(" ", "_")


def make(mutant: Mutant) -> Path:
    """The RTL with the mutant in it."""
    folder = folder_of(mutant) / "rtl"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RTL, folder)
    source = folder / f"{mutant.module}.v"
    source.write_text(source.read_text().replace(mutant.right, mutant.wrong))
    return folder


def is_caught(mutant: Mutant) -> bool:
    """Whether the tests fail. An error of a tool is no catch: it is raised as RuntimeError."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--packets=20000"]
    command += [str(ROOT / "fpga_cosim/tb" / (mutant.test or mutant.module))]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "FANIN_RTL": str(make(mutant))}, capture_output=True, text=True
    )
    if "ToolFailed" in done.stdout or done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.name}: the tests did not run:\n{done.stdout[-3000:]}{done.stderr}")
    return done.returncode == 1


def main() -> int:
    """Try the mutants whose names or modules are given; 1 if one is not caught."""
    wanted = [each for each in MUTANTS if not sys.argv[1:] or any(arg in (each.name, each.module) for arg in sys.argv[1:])]
    alive = 0
    for mutant in wanted:
        caught = is_caught(mutant)
        alive += not caught
        print(f"{'caught' if caught else 'ALIVE ':6}  {mutant.module}: {mutant.name}", flush=True)
        shutil.rmtree(folder_of(mutant), ignore_errors=True)
    print(f"{len(wanted) - alive} of {len(wanted)} caught")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
