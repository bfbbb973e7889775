"""Headers of messages of tensors from the other node."""

import json
from typing import Any

import numpy as np
import pytest

from fanin_cluster.handoff.channel import HandoffFailed
from fanin_cluster.handoff.plan import HandoffInvalid
from fanin_cluster.handoff.stage import Entry, bytes_of, entries_of, tensor_of

CAPACITY = 1 << 10


def header(size: Any, *tensors: Any) -> bytes:
    return json.dumps({"size": size, "tensors": tensors}).encode().ljust(4096, b"\0")


def test_what_a_header_says() -> None:
    size, entries = entries_of(header(80, ["<f4", [2, 2], 0], ["|u1", [16], 64]), CAPACITY)
    assert (size, entries) == (80, [Entry("<f4", (2, 2), 0), Entry("|u1", (16,), 64)])


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"[]",
        header("x"),
        header(64, ["|O", [1], 0]),
        header(64, ["torch.nothing", [1], 0]),
        header(64, ["torch.save", [1], 0]),
        header(64, ["no type", [1], 0]),
        header(64, ["<f4"]),
    ],
)
def test_a_header_that_can_not_be_read(wrong: bytes) -> None:
    with pytest.raises(HandoffFailed, match="the header of a message can not be read"):
        entries_of(wrong, CAPACITY)


@pytest.mark.parametrize(
    "wrong",
    [
        header(CAPACITY + 1),
        header(-1),
        header(64, ["<f4", [17], 0]),
        header(64, ["<f4", [-1, -1], 0]),
        header(64, ["<f4", [1], -4]),
        header(64, ["<f4", [1], 61]),
    ],
)
def test_tensors_that_are_not_in_the_message(wrong: bytes) -> None:
    with pytest.raises(HandoffFailed, match="does not hold its tensors"):
        entries_of(wrong, CAPACITY)


def test_tensors_of_torch() -> None:
    """Also of types that numpy lacks, and without a copy if the tensor is contiguous."""
    torch = pytest.importorskip("torch", reason="torch is missing: make .venv/.with-torch")
    for dtype in (torch.bfloat16, torch.float32, torch.int64, torch.bool):
        tensor = torch.arange(6).reshape(2, 3).to(dtype)
        kind, data = bytes_of(tensor)
        assert (kind, data.ctypes.data) == (str(dtype), tensor.data_ptr())
        again = tensor_of(Entry(kind, (2, 3), 0), data)
        assert again.dtype == dtype
        assert again.data_ptr() == tensor.data_ptr()
        assert torch.equal(again, tensor)
        assert torch.equal(tensor_of(Entry(kind, (3, 2), 0), bytes_of(tensor.T)[1]), tensor.T)
    assert tensor_of(Entry("torch.float16", (0, 3), 0), np.zeros(0, np.uint8)).shape == (0, 3)
    with pytest.raises(HandoffInvalid, match="a tensor without data"):
        bytes_of(torch.empty(3, device="meta"))


@pytest.mark.parametrize("wrong", [7, np.array([None]), np.zeros(2, "i4,f4")])
def test_what_is_no_tensor(wrong: Any) -> None:
    with pytest.raises(HandoffInvalid, match="give numpy arrays of numbers"):
        bytes_of(wrong)
