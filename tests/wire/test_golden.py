"""The golden vectors equal the output of the oracle, are complete, and have the stated meaning."""

import numpy as np
import pytest

from fanin_wire import icrc
from fanin_wire.datatypes import datatype_by_code
from fanin_wire.fields import ICRC_SIZE, IPV4_UDP_SIZE, TRANSPORT_SIZE, Flag, Opcode
from fanin_wire.golden import FOLDER, Vector, vector, vectors

from .make_vectors import FILES, file_text

EVERY_VECTOR = pytest.mark.parametrize("golden", vectors(), ids=lambda golden: golden.name)


@pytest.mark.parametrize("name", FILES)
def test_file_equals_the_output_of_the_oracle(name):
    assert (FOLDER / f"{name}.toml").read_text() == file_text(*FILES[name])


def test_no_other_files():
    assert {path.stem for path in FOLDER.iterdir()} == set(FILES)


def test_names_are_unique():
    names = [golden.name for golden in vectors()]
    assert len(names) == len(set(names))


def test_every_opcode_has_a_vector():
    assert set(Opcode) <= {golden.value("BTH", "opcode") for golden in vectors()}


@EVERY_VECTOR
def test_lengths_agree(golden: Vector):
    padding = golden.value("BTH", "padcount")
    assert int.from_bytes(golden.packet[2:4]) == len(golden.packet)
    assert int.from_bytes(golden.packet[24:26]) == 8 + len(golden.datagram)
    assert len(golden.datagram) % 4 == 0
    assert padding == -len(golden.payload) % 4


@EVERY_VECTOR
def test_icrc_is_right(golden: Vector):
    assert icrc.verify(golden.packet)


@EVERY_VECTOR
def test_payload_is_where_it_is_said_to_be(golden: Vector):
    end = len(golden.packet) - 4 - golden.value("BTH", "padcount")
    assert golden.packet[end - len(golden.payload) : end] == golden.payload


@pytest.mark.parametrize(
    "golden", [golden for golden in vectors() if "CETH" in golden.headers], ids=lambda golden: golden.name
)
def test_length_of_the_ceth_is_what_is_behind_it(golden: Vector):
    behind = len(golden.packet) - IPV4_UDP_SIZE - TRANSPORT_SIZE - ICRC_SIZE - golden.value("BTH", "padcount")
    assert golden.value("CETH", "length") == behind
    assert bool(golden.value("CETH", "flags") & Flag.HAS_DATA) == bool(golden.payload)


@pytest.mark.parametrize("golden", [golden for golden in vectors() if golden.elements], ids=lambda golden: golden.name)
def test_elements_are_the_payload(golden: Vector):
    datatype = datatype_by_code(golden.value("CETH", "dtype"))
    assert np.array(golden.elements, datatype.numpy).tobytes() == golden.payload


@pytest.mark.parametrize("index", range(3))
def test_segment_index_is_the_ip_identification(index: int):
    golden = vector(f"super_packet_segment_{index}")
    assert golden.value("CETH", "segment_index") == index == int.from_bytes(golden.packet[4:6])


def test_unknown_name():
    with pytest.raises(KeyError, match="no golden vector is called nothing"):
        vector("nothing")
