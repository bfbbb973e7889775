"""The recipe of docs/several-hosts.md, command by command, on four hosts that Fanin has not made."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.fabric.test_namespaces import needs_namespaces
from tests.hosts import rig
from tests.hosts.rig import Hosts, commands

CHUNKS = {1500: 1024, 9000: 4096}  # bytes of a segment by MTU
PROGRAM = Path(__file__).with_name("program.c")
LAUNCHERS = {"mpirun.openmpi": ("mpicc.openmpi", "program"), "mpiexec.mpich": ("mpicc.mpich", "program.mpich")}


@pytest.fixture(scope="module", params=sorted(CHUNKS), ids=lambda mtu: f"mtu{mtu}")
def four(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    """Four hosts with the devices of the page: NICs, and a switch on the first."""
    if lacking := rig.needs():
        pytest.skip(lacking)
    with rig.hosts(request.param) as made:
        for block in commands("systemctl"):
            made.run(block.text)
        yield made


def without_switch(text: str) -> str:
    """The page says in its comments what a ring leaves out."""
    return re.sub(r"^export FANIN_SWITCHES=[^\n]*\n|^\[\[switch\]\].*\Z", "", text, flags=re.M | re.S)


@pytest.fixture(params=["tree", "ring"])
def route(request: pytest.FixtureRequest, four: Hosts) -> Iterator[str]:
    """The files of the page for a route."""
    file = four.folder / "hosts.toml"
    whole = file.read_text()
    if request.param == "ring":
        file.write_text(without_switch(whole))
    yield request.param
    file.write_text(whole)


def says(route: str, mtu: int) -> str:
    """What log and report say of the way."""
    nics = "10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4"
    way = "below switch 10.0.0.101" if route == "tree" else "for no switch is named above them"
    return rf"route {route}, 4 NICs: {nics},? {way}; segments of {CHUNKS[mtu]} bytes, MTU {mtu}"


@needs_namespaces
def test_the_check_ends_with_a_verified_allreduce(four: Hosts, route: str) -> None:
    (block,) = commands("fabric check")
    said = four.run(block.text).stdout
    assert re.search(rf"allreduce over 4 hosts: every bit is right; {says(route, four.ethernet.mtu)}", said), said


@needs_namespaces
def test_program_of_fanin(four: Hosts, route: str) -> None:
    (block,) = commands("fabric job")
    said = four.run(block.text).stdout
    ranks = re.findall(rf"rank (\d) of 4 in job \d+ \({route}\) {says(route, four.ethernet.mtu)}", said)
    assert sorted(ranks) == ["0", "1", "2", "3"], said


@needs_namespaces
@pytest.mark.mpi
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_mpi_program(four: Hosts, route: str, launcher: str) -> None:
    compiler, name = LAUNCHERS[launcher]
    if lacking := rig.needs(launcher, compiler):
        pytest.skip(f"{lacking} (Debian: libopenmpi-dev openmpi-bin libmpich-dev mpich)")
    subprocess.run([shutil.which(compiler) or compiler, PROGRAM, "-o", four.folder / name], check=True)
    (script,) = commands("with-fanin <<")
    four.run(without_switch(script.text) if route == "ring" else script.text)
    for host in rig.NAMES:
        four.run(f"ssh {host} 'cat > {name} && chmod +x {name}' < {name}")
    (block,) = commands("-hosts $hosts")
    hosts, *lines = block.text.splitlines()
    (line,) = (each for each in lines if launcher in each)
    ended = four.run(f"{hosts}\n{line}")
    assert ended.stdout.count("0 wrong") == 4, ended.stdout + ended.stderr
    assert re.search(rf"fanin: MPI_COMM_WORLD: {says(route, four.ethernet.mtu)}", ended.stderr), ended.stderr
    (offloaded,) = re.findall(r"fanin: Allreduce +(\d+)", ended.stderr)
    assert int(offloaded) > 0


def test_the_page_has_no_other_commands() -> None:
    """All that it lets the user type is run above, but for the installation."""
    blocks = [block for block in blocks_of(rig.PAGE) if block.language == "sh"]
    run = [*commands("systemctl"), *commands("fabric check"), *commands("fabric job"), *commands("with-fanin")]
    assert [block for block in blocks if block not in run] == [blocks[0]]
    assert "pip install" in blocks[0].text
