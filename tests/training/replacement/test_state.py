"""The state for a replacement: everything that a training has, and nothing that runs code."""

import collections
import pathlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fanin_train.packing import WrongState, pack, unpack
from fanin_train.replacement.recovery import State, Training, WrongWorkers

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 200), 1 << 200)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | arrays(np.float32, array_shapes(min_side=0), elements=st.integers(-9, 9))
)
STATES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner))


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@settings(max_examples=30)
@given(STATES)
def test_any_state_comes_back(state: Any) -> None:
    blocks = pack(state)
    assert all(block.dtype == np.uint8 and block.flags.writeable and block.ndim == 1 for block in blocks)
    assert equal(state, unpack([block.copy() for block in blocks]))


def test_arrays_go_without_a_copy() -> None:
    array = np.zeros(1000)
    assert any(np.shares_memory(block, array) for block in pack({"weights": array}))


def test_order_of_a_dictionary_is_kept() -> None:
    state = collections.OrderedDict(b=1, a=2)
    assert list(unpack(pack(state))) == ["b", "a"]


@pytest.mark.parametrize(
    "state", [pathlib.Path("x"), {"f": print}, lambda: None, np.array([pathlib.Path("x")], object)]
)
def test_other_types_are_refused(state: Any) -> None:
    with pytest.raises(WrongState):
        unpack(pack(state))


def test_random_numbers_and_arrays_are_put_back() -> None:
    random, array = np.random.default_rng(1), np.arange(3.0)
    state = State({"random": random, "array": array, "steady": np.zeros(1)}, steady=["steady"])
    copies = state.copies()
    assert copies.keys() == {"random", "array"}
    first = random.random(5)
    array += 1
    state.put_back(unpack(pack(copies)))
    assert np.array_equal(random.random(5), first)
    assert array.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("parts", "steady", "words"),
    [({"a": 5}, (), "part a is a int"), ({"a": np.zeros(1)}, ("b",), "no part is named b")],
)
def test_wrong_parts_are_named(parts: Any, steady: Any, words: str) -> None:
    with pytest.raises(WrongState, match=words):
        State(parts, steady)


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make .venv/.with-torch")
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "half": torch.ones(2, dtype=torch.bfloat16),
    }
    state["random"] = torch.get_rng_state()
    back = unpack([block.copy() for block in pack(state)])
    assert back["half"].dtype == torch.bfloat16
    assert torch.equal(back["random"], state["random"])
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(back["model"])
    assert torch.equal(other.weight, model.weight)
    torch.optim.Adam(other.parameters()).load_state_dict(back["optimizer"])


def test_workers_that_the_pool_has_not() -> None:
    class Pool:
        rank, size = 0, 2

    with pytest.raises(WrongWorkers, match="3 workers in a pool of 2"):
        Training(Pool(), 3, {})  # type: ignore[arg-type]
