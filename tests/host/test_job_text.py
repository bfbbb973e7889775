"""A job's file: the library reads what `Job.to_text` writes, and names what it refuses."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fanin import Job, JobNode, errors
from fanin.driver import complaint, ffi, library
from fanin_wire.job_text import WORDS

TEXT = """\
# a job of Fanin; docs/collectives.md says what the words mean
jid 305419896
key 4711
route tree
chunk 0
slots 256
reproducible none
wide 0
rank 127.77.0.1 0 127.77.0.100
rank 127.77.0.2 3 127.77.0.100
rank 127.77.0.1 0 127.77.0.100
"""
JOB = Job(
    305419896,
    4711,
    (JobNode("127.77.0.1", (0, 2), ("127.77.0.100",)), JobNode("127.77.0.2", (1,), ("127.77.0.100",), 2)),
    "tree",
)
U32_MAX = 0xFFFFFFFF


def read(folder: Path, text: str | bytes) -> Job:
    path = folder / "job.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Job.from_file(path)


def test_what_is_written(tmp_path: Path) -> None:
    assert JOB.to_text() == TEXT
    assert read(tmp_path, TEXT) == JOB


def test_comments_order_and_spaces_do_not_matter(tmp_path: Path) -> None:
    lines = [f" \t{line.replace(' ', '  ')}  # a comment\r" for line in reversed(TEXT.splitlines())]
    assert read(tmp_path, "\n\n".join([*lines, ""])) == JOB


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Below one switch, or a ring; some nodes in rings below a switch that does not offload."""
    order = draw(st.permutations(range(draw(st.integers(1, 12)))))
    cuts = draw(st.sets(st.integers(1, len(order)), max_size=5)) | {0, len(order)}
    blocks = [tuple(sorted(order[begin:end])) for begin, end in zip(sorted(cuts), sorted(cuts)[1:], strict=False)]
    switches = draw(st.sampled_from([(), ("10.1.0.1",), ("10.2.0.1", "10.1.0.1")]))
    rings = st.none() | st.integers(0, 2)
    nodes = [JobNode(f"10.0.0.{n}", ranks, switches, draw(rings)) for n, ranks in enumerate(sorted(blocks), start=1)]
    reproducible = draw(st.sampled_from(["none", "run", "shape"]))
    return Job(
        jid=draw(st.integers(1, U32_MAX)),
        key=draw(st.integers(0, U32_MAX)),
        nodes=tuple(nodes),
        route=draw(st.sampled_from(["auto", "ring"])),
        chunk=1 << draw(st.integers(0, 31)),
        slots=1 << draw(st.integers(2, 31)),
        reproducible=reproducible,
        wide=reproducible != "shape" and draw(st.booleans()),  # "shape" implies it
    )


@given(jobs())
def test_what_is_written_is_read(job: Job) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert read(Path(folder), job.to_text()) == job


def test_shape_sends_wide_whatever_is_said(tmp_path: Path) -> None:
    found = [read(tmp_path, replace(JOB, reproducible="shape", wide=wide).to_text()) for wide in (False, True)]
    assert found[0] == found[1]
    assert found[0].sends_wide


REFUSALS = [
    ("jid 305419896", "jid 4294967296", "'4294967296' is not a number below 4294967296 (line 2 of"),
    ("jid 305419896", "jid 184467440737095516160", "'184467440737095516160' is not a number below"),
    ("jid 305419896", "jid -1", "'-1' is not a number"),
    ("jid 305419896", "jid +1", "'+1' is not a number"),
    ("jid 305419896", "jid 0x10", "'0x10' is not a number"),
    ("jid 305419896", "jid", "'' is not a number"),
    ("jid 305419896", "jid # 5", "'' is not a number"),
    ("jid 305419896", "jid 0", "jid is 0; give another number"),
    ("key 4711", f"key {'0' * 47}1", "'1' is one word too many (line 3 of"),
    ("key 4711", "key 4711 7", "'7' is one word too many (line 3 of"),
    ("key 4711", "key 4711\nkey 4711", "'key' is given twice (line 4 of"),
    ("route tree", "route trees", "'trees' is not a value of 'route' (line 4 of"),
    ("route tree", "route", "'' is not a value of 'route'"),
    ("reproducible none", "reproducible always", "'always' is not a value of 'reproducible'"),
    ("wide 0", "wide true", "'true' is not a value of 'wide'"),
    ("wide 0", "width 0", "'width' is not a field of a job (line 8 of"),
    ("wide 0", f"{'w' * 60} 0", f"'{'w' * 47}' is not a field of a job"),
    ("# a job", "{} a job", "'{}' is not a field of a job (line 1 of"),
    ("127.77.0.2 3 ", "127.77.0.2 ", "'127.77.0.100' is not a number below 4294967296 (line 10 of"),
    ("127.77.0.2 3", "127.77.0.2 ring", "'ring' is not a number"),
    ("127.77.0.2 3 127.77.0.100", "127.77.0.2", "'' is not a number"),
    ("127.77.0.2 3 127.77.0.100", "", "'' is not an IPv4 address"),
    ("127.77.0.2", "127.77.0.256", "'127.77.0.256' is not an IPv4 address"),
    ("127.77.0.2", "localhost", "'localhost' is not an IPv4 address"),
    ("127.77.0.2", "0.0.0.0", "'0.0.0.0' is not the address of a NIC"),
    ("3 127.77.0.100", "3 127.77.0", "'127.77.0' is not an IPv4 address"),
    ("3 127.77.0.100", f"3{' 10.0.0.1' * 8} 10.0.0.9", "'10.0.0.9' is one switch too many; the limit is 8 (line 10 of"),
    ("wide 0", f"wide 0{' ' * 512}", "the line is longer than 510 bytes, has a byte 0, or does not end (line 8 of"),
    ("wide 0", "wide 0\0", "the line is longer than 510 bytes, has a byte 0, or does not end (line 8 of"),
    (TEXT, TEXT[:-1], "the line is longer than 510 bytes, has a byte 0, or does not end (line 11 of"),
    ("wide 0", "\n" * (1 << 20), "the file is too long (line 1048577 of"),
    *((f"{word} ", "# ", f"'{word}' is missing in") for word in (*WORDS, "wide", "rank")),
    (TEXT, "", "'jid' is missing in"),
    ("127.77.0.2", "127.77.0.1", "two ranks of node 127.77.0.1 have different paths"),
    ("slots 256", "slots 3", "slots is 3, not a power of two"),
]


@pytest.mark.parametrize(("old", "new", "words"), REFUSALS, ids=[words[:40] for _, _, words in REFUSALS])
def test_what_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(errors.InvalidRequest) as caught:
        read(tmp_path, TEXT.replace(old, new))
    assert f"job description: {words}" in str(caught.value)
    assert "`fanin run` writes one" in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidRequest, match="'\ufffd\ufffd' is not a field of a job"):
        read(tmp_path, b"\xff\xfe\n")


@pytest.mark.parametrize(("name", "words"), [("nothing", "No such file or directory"), ("", "Is a directory")])
def test_a_file_that_can_not_be_read(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=f"{tmp_path / name} can not be read: {words}"):
        Job.from_file(tmp_path / name)


def test_a_file_that_never_ends() -> None:
    with pytest.raises(errors.InvalidRequest, match="byte 0"):
        Job.from_file("/dev/zero")


def job_of_environment() -> tuple[Any, int, int]:
    """A struct fanin_job, the rank, and the status."""
    job, rank = ffi.new("struct fanin_job *"), ffi.new("uint32_t *")
    status = library().fanin_job_of_environment(job, rank)
    return job, rank[0], status


def test_a_rank_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(tmp_path, TEXT)
    monkeypatch.setenv("FANIN_JOB", str(tmp_path / "job.txt"))
    monkeypatch.setenv("FANIN_RANK", "2")
    job, rank, status = job_of_environment()
    assert (status, rank, Job.of(job), Job.from_environment()) == (0, 2, JOB, JOB)
    library().free(job.places)


@pytest.mark.parametrize("number", ["3", "-1", "1 2", "one", ""])
def test_a_rank_that_the_job_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    read(tmp_path, TEXT)
    monkeypatch.setenv("FANIN_JOB", str(tmp_path / "job.txt"))
    monkeypatch.setenv("FANIN_RANK", number)
    job, _, status = job_of_environment()
    assert status
    assert complaint() == f"FANIN_RANK is '{number}', not one of the 3 ranks of the job"
    assert not job.places


@pytest.mark.parametrize("missing", ["FANIN_JOB", "FANIN_RANK"])
def test_an_environment_that_lacks_something(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in ("FANIN_JOB", "FANIN_RANK"):
        monkeypatch.setenv(name, "0")
    monkeypatch.delenv(missing)
    assert job_of_environment()[2]
    assert f"the environment lacks {missing}; start the program with `fanin run" in complaint()


def test_a_place() -> None:
    """As MPI programs read it from a fabric's file: the address may be left open."""
    place = ffi.new("struct fanin_place *")
    assert library().fanin_place_of_text(b"0.0.0.0 7 10.0.0.1 10.0.0.2 # to the top\n", place) == 0
    assert (place.address, place.ring, place.hops) == (0, 7, 2)
    assert list(place.hop) == [0x0A000001, 0x0A000002, 0, 0, 0, 0, 0, 0]
    assert library().fanin_place_of_text(b"", place) != 0
    assert complaint() == "'' is not an IPv4 address"
    assert place.ring == 7
