"""The parameters of a module of PyTorch as a flat array: a module that has changed is refused."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make .venv/.with-torch")

from fanin_train.errors import TrainingError  # noqa: E402
from fanin_train.staleness.data_parallel import FlatParameters  # noqa: E402


def model(dtype: str = "float32") -> torch.nn.Module:
    return torch.nn.Linear(3, 2).to(getattr(torch, dtype))


def backward(module: torch.nn.Module) -> None:
    module(torch.ones(1, 3, dtype=next(module.parameters()).dtype)).sum().backward()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_gradients_and_values_go_both_ways(dtype: str) -> None:
    """Also after zero_grad, which removes the gradients; gradients add up until they are cleared."""
    module = model(dtype)
    flat = FlatParameters(module)
    for expected in (1, 2):
        backward(module)
        flat.fetch()
        assert (flat.gradients == expected).all()
    flat.values[:] = 7
    flat.give()
    flat.clear()
    assert all((each == 7).all() for each in module.parameters())
    module.zero_grad()
    for _ in range(2):
        backward(module)
        flat.fetch()
        assert (flat.gradients == 1).all()
        flat.clear()


def test_a_sparse_gradient() -> None:
    module = torch.nn.Embedding(4, 2, sparse=True)
    flat = FlatParameters(module)
    module.zero_grad()
    module(torch.tensor([1])).sum().backward()
    flat.fetch()
    assert flat.gradients.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("to", ["float64", "other memory"])
def test_a_module_that_is_moved_is_refused(dtype: str, to: str) -> None:
    module = model(dtype)
    flat = FlatParameters(module)
    if to == "float64":
        module.double()
    for each in module.parameters():
        each.data = each.data.clone()  # as a move to a GPU
    backward(module)
    with pytest.raises(TrainingError, match="has been moved; move the module before"):
        flat.fetch()


def test_values_that_are_loaded_are_refused_where_they_would_be_lost() -> None:
    module = model("bfloat16")
    flat = FlatParameters(module)
    module.load_state_dict(model("bfloat16").state_dict())
    backward(module)
    with pytest.raises(TrainingError, match="have been changed; load"):
        flat.fetch()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_parameters_that_are_replaced_are_refused(dtype: str) -> None:
    module = model(dtype)
    flat = FlatParameters(module)
    module.load_state_dict(model(dtype).state_dict(), assign=True)
    backward(module)
    with pytest.raises(TrainingError, match="are not those that were wrapped; load"):
        flat.fetch()


def test_modules_of_other_kinds_are_refused() -> None:
    for wrong in (torch.nn.Sequential(), model("float16"), torch.nn.Sequential(model(), model("float64"))):
        with pytest.raises(TrainingError, match="parameters of "):
            FlatParameters(wrong)
