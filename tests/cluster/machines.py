"""Small machines in every format, written by hand."""

from pathlib import Path

from fanin_cluster.topology.machine import Machine
from fanin_cluster.topology.reading import read_machine

# Two NUMA nodes. On the first a switch with two GPUs and a NIC, and a GPU of its own; on the second a GPU.
NCCL = """<system version="2">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" vendor="0x10de" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:AB:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" vendor="0x10de" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"/>
      </pci>
      <pci busid="0000:13:00.0" class="0x020700" vendor="0x15b3" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1234" maxconn="262144" gdr="1"/></nic>
      </pci>
    </pci>
    <pci busid="0000:20:00.0" class="0x030200" vendor="0x10de" link_speed="8 GT/s" link_width="16">
      <gpu dev="2" sm="80" rank="2" gdr="1"/>
    </pci>
    <nic><net name="eth0" dev="1" speed="10000" port="0" guid="0x1" maxconn="65536" gdr="0"/></nic>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:ab:00.0" class="0x030200" vendor="0x10de" link_speed="8 GT/s" link_width="16">
      <gpu dev="3" sm="80" rank="3" gdr="1"><nvlink target="0000:11:00.0" count="4" tclass="0x030200"/></gpu>
    </pci>
  </cpu>
</system>
"""

# As Azure ships them: neither gpu nor nic, only the class tells the kind. Each function has its own domain.
NCCL_BY_CLASS = """<system version="1">
  <cpu numaid="0">
    <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
  </cpu>
  <cpu numaid="1">
    <pci busid="0002:00:00.0" class="0x120000" link_speed="16 GT/s" link_width="16"/>
  </cpu>
</system>
"""

# A host bridge with a switch (GPU, NIC) and a root port (GPU); a second host bridge of the same node; one of another.
HWLOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="{version}">
  <object type="Machine" os_index="0" nodeset="0x00000003">
    <object type="Package" os_index="0" nodeset="0x00000001">
      <object type="NUMANode" os_index="0" nodeset="0x00000001"/>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-15]">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:00:01.0" pci_type="0604 [8086:3c03] [0000:0000] 07 00">
          <object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0302 [10de:20b0]" pci_link_speed="31.5"/>
          <object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0207 [15b3:101b]" pci_link_speed="31.5">
            <object type="OSDev" name="ib0" osdev_type="{network}"/>
            <object type="OSDev" name="mlx5_0" osdev_type="{openfabrics}"/>
          </object>
        </object>
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:00:02.0" pci_type="0604 [8086:3c04] [0000:0000] 07 00">
          <object type="PCIDev" pci_busid="0000:04:00.0" pci_type="0302 [10de:20b0] [10de:0000] a1 00"/>
        </object>
        <object type="PCIDev" pci_busid="0000:00:1f.0" pci_type="0300 [1a03:2000] [0000:0000] 30 00"/>
      </object>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[40-45]">
        <object type="PCIDev" pci_busid="0000:41:00.0" pci_type="0302 [10de:20b0] [10de:0000] a1 00"/>
      </object>
    </object>
    <object type="Package" os_index="1" nodeset="0x00000002">
      <object type="NUMANode" os_index="1" nodeset="0x00000002"/>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[80-85]">
        <object type="PCIDev" pci_busid="0000:81:00.0" pci_type="1200 [1002:74a1] [1002:0000] 00 00"/>
        <object type="PCIDev" pci_busid="0000:82:00.0" pci_type="0200 [8086:1521] [0000:0000] 01 00">
          <object type="OSDev" name="eth0" osdev_type="{network}"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"""
HWLOC_2 = HWLOC.format(version="2.0", network=2, openfabrics=3)
HWLOC_3 = HWLOC.format(version="3.0", network=16, openfabrics=32)


def machine_of(text: str, folder: Path, name: str = "machine.xml") -> Machine:
    path = folder / name
    path.write_text(text)
    return read_machine(path)


def write_function(root: Path, place: str, **files: str) -> Path:
    """Make a PCI function as in sysfs: its folder below devices, its files, its link below bus/pci/devices."""
    folder = root / "devices" / place
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    link = root / "bus/pci/devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def write_sysfs(root: Path) -> None:
    """A machine with a switch (GPU, NIC with two VFs), a GPU on another host bridge, and a NIC of an unknown node."""
    (root / "devices/system/node").mkdir(parents=True)
    (root / "devices/system/node/online").write_text("0-1\n")
    bridge = {"class": "0x060400", "vendor": "0x10b5", "numa_node": "1"}
    port, switch = "pci0000:50/0000:50:01.0", "pci0000:50/0000:50:01.0/0000:51:00.0"
    write_function(root, port, **bridge)
    write_function(root, switch, **bridge)
    gpu = {"class": "0x030200", "vendor": "0x10de", "numa_node": "1"}
    speed = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16"}
    write_function(root, f"{switch}/0000:52:00.0", **gpu, **speed)
    nic = {"class": "0x020700", "vendor": "0x15b3", "numa_node": "1"}
    physical = write_function(root, f"{switch}/0000:53:00.0", **nic, **speed)
    (physical / "infiniband/mlx5_0/ports/1").mkdir(parents=True)
    (physical / "infiniband/mlx5_0/ports/1/rate").write_text("200 Gb/sec (4X HDR)\n")
    (physical / "net/ib0").mkdir(parents=True)
    for number in (1, 2):
        virtual = write_function(root, f"{switch}/0000:53:00.{number}", **nic)
        (virtual / "physfn").symlink_to(physical)
        (virtual / f"infiniband/mlx5_{number}").mkdir(parents=True)
    write_function(root, "pci0000:60/0000:60:00.0", **gpu)
    other = write_function(root, "pci0000:70/0000:70:00.0", **{**nic, "class": "0x020000", "numa_node": "-1"})
    (other / "net/eth0").mkdir(parents=True)
    (other / "net/eth0/speed").write_text("25000\n")
