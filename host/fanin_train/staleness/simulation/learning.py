"""What is learnt in simulations: images of digits by models in numpy; a node that learns them."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fanin_train.errors import TrainingError
from fanin_train.staleness.messages import Contribution
from fanin_train.staleness.replica import Content, Optimiser, Replica

CLASSES, SIDE, DRAWN, HELD_OUT = 10, 8, 1797, 360  # as many images as scikit-learn has
GLYPHS = (  # five rows of three points each
    *("111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001"),
    *("111100111001111", "111100111101111", "111001010010010", "111101111101111", "111101111001111"),
)
DATA = ("digits", "drawn")
MODELS = ("softmax", "mlp")


class Task(NamedTuple):
    """Images of shape (count, 64) from 0 to 1, their digits, and a model with `hidden` units; 0: no hidden layer."""

    images: np.ndarray
    labels: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray]
    hidden: int

    def parameters(self, seed: int) -> np.ndarray:
        """The start of training, flat, float32."""
        draw = np.random.default_rng(seed)
        return np.concatenate([draw.normal(0, rows**-0.5, rows * columns) for rows, columns in self._shapes()]).astype(
            np.float32
        )

    def gradient(self, parameters: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Of the mean loss over a batch of images, given by number."""
        return self._loss_and_gradient(parameters, self.images[batch], self.labels[batch])[1]

    def loss(self, parameters: np.ndarray) -> float:
        """Mean cross-entropy of the images held out."""
        return self._loss_and_gradient(parameters, *self.held_out)[0]

    def batch(self, seed: int, rank: int, number: int, size: int = 32) -> np.ndarray:
        """The images of a node's iteration, independent of what happened before."""
        return np.random.default_rng((seed, rank, number)).integers(0, len(self.images), size)

    def _shapes(self) -> list[tuple[int, int]]:
        """The shapes of the layers, with a row for the constant."""
        inputs = SIDE * SIDE
        sizes = [inputs, self.hidden, CLASSES] if self.hidden else [inputs, CLASSES]
        return [(rows + 1, columns) for rows, columns in pairwise(sizes)]

    def _weights(self, parameters: np.ndarray) -> list[np.ndarray]:
        found, begin = [], 0
        for rows, columns in self._shapes():
            found.append(parameters[begin : begin + rows * columns].reshape(rows, columns))
            begin += rows * columns
        return found

    def _layers(self, parameters: np.ndarray, images: np.ndarray) -> list[np.ndarray]:
        """The inputs of each layer, and the scores."""
        layers = [images]
        for number, weights in enumerate(self._weights(parameters)):
            inputs = layers[-1] if number == 0 else np.maximum(layers[-1], 0)
            layers.append(inputs @ weights[:-1] + weights[-1])
        return layers

    def _loss_and_gradient(
        self, parameters: np.ndarray, images: np.ndarray, labels: np.ndarray
    ) -> tuple[float, np.ndarray]:
        layers = self._layers(parameters, images)
        scores = layers[-1] - layers[-1].max(1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        rows = np.arange(len(labels))
        loss = -float(np.log(chances[rows, labels] + 1e-12).mean())
        error = chances
        error[rows, labels] -= 1
        error /= len(labels)
        gradients: list[np.ndarray] = []
        for number, weights in reversed(list(enumerate(self._weights(parameters)))):
            inputs = layers[number] if number == 0 else np.maximum(layers[number], 0)
            gradients.insert(0, np.vstack([inputs.T @ error, error.sum(0)]).ravel())
            if number:
                error = (error @ weights[:-1].T) * (layers[number] > 0)
        return loss, np.concatenate(gradients).astype(parameters.dtype)


def task(data: str = "drawn", model: str = "softmax") -> Task:
    """`digits` come from scikit-learn; `drawn` need no package and are easier to tell apart."""
    if data not in DATA or model not in MODELS:
        raise TrainingError(f"there is no task {data}, {model}", f"give one of {DATA}, and one of {MODELS}")
    images, labels = _scanned() if data == "digits" else _drawn()
    order = np.random.default_rng(1).permutation(len(images))
    held_out, training = order[:HELD_OUT], order[HELD_OUT:]
    hidden = 64 if model == "mlp" else 0
    return Task(images[training], labels[training], (images[held_out], labels[held_out]), hidden)


def _scanned() -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise TrainingError("scikit-learn is not installed", "pip install scikit-learn, or use --data drawn") from None
    found = load_digits()
    return (found.data / 16).astype(np.float32), found.target


def _drawn() -> tuple[np.ndarray, np.ndarray]:
    """Glyphs about the middle of the image, and noise."""
    draw = np.random.default_rng(3)
    glyphs = np.array([[float(point) for point in glyph] for glyph in GLYPHS]).reshape(10, 5, 3)
    labels = draw.integers(0, CLASSES, DRAWN)
    images = 0.4 * draw.random((DRAWN, SIDE, SIDE))
    for image, label in zip(images, labels, strict=True):
        row, column = draw.integers(1, 3), draw.integers(2, 4)
        image[row : row + 5, column : column + 3] += 0.6 * glyphs[label]
    return images.reshape(DRAWN, SIDE * SIDE).astype(np.float32), labels


class Learner:
    def __init__(self, rank: int, task: Task, optimiser: Optimiser, seed: int) -> None:
        self.rank, self.task, self.seed = rank, task, seed
        self.replica = Replica(task.parameters(seed), optimiser)

    def gradient(self, number: int, nodes: int) -> np.ndarray:
        """The gradient of this node's batch `number` at the current parameters, divided by the number of nodes."""
        return share(self.task, self.replica.parameters, self.task.batch(self.seed, self.rank, number), nodes)

    def step(self, contributions: tuple[Contribution, ...]) -> None:
        self.replica.step(contributions)

    def content(self) -> Content:
        return self.replica.content()

    def adopt(self, content: Content, contributions: tuple[Contribution, ...]) -> None:
        self.replica.adopt(content, contributions)


def share(task: Task, parameters: np.ndarray, batch: np.ndarray, nodes: int) -> np.ndarray:
    """A gradient divided by the number of nodes, as DDP of PyTorch does before it sums."""
    return task.gradient(parameters, batch) / parameters.dtype.type(nodes)


def synchronous(task: Task, optimiser: Callable[[], Optimiser], nodes: int, last: int, seed: int) -> np.ndarray:
    """The parameters after synchronous training without a protocol: gradients are summed in the order of ranks."""
    parameters, one = task.parameters(seed), optimiser()
    for number in range(1, last + 1):
        total = share(task, parameters, task.batch(seed, 0, number), nodes)
        for rank in range(1, nodes):
            total = total + share(task, parameters, task.batch(seed, rank, number), nodes)
        one.step(parameters, total)
    return parameters
