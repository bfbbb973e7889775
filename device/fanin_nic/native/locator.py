"""Where numba keeps the machine code of a file: by the file's place in its package, so that all copies of the same
sources (another checkout, a new environment) share it."""

import contextlib
from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator

import fanin_wire

PACKAGES = [Path(__file__).parents[1], Path(fanin_wire.__file__).parent]


def add_package(folder: Path) -> None:
    """Cache the functions of the package in `folder` by their place in it. Call it before numba decorates them."""
    PACKAGES.append(folder)


class PackageLocator(UserProvidedCacheLocator):
    """For functions of our packages; numba's own locators are asked about all others."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """A folder of the cache, as `fanin_nic.engine.packets`."""
        package = _package_of(Path(py_file))
        assert package is not None
        return ".".join(Path(py_file).relative_to(package.parent).parent.parts)

    def ensure_cache_path(self) -> None:
        """Make the folder. If that fails, nothing is saved (`compiled`)."""
        with contextlib.suppress(OSError):
            super().ensure_cache_path()

    @classmethod
    def from_function(cls, py_func, py_file):
        """None for a function that is not ours."""
        return super().from_function(py_func, py_file) if _package_of(Path(py_file)) else None


def _package_of(path: Path) -> Path | None:
    return next((package for package in PACKAGES if path.is_relative_to(package)), None)
