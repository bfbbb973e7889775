"""An invalid file ends with a named error and the wrong line. Nothing grows."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_cluster.topology import xml_file
from fanin_cluster.topology.machine import TopologyInvalid
from fanin_cluster.topology.reading import read_machine
from fanin_cluster.topology.sysfs import read_sysfs
from tests.cluster.machines import HWLOC_2, NCCL, machine_of

BOMB = """<?xml version="1.0"?>
<!DOCTYPE system [
  <!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">
  <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
]>
<system version="1"><cpu numaid="&b;"/></system>
"""
LONG = "9" * 5000  # more digits than Python converts
OUTSIDE = '<!DOCTYPE system [<!ENTITY passwords SYSTEM "/etc/passwd">]><system>&passwords;</system>'
BAD = {
    "nothing": ("", r"line 1: it is not XML"),
    "text": ("GPU0 NIC0\n", r"line 1: it is not XML"),
    "cut": (NCCL[:800], r"line \d+: it is not XML"),
    "entities": (BOMB, r"line 3: it declares an entity, a"),
    "file from outside": (OUTSIDE, r"line 1: it declares an entity, passwords"),
    "unknown encoding": ('<?xml version="1.0" encoding="klingon"?><system/>', r"line 1: "),
    "too deep": ("<a>" * 100, r"line 1: elements are nested more than 64 deep"),
    "another root": ("<graphs/>", r"line 1: the file begins with <graphs>"),
    "no cpu": ("<system/>", r"line 1: it has no <cpu>"),
    "two hosts": ('<system><cpu numaid="0" host_hash="0x1"/><cpu numaid="0" host_hash="0x2"/></system>', r"2 hosts"),
    "numaid": (NCCL.replace('numaid="1"', 'numaid="one"'), r"line 19: numaid='one' of <cpu> is not a whole number"),
    "busid": (NCCL.replace("0000:20:00.0", "slot 3"), r"line 14: busid='slot 3' is not a PCI address"),
    "speed": (NCCL.replace('speed="10000"', 'speed="fast"'), r"line 17: speed='fast' of <net>"),
    "long number": (NCCL.replace('speed="10000"', f'speed="{LONG}"'), r"line 17: speed='9{40}' of <net>"),
    "count": (NCCL.replace('count="4"', ""), r"line 5: count='' of <nvlink>"),
    "hwloc 1": ("<topology><object type='Machine'/></topology>", r"line 1: it is of hwloc 1"),
    "no machine": ('<topology version="2.0"/>', r"line 1: it has no object of type Machine"),
    "nodeset": (HWLOC_2.replace('nodeset="0x00000002"', 'nodeset="all"'), r"nodeset='all' is not a list"),
    "os_index": (HWLOC_2.replace('type="NUMANode" os_index="1"', 'type="NUMANode"'), r"line 25: os_index=''"),
    "long os_index": (
        HWLOC_2.replace('type="NUMANode" os_index="1"', f'type="NUMANode" os_index="{LONG}"'),
        r"line 25: ",
    ),
    "pci_type": (HWLOC_2.replace("1200 [1002:74a1]", "a GPU"), r"line 27: pci_type='a GPU"),
    "pci_busid": (HWLOC_2.replace('pci_busid="0000:81:00.0"', ""), r"line 27: pci_busid=''"),
    "pci_link_speed": (HWLOC_2.replace('"31.5"', '"fast"', 1), r"line 9: pci_link_speed='fast'"),
    "no finite number": (HWLOC_2.replace('"31.5"', '"1e999"', 1), r"line 9: pci_link_speed='1e999'"),
}


@pytest.mark.parametrize("name", BAD)
def test_file_is_refused(name: str, tmp_path: Path) -> None:
    text, expected = BAD[name]
    with pytest.raises(TopologyInvalid, match=expected) as raised:
        machine_of(text, tmp_path)
    assert raised.value.remedy
    assert str(tmp_path / "machine.xml") in raised.value.cause


def test_long_numbers_that_do_not_matter(tmp_path: Path) -> None:
    """They count as unknown, like other text."""
    machine = machine_of(NCCL.replace('link_width="16"', f'link_width="{LONG}"'), tmp_path)
    assert machine.gpus[0].bus_rate == 0
    machine = machine_of(HWLOC_2.replace('osdev_type="3"', f'osdev_type="{LONG}"'), tmp_path)
    assert machine.nics[0].devices == ("ib0",)


def test_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TopologyInvalid, match="can not be read: No such file"):
        read_machine(tmp_path / "none.xml")
    with pytest.raises(TopologyInvalid, match="can not be read: Is a directory"):
        read_machine(tmp_path)
    with pytest.raises(TopologyInvalid, match="can not be read"):
        read_sysfs(tmp_path)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_file, "MAX_ELEMENTS", 5)
    with pytest.raises(TopologyInvalid, match="more than 5 elements"):
        machine_of(NCCL, tmp_path)
    monkeypatch.setattr(xml_file, "MAX_BYTES", 1 << 20)
    with pytest.raises(TopologyInvalid, match="more than 1 MiB"):
        machine_of(" " * (1 << 20) + NCCL, tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A file with a piece replaced or removed is read, or ends with the named error; nothing else is raised."""
    text = data.draw(st.sampled_from([NCCL, HWLOC_2]))
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, min(len(text), first + 40)))
    piece = data.draw(
        st.sampled_from(["", '"', "0", "<pci/>", "PCIDev", "gpu", "\x00", "-1", '<object type="PCIDev"/>'])
    )
    try:
        machine = machine_of(text[:first] + piece + text[last:], tmp_path_factory.mktemp("damaged"))
    except TopologyInvalid:
        return
    assert all(each.name for each in machine.root.walk())
