"""Equal bits of parameters where required, otherwise the sum of all gradients."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fanin_train.errors import TrainingError
from fanin_train.staleness.messages import Apply, Contribution, Rules, by_synchronisation, literal, repaired
from fanin_train.staleness.replica import SGD, Adam, Optimiser, Replica
from fanin_train.staleness.simulation.cluster import Cluster
from fanin_train.staleness.simulation.learning import Learner, Task, synchronous, task
from fanin_train.staleness.simulation.scenario import Events, Network, Pauses, Scenario

TASK = task("drawn", "mlp")
NODES, LAST, SEED = 4, 12, 5
SCENE = Scenario(NODES, 0.1, Network(0.02, jitter=2.0, reorders=True), Pauses(0.2), duration=600, last=LAST, seed=SEED)
OPTIMISERS: list[Callable[[], Optimiser]] = [SGD, lambda: SGD(0.05, momentum=0.9), Adam]


def trained(scenario: Scenario, rules: Rules, optimiser: Callable[[], Optimiser] = SGD) -> list[np.ndarray]:
    """The parameters of all remaining nodes, after all iterations."""
    cluster = Cluster(scenario, rules, lambda rank: Learner(rank, TASK, optimiser(), SEED))
    cluster.run()
    assert cluster.is_complete()
    learners = [worker for rank, worker in cluster.workers.items() if rank not in cluster.gone]
    return [learner.replica.parameters for learner in learners if isinstance(learner, Learner)]


def is_equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("apply", Apply)
def test_bound_zero_is_synchronous_training(optimiser: Callable[[], Optimiser], apply: Apply) -> None:
    """Bit for bit, on every node, for any delay and order of the network."""
    expected = synchronous(TASK, optimiser, NODES, LAST, SEED)
    for found in trained(SCENE, repaired(0, apply), optimiser):
        assert is_equal(found, expected)


def test_the_comparison_can_fail() -> None:
    expected = synchronous(TASK, SGD, NODES, LAST, SEED)
    assert not any(is_equal(found, expected) for found in trained(SCENE, repaired(1), SGD))


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_fixed_steps_give_the_same_bits_whatever_the_network_does(optimiser: Callable[[], Optimiser]) -> None:
    fixed = repaired(3, Apply.FIXED)
    one = trained(SCENE, fixed, optimiser)
    calm = replace(SCENE, network=Network(0.001), pauses=Pauses(), seed=99)
    other = trained(calm, fixed, optimiser)
    assert all(is_equal(each, one[0]) for each in [*one, *other])


def test_one_seed_gives_one_run() -> None:
    for one, other in zip(trained(SCENE, repaired(3)), trained(SCENE, repaired(3)), strict=True):
        assert is_equal(one, other)


def test_every_gradient_is_applied_once_on_every_node() -> None:
    """By plain descent all replicas end at the same parameters, but for rounding in another order."""
    replicas = trained(SCENE, repaired(4))
    for each in replicas[1:]:
        np.testing.assert_allclose(each, replicas[0], atol=1e-5)


class Counting:
    """Counts how often each gradient is applied: each is a one at its own place."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.counts = np.zeros((NODES, LAST + 1))

    def gradient(self, number: int, nodes: int) -> tuple[int, int]:
        return self.rank, number

    def step(self, contributions: tuple[Contribution, ...]) -> None:
        for each in contributions:
            self.counts[each.gradient] += 1

    def content(self) -> np.ndarray:
        return self.counts.copy()

    def adopt(self, content: np.ndarray, contributions: tuple[Contribution, ...]) -> None:
        self.counts[:] = content
        self.step(contributions)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("form", [repaired, by_synchronisation])
def test_adopted_parameters_lack_nothing_and_have_nothing_twice(form: Callable[[int], Rules], seed: int) -> None:
    """Without loss: all gradients of all nodes, once, though parameters of the slowest replace those of the others."""
    scenario = replace(SCENE, network=Network(0.05, jitter=1.0, duplication=0.2), seed=seed)
    cluster = Cluster(scenario, form(2), Counting)
    cluster.run()
    for worker in cluster.workers.values():
        assert isinstance(worker, Counting)
        assert (worker.counts[:, 1:] == 1).all(), worker.counts


@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_joins_gets_every_gradient_once(seed: int) -> None:
    scenario = replace(SCENE, network=Network(0.05, jitter=1.0), events=Events(joins={3: 1.2}), seed=seed)
    cluster = Cluster(scenario, repaired(2), Counting)
    cluster.run()
    first = cluster.nodes[3].order
    assert first == LAST
    for worker in cluster.workers.values():
        assert isinstance(worker, Counting)
        assert (worker.counts[:3, 1:] == 1).all(), worker.counts
        own = worker.counts[3, 1:]
        assert 0 < own.sum() < LAST, "it has joined in the middle"
        assert (np.diff(own) >= 0).all()
        assert own.max() == 1


def test_the_others_go_on_after_a_death_and_without_one_that_leaves() -> None:
    scenario = replace(SCENE, events=Events(deaths={1: 0.55}, leaves={2: 0.7}), network=Network())
    replicas = trained(scenario, repaired(1))
    assert len(replicas) == 2
    np.testing.assert_allclose(replicas[0], replicas[1], atol=1e-5)


def test_the_losses_fall() -> None:
    before = TASK.loss(TASK.parameters(SEED))
    for each in trained(replace(SCENE, last=60), repaired(4), lambda: SGD(0.5)):
        assert TASK.loss(each) < 0.8 * before


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_an_optimiser_goes_on_from_its_state(optimiser: Callable[[], Optimiser]) -> None:
    gradients = np.random.default_rng(0).normal(size=(6, 20)).astype(np.float32)
    whole, half, resumed = (Replica(np.zeros(20, np.float32), optimiser()) for _ in range(3))
    for number, gradient in enumerate(gradients):
        whole.step((Contribution(number, 0, gradient),))
        if number < 3:
            half.step((Contribution(number, 0, gradient),))
    resumed.adopt(half.content(), [])
    for number in range(3, 6):
        resumed.step((Contribution(number, 0, gradients[number]),))
    assert is_equal(whole.parameters, resumed.parameters)


def test_a_gradient_is_that_of_the_loss() -> None:
    exact = task("drawn", "mlp")
    parameters = exact.parameters(1).astype(np.float64)
    batch = np.arange(16)
    gradient = exact.gradient(parameters, batch)
    held = Task(exact.images, exact.labels, (exact.images[batch], exact.labels[batch]), exact.hidden)
    for place in (0, 100, 3000, len(parameters) - 1):
        moved = parameters.copy()
        moved[place] += 1e-5
        slope = (held.loss(moved) - held.loss(parameters)) / 1e-5
        assert abs(slope - gradient[place]) < 1e-4


def test_bad_arguments_are_refused_by_name() -> None:
    for wrong in (
        lambda: repaired(-1),
        lambda: replace(literal(1), apply=Apply.FIXED),
        lambda: task("faces"),
        lambda: SGD(0),
        lambda: Replica(np.zeros((2, 2)), SGD()),
        lambda: Replica(np.zeros(2), {}),
        lambda: Scenario(0),
        lambda: Scenario(2, pauses=Pauses(slow=(2,))),
        lambda: Scenario(2, compute=0),
    ):
        with pytest.raises(TrainingError, match="; "):
            wrong()
