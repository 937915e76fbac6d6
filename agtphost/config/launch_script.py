"""Which script a command of an interpreter runs: it is looked for before a start, as the interpreter itself is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agtphost.config.faults import ConfigFault
from agtphost.config.upstreams import MCPServerSection

_INTERPRETERS = re.compile(r"(?:python|pypy|node|nodejs|bun|ruby|perl|bash|sh|php)[0-9.]*(?:\.exe)?")
_SCRIPT = re.compile(r".+\.(?:py|pyz|js|mjs|cjs|ts|mts|rb|pl|sh|php)")
_WITH_VALUE: Mapping[str, frozenset[str]] = {
    "python": frozenset({"-W", "-X", "--check-hash-based-pycs"}),
    "node": frozenset({"-r", "--require", "--import", "--loader", "--env-file"}),
}
_ELSEWHERE = frozenset({"-", "-c", "-m", "-e", "-p", "--eval", "--print", "-S"})
"""Options after which the program is not a file of the command, or may be found in another way."""


def script_of(command: Sequence[str]) -> Path | None:
    """
    Return the script that a command runs, as it is written there.

    None where that is not certain: for a program that is not an interpreter, options that name what runs in another
    way, and names that do not look like a script.
    """
    name = Path(command[0]).name
    if _INTERPRETERS.fullmatch(name) is None:
        return None
    valued = next((names for program, names in _WITH_VALUE.items() if name.startswith(program)), frozenset())
    words = iter(command[1:])
    for word in words:
        if word in _ELSEWHERE:
            return None
        if word in valued:
            next(words, None)
        elif not word.startswith("-"):
            return Path(word) if _SCRIPT.fullmatch(word) else None
    return None


def likely_servers(folder: Path) -> Iterator[str]:
    """Yield scripts in a directory, and in those directly below it, that may be MCP servers by their names."""
    found = [each for pattern in ("*.py", "*/*.py") for each in sorted(folder.glob(pattern))]
    yield from (str(each.relative_to(folder)) for each in found if "server" in each.name)
    yield "server.py"


def missing_scripts(servers: Iterable[MCPServerSection]) -> Iterator[ConfigFault]:
    """
    Yield what is wrong with the commands of servers whose scripts are not there.

    Such a host starts, and tries the server again and again: a script may come later, so that this is not a fault of
    the configuration.
    """
    for number, server in enumerate(servers):
        script = None if server.command is None else script_of(server.command)
        if script is None or not server.cwd.is_dir() or (server.cwd / script).exists():
            continue
        folder = (server.cwd / script).parent
        names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
        near = difflib.get_close_matches(script.name, names, 1)
        meant = f'did you mean "{script.with_name(near[0])}"? ' if near else ""
        yield ConfigFault(
            location=("mcp", "server", number, "command"),
            message=f"names a script that does not exist: {script}; the server cannot start",
            hint=f"{meant}a relative path is looked for in cwd, {server.cwd}",
        )
