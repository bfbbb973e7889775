"""How the LLVM code of compiled functions is put together.

numba optimises the code of every function together with all functions that it calls, makes machine code of it, and does
the same again for each of its callers. In a tree of calls as deep as a device's most of that work is done many times.
So a function that only compiled code calls keeps its own code, as it was generated. An entry, which Python calls, links
the code of all functions below it, each once, and is optimised and turned into machine code as a whole.
Record 0094 (docs/decisions) has the times, and the conventions of all compiled code.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import require_global_compiler_lock

ENVIRONMENT = "_ZN08NumbaEnv"  # how numba begins the name of a variable for the address of a function's environment


class _WithoutEnvironment:
    """The code generator as an internal function sees it: it has no environment of Python objects to fill in."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, _name: str, _environment: Any) -> None:
        """Nothing: the code of the function is in no execution engine."""


class InternalLibrary(JITCodeLibrary):
    """The code of an internal function. It is linked into entries, and is neither optimised nor run by itself."""

    _shared_module: Any

    @property
    def codegen(self) -> Any:
        """See `_WithoutEnvironment`."""
        return _WithoutEnvironment(self._codegen)

    def add_llvm_module(self, ll_module: Any) -> None:
        """Take code as it is: the entries that link it optimise it."""
        ll_module.data_layout = self._codegen._data_layout
        self._final_module.link_in(ll_module)

    def finalize(self) -> None:
        """End the generation of code."""
        self._raise_if_finalized()
        self._reload_init.update(*(library._reload_init for library in self._linking_libraries))
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # several libraries that link it may meet in another
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        """0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def own_module(self) -> Any:
        """The code of this function alone."""
        self._ensure_finalized()
        return self._final_module

    def callees(self) -> list[CodeLibrary]:
        """The libraries of the functions that this one calls."""
        return self._linking_libraries

    def _get_module_for_linking(self) -> Any:
        """The code of this function and of all below it, for a library that numba itself has made."""
        if self._shared_module is None:
            module = self.own_module().clone()
            for library in below(self.callees()):
                module.link_in(_module_of(library), preserve=True)
            self._shared_module = module
        return self._shared_module


class EntryLibrary(JITCodeLibrary):
    """The code of an entry: of its function and of all below it."""

    def finalize(self) -> None:
        """Link, optimise, and make machine code."""
        require_global_compiler_lock()
        self._raise_if_finalized()
        own = set(self._environments())
        for library in below(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(_module_of(library), preserve=True)
        for name in set(self._environments()) - own:
            self._final_module.get_global_variable(name).linkage = "internal"  # unused: it is optimised away
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _environments(self) -> Iterator[str]:
        """The variables for addresses of environments, one for each function."""
        return (each.name for each in self._final_module.global_variables if each.name.startswith(ENVIRONMENT))

    def _get_module_for_linking(self) -> Any:
        """What a cache keeps beside the machine code. No other code links an entry, so that is the names alone, by
        which numba finds the functions that Python and C call."""
        functions = [each for each in self._final_module.functions if not each.is_declaration]
        names = [each.name for each in functions if each.linkage == llvm.Linkage.external]
        return llvm.parse_assembly("\n".join(f'define void @"{name}"() {{ unreachable }}' for name in names))


def below(libraries: Iterable[CodeLibrary]) -> Iterator[CodeLibrary]:
    """The given libraries and all that internal ones among them call, each once."""
    seen, left = set(), list(libraries)
    while left:
        library = left.pop()
        if library not in seen:
            seen.add(library)
            yield library
            if isinstance(library, InternalLibrary):
                left += library.callees()


def _module_of(library: CodeLibrary) -> Any:
    return library.own_module() if isinstance(library, InternalLibrary) else library._get_module_for_linking()


class _WithLibrary(Compiler):
    """numba's compiler, but for the class of the library that takes the code."""

    library_class: type[JITCodeLibrary]

    def _compile_bytecode(self) -> Any:
        if self.state.library is None:
            codegen = self.state.targetctx.codegen()
            self.state.library = self.library_class(codegen, self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super()._compile_bytecode()


class InternalCompiler(_WithLibrary):
    """The compiler of internal functions."""

    library_class = InternalLibrary


class EntryCompiler(_WithLibrary):
    """The compiler of entries."""

    library_class = EntryLibrary
