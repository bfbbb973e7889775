"""How the LLVM code of compiled functions is put together.

numba optimises and compiles every function together with all its callees, and does so again for each caller: in a tree
of calls as deep as a device's most work would be done many times. So an internal function keeps its code as generated.
An entry links the code of all functions below it, each once, and is compiled as a whole. Record 0094 has the times.
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
        """Nothing: the code is in no execution engine."""


class InternalLibrary(JITCodeLibrary):
    """The code of an internal function; only the entries that link it optimise and run it."""

    _shared_module: Any

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironment(self._codegen)

    def add_llvm_module(self, ll_module: Any) -> None:
        """Take code as it is; entries optimise it."""
        ll_module.data_layout = self._codegen._data_layout
        self._final_module.link_in(ll_module)

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._reload_init.update(*(library._reload_init for library in self._linking_libraries))
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # libraries that link it may meet in another
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
        return self._linking_libraries

    def _get_module_for_linking(self) -> Any:
        """The code of this function and all below it, for a library made by numba itself."""
        if self._shared_module is None:
            module = self.own_module().clone()
            for library in below(self.callees()):
                module.link_in(_module_of(library), preserve=True)
            self._shared_module = module
        return self._shared_module


class EntryLibrary(JITCodeLibrary):
    """The code of an entry and of all functions below it."""

    def finalize(self) -> None:
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
        """What a cache keeps beside the machine code: as no other code links an entry, only the names by which numba
        finds the functions that Python and C call."""
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
    """numba's compiler with another class of library."""

    library_class: type[JITCodeLibrary]

    def _compile_bytecode(self) -> Any:
        if self.state.library is None:
            codegen = self.state.targetctx.codegen()
            self.state.library = self.library_class(codegen, self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super()._compile_bytecode()


class InternalCompiler(_WithLibrary):
    library_class = InternalLibrary


class EntryCompiler(_WithLibrary):
    library_class = EntryLibrary
