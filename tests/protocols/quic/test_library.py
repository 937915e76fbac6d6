"""What of aioquic is used: its core without I/O, in the host and in the clients."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.test_layering import imports, modules


def used_modules(sources: list[str]) -> list[str]:
    """Return what sources import of aioquic, modules and their names, also within functions."""
    found = {name for source in sources if "aioquic" in source for name in imports(source)}
    return sorted(name for name in found if name.split(".")[0] == "aioquic")


def loaded_with(names: list[str]) -> list[str]:
    """Return the modules of aioquic that a process has once it has imported these."""
    code = (
        "import contextlib, importlib, json, sys\n"
        f"for name in {names!r}:\n"
        "    with contextlib.suppress(ModuleNotFoundError):\n"  # A name of a module.
        "        importlib.import_module(name)\n"
        "print(json.dumps([each for each in sys.modules if each.startswith('aioquic')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    found: list[str] = json.loads(done.stdout)
    return found


def test_event_loop_of_the_library_is_never_imported() -> None:
    """Neither by a module of the package nor by a part of aioquic that one uses: no asyncio is in a host for it."""
    used = used_modules([path.read_text() for path in modules()])
    assert {"aioquic.tls", "aioquic.quic.connection"} <= {*used}
    loaded = loaded_with(used)
    assert "aioquic.quic.connection" in loaded
    assert [name for name in (*used, *loaded) if name.startswith("aioquic.asyncio")] == []


def test_event_loop_of_the_library_is_noticed() -> None:
    """The control, for each way to write an import."""
    for source in (
        "import aioquic.asyncio.server",
        "from aioquic import asyncio",
        "def f():\n    from aioquic.asyncio import connect",
    ):
        assert any(each.startswith("aioquic.asyncio") for each in used_modules([source])), source
    assert "aioquic.asyncio" in loaded_with(["aioquic.asyncio"])
