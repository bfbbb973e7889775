"""Payloads of CONFIG, read beat by beat: right ones, short ones, and ones with one impossible field."""

from typing import Any

import pytest

from fanin_reference import spec
from fpga_cosim.tb.steps import Steps, number
from fpga_cosim.tb.verilated import Module

ADDRESS, SOURCE, BEAT = 0x0A000001, 3, 64
BODY = {"boot_id": 0x1122334455667788, "digest_high": 0x99AABBCCDDEEFF00, "digest_low": 0x123456789ABCDEF0}
BODY |= {"slots": 8, "window": 4, "chunk": 1024, "route": 1, "hops": 1, "flags": 2, "last_lane": 5}
MAPPED = 0xFFFF << 32


def hop(address: int = ADDRESS, mask: int = 0b1010, bit: int = SOURCE, prefix: int = MAPPED) -> bytes:
    return spec.HOP.pack({"address": prefix | address, "mask": mask, "bit": bit})


def read(payload: bytes, length: int | None = None) -> tuple[str, Any]:
    """How the reading ends, and the outputs one clock later."""
    steps = Steps(Module("config_reader"), own_address=ADDRESS, source=SOURCE)
    steps.keep(length=len(payload) if length is None else length)
    steps.step(starts=1)
    assert not steps.step()["reads"]  # until the ring is free
    data = 0
    for _ in range(10):
        seen = steps.step(ring_is_free=1, ring_data=data)
        if seen["fails"] or seen["is_done"]:
            return "fails" if seen["fails"] else "done", steps.step()
        beat = payload[BEAT * int(seen["beat"]) :][:BEAT]
        data = int.from_bytes(beat, "little")
    raise AssertionError("no end")


@pytest.mark.parametrize("hops", [1, 2, 3, 8])
def test_fields(hops: int) -> None:
    others = [hop(0x0A000100 + number, 1 << number, number) for number in range(1, hops)]
    end, seen = read(spec.CONFIG.pack(BODY | {"hops": hops}) + hop() + b"".join(others))
    assert (end, seen["is_wrong"]) == ("done", 0)
    expected = {"boot": BODY["boot_id"], "digest": BODY["digest_high"] << 64 | BODY["digest_low"], "mask": 0b1010}
    expected |= {name: BODY[name] for name in ("slots", "window", "chunk", "flags", "route")}
    assert {name: number(seen[name]) for name in expected} == expected
    assert (seen["hops"], seen["lane"]) == (hops, BODY["last_lane"])


@pytest.mark.parametrize(
    ("body", "first", "second"),
    [
        ({"route": 3}, {}, {}),
        ({"slots": 1}, {}, {}),
        ({"slots": 6}, {}, {}),
        ({"window": 0}, {}, {}),
        ({"chunk": 0}, {}, {}),
        ({"flags": 8}, {}, {}),
        ({}, {"address": ADDRESS + 1}, {}),
        ({}, {"bit": 1}, {}),
        ({}, {"mask": 0b0110}, {}),
        ({}, {"prefix": 0}, {}),
        ({}, {}, {"prefix": 0}),
        ({}, {}, {"bit": 64}),
        ({}, {}, {"mask": 0}),
    ],
)
def test_what_can_not_be_is_wrong(body: dict[str, int], first: dict[str, int], second: dict[str, int]) -> None:
    end, seen = read(spec.CONFIG.pack(BODY | {"hops": 2} | body) + hop(**first) + hop(**second))
    assert (end, seen["is_wrong"]) == ("done", 1)


@pytest.mark.parametrize(("hops", "missing"), [(0, 0), (9, 0), (1, 1), (3, 32)])
def test_a_path_that_does_not_fit(hops: int, missing: int) -> None:
    payload = spec.CONFIG.pack(BODY | {"hops": hops}) + hop() * hops
    assert read(payload, len(payload) - missing)[0] == "fails"
