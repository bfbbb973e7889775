"""The decorators of compiled device code. Its machine code is cached (`cache`)."""

import functools
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, njit, types
from numba.core.caching import CacheImpl

from fanin_nic.native.cache import ENVIRONMENT_VARIABLE, can_be_written, choose_cache_folder, completion_mark
from fanin_nic.native.cpu import processor, use_wide_registers
from fanin_nic.native.enumerations import compile_as_integers
from fanin_nic.native.libraries import EntryCompiler, InternalCompiler
from fanin_nic.native.loading import load_alone
from fanin_nic.native.memory import type_of
from fanin_nic.native.target import take_recorded

log = logging.getLogger(__name__)
CACHE_FOLDER = choose_cache_folder()
KEEPS = can_be_written(CACHE_FOLDER)
if not take_recorded(CACHE_FOLDER):
    use_wide_registers()
    if not KEEPS and completion_mark(CACHE_FOLDER).read_text() != processor():
        unused, CACHE_FOLDER, KEEPS = CACHE_FOLDER, choose_cache_folder(ready_made=False), True
        log.warning("the device code in %s is for another processor: it is compiled, into %s", unused, CACHE_FOLDER)
if (asked := os.environ.get(ENVIRONMENT_VARIABLE)) and not CACHE_FOLDER.is_relative_to(asked):
    log.warning("%s=%s can not be written: %s is used", ENVIRONMENT_VARIABLE, asked, CACHE_FOLDER)
COMPLETE = completion_mark(CACHE_FOLDER)


def mark_complete() -> None:
    """Say in the cache folder that all is there, and for which processor."""
    if not COMPLETE.exists():
        COMPLETE.write_text(processor())


config.CACHE_DIR = str(CACHE_FOLDER)
config.CACHE_LOCATOR_CLASSES = ", ".join(
    ["fanin_nic.native.locator.PackageLocator", *(locator.__name__ for locator in CacheImpl._locator_classes)]
)
OPTIONS = {"nogil": True, "error_model": "numpy"}
compile_as_integers()


class Internal:
    """A function that compiled code alone can call; it has no machine code of its own (`libraries`).

    numba meets it when code that calls it is compiled, so never in a device that loads all its code. signature: gives
    the only types that it is compiled for, and of its result; None: it is compiled for those of each caller.
    """

    def __init__(self, function: Callable, signature: Callable[[], Any] | None = None) -> None:
        self._function, self._signature = function, signature
        functools.update_wrapper(self, function)

    @functools.cached_property
    def _dispatcher(self) -> Any:
        dispatcher = njit(**OPTIONS, pipeline_class=InternalCompiler, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
            self._function
        )
        _limit_kinds(dispatcher, self._signature)
        return dispatcher

    @functools.cached_property
    def _numba_type_(self) -> types.Dispatcher:
        return types.Dispatcher(self._dispatcher)  # keeps no reference

    def __call__(self, *_arguments: Any) -> Any:
        """Raises TypeError: there is no machine code to call."""
        raise TypeError(f"{self.__name__} can be called by compiled code only")  # type: ignore[attr-defined]


class Compiled:
    """A function that Python and compiled code can call.

    To compiled code it is internal. The first call from Python makes an entry, whose machine code is cached.
    """

    __name__: str

    def __init__(self, function: Callable) -> None:
        self._function, self._internal = function, Internal(function)
        functools.update_wrapper(self, function)

    @functools.cached_property
    def entry(self) -> Any:
        entry = njit(**OPTIONS, cache=True, pipeline_class=EntryCompiler)(self._function)
        load_alone(entry._cache)
        if not KEEPS:
            entry._cache.save_overload = lambda *_: None
        return entry

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return self._internal._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)

    @property
    def overloads(self) -> dict:
        """What numba has compiled of the entry, by types of arguments."""
        return self.entry.overloads if "entry" in vars(self) else {}

    def compile(self, arguments: tuple[types.Type, ...]) -> None:
        """Make the entry for these types of arguments, or load it from the cache."""
        self.entry.compile(arguments)


def _limit_kinds(dispatcher: Any, signature: Callable[[], Any] | None) -> None:
    """Compile for `signature` only, if there is one, and once for all constants of a type: numba would compile anew for
    each constant that a caller gives."""
    template = dispatcher.get_call_template

    def get_call_template(given: tuple[types.Type, ...], keywords: dict[str, types.Type]) -> Any:
        if signature is not None and not dispatcher.overloads:
            dispatcher.compile(signature())
            dispatcher.disable_compile()
        return template(tuple(map(types.unliteral, given)), keywords)

    dispatcher.get_call_template = get_call_template


internal = Internal
"""Decorator of a compiled function that Python never calls, as those of the engine."""

compiled = Compiled
"""Decorator of a compiled function that Python may call."""


def internal_for(*arguments: Any, returns: Any = types.void) -> Any:
    """Decorator of an internal function with many callers: compiled once, for these arguments (dtypes of records, numba
    types), and not anew for each kind of integer of a caller."""

    def signature() -> Any:
        return returns(*(type_of(kind) if isinstance(kind, np.dtype) else kind for kind in arguments))

    return lambda function: Internal(function, signature)
