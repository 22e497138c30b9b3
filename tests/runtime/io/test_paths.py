"""A path by its name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tiermem.runtime.io import paths
from tiermem.runtime.io.seam import IoPath


@pytest.mark.parametrize("path", [IoPath.POSIX_DIRECT, IoPath.POSIX_BUFFERED])
def test_plain_paths_are_always_there(path: IoPath) -> None:
    """They need nothing, and have the threads they were given."""
    assert paths.installed(path)
    io = paths.make(path, threads=3)
    assert io.path is path
    assert io.pool.threads == 3  # type: ignore[attr-defined]
    io.close()


@pytest.mark.parametrize("path", list(paths.MODULES))
def test_what_is_not_installed_is_an_import_error(
    path: IoPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At use, with the name of the package."""
    monkeypatch.setitem(sys.modules, paths.MODULES[path], None)
    with pytest.raises(ImportError, match=paths.MODULES[path]):
        paths.make(path)


def test_nothing_optional_is_loaded_by_looking() -> None:
    """Known fault 98: the runtime's I/O imports without torch, kvikio or NIXL."""
    code = (
        "import sys, tiermem.runtime.io.choose, tiermem.runtime.io.doctor;"
        "tiermem.runtime.io.paths.installed('native');"
        "print(*{'torch', 'kvikio', 'nixl_cu12', 'cupy'} & set(sys.modules))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.split() == []
