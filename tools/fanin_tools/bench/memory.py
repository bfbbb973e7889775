"""The speed at which this machine reads and writes memory, with one core and with several."""

import ctypes
import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fanin_tools.bench.memory_kernels import read_words, write_bytes
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size

ROUNDS = 7
VOLUMES = tuple(1 << power for power in (18, 20, 22, 24, 26, 28))  # bytes
MIN_SECONDS = 0.002  # of a round: shorter loops are repeated
TRIALS = 3
MEMSET = np.uint64(ctypes.cast(ctypes.CDLL(None).memset, ctypes.c_void_p).value or 0)

Act = Callable[[np.ndarray, int], object]  # reads or writes an array some times


@dataclass(frozen=True)
class Speed:
    """Bytes per second over all `cores`, for `volume` bytes read and as many others written. The best round counts:
    other load only makes a round slower, and this is a bound."""

    volume: int
    cores: int
    read: float
    write: float

    @property
    def read_and_write_us(self) -> float:
        return (self.volume / self.read + self.volume / self.write) * 1e6


@functools.cache
def measure(volume: int, cores: int) -> Speed:
    words = max(volume // 8 // cores, 1)
    sources = [np.ones(words, np.uint64) for _ in range(cores)]
    results = [np.ones(words, np.uint64) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as threads:
        read, write = (_speeds(threads, act, places) for act, places in ((_read, sources), (_write, results)))
    return Speed(volume, cores, max(read), max(write))


def _speeds(threads: ThreadPoolExecutor, act: Act, places: list[np.ndarray]) -> list[float]:
    """Bytes per second of each round. Every thread works on its part of the memory."""
    volume = sum(place.nbytes for place in places)
    _seconds(threads, act, places, 1)  # compiles the loop and touches the pages
    repeat = 1
    while min(_seconds(threads, act, places, repeat) for _ in range(TRIALS)) < MIN_SECONDS:
        repeat *= 2
    return [volume * repeat / _seconds(threads, act, places, repeat) for _ in range(ROUNDS)]


def _seconds(threads: ThreadPoolExecutor, act: Act, places: list[np.ndarray], repeat: int) -> float:
    start = time.perf_counter()
    list(threads.map(act, places, [repeat] * len(places)))
    return time.perf_counter() - start


def _read(words: np.ndarray, repeat: int) -> None:
    read_words(words, repeat)


def _write(words: np.ndarray, repeat: int) -> None:
    write_bytes(MEMSET, np.uint64(words.ctypes.data), words.nbytes, repeat)


def sweep(progress: ProgressCallback) -> list[Speed]:
    """One core and all, for volumes from the size of a cache to many times that of all caches."""
    speeds = []
    for cores in sorted({1, len(os.sched_getaffinity(0))}):
        for volume in VOLUMES:
            progress(f"{cores} of the cores, {render_size(volume)} ...")
            speeds.append(measure(volume, cores))
    return speeds
