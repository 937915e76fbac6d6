"""Find and load the ``host.toml`` that a command works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli.failures import WrongInput, configuration_error
from agtphost.cli.options import Connection
from agtphost.cli.output import print_note
from agtphost.errors import ConfigurationError

if TYPE_CHECKING:
    from agtphost.client.local_host import LocalHost
    from agtphost.config import Config
    from agtphost.config.lenient import LenientReading
    from agtphost.vocabulary.tomltext import Location

NO_HOST = "Name an agtp:// URI, --config FILE or --profile NAME, or change to the directory of a host.toml."


def find_config(where: Connection) -> Path | None:
    """Return the configuration that was named or that is in the current directory; None if there is none."""
    if where.config is not None:
        return where.config
    if where.profile is not None:
        return None
    from agtphost.client.target import found_config

    return found_config()


def load_config(path: Path) -> Config:
    """
    Load a ``host.toml``.

    :raises agtphost.cli.failures.CommandError: the file is not valid; the message lists every problem.
    """
    from agtphost.config import load

    try:
        return load(path)
    except ConfigurationError as error:
        raise configuration_error(error) from None


def read_config(path: Path, *, warn: bool = True) -> LenientReading:
    """
    Read a ``host.toml`` as far as it is sound, for a command that talks to a running host.

    A warning on standard error names the first fault, once per command.

    :param warn: False for a command that may not go on without what is faulty: see :func:`warn_of_faults`.
    :raises agtphost.cli.failures.CommandError: the file does not exist.
    """
    from agtphost.config.lenient import read_leniently

    context = click.get_current_context(silent=True)
    known: dict[Path, LenientReading] = {} if context is None else context.meta.setdefault(_READ, {})
    if path not in known:
        try:
            known[path] = read_leniently(path)
        except ConfigurationError as error:
            raise configuration_error(error) from None
    if warn:
        warn_of_faults(path, known[path])
    return known[path]


def warn_of_faults(path: Path, found: LenientReading) -> None:
    """Warn of the first fault of a file, once per command, as the command goes on without what is faulty."""
    context = click.get_current_context(silent=True)
    warned: set[Path] = set() if context is None else context.meta.setdefault(_WARNED, set())
    # A shell that completes a word shows no warnings.
    if not found.problems or path in warned or (context is not None and context.resilient_parsing):
        return
    warned.add(path)
    held = None if context is None else context.meta.get(_HELD)
    if held is None:
        _warn(path, found)
    else:
        held[path] = found


@contextmanager
def hold_warnings() -> Iterator[dict[Path, LenientReading]]:
    """
    Delay the warnings of :func:`read_config` to the end of a block, for a command whose answer may name the faults.

    The block removes those that it has reported. An error that names a fault makes its warning superfluous.
    """
    held: dict[Path, LenientReading] = {}
    reported = ""
    click.get_current_context().meta[_HELD] = held
    try:
        yield held
    except click.ClickException as error:
        reported = error.message
        raise
    finally:
        for path, found in held.items():
            if found.problems[0].message not in reported:
                _warn(path, found)


_HELD = "agtphost.cli.host_config.held"
"""The member of a command's memory with the warnings that are held back, by path."""


_READ = "agtphost.cli.host_config.read"
"""The member of a command's memory with the files that it has read, by path."""


_WARNED = "agtphost.cli.host_config.warned"
"""The member of a command's memory with the files whose faults were named."""


def _warn(path: Path, found: LenientReading) -> None:
    first, others = found.problems[0], len(found.problems) - 1
    more = "" if not others else f" There {'is 1 more problem' if others == 1 else f'are {others} more problems'}."
    # The hint is left to `agtp check`.
    place = f"{first.file}:{first.line}: " if first.file and first.line else f"{first.file or path}: "
    text = f"{place}{first.message}.{more} The command goes on without it; `agtp check {path}` tells how to cure it."
    print_note(f"warning: {text}")


def recall_faulty(path: Path, found: LenientReading) -> LocalHost | None:
    """
    Return where a host was reached when its ``host.toml`` was last read without a fault, and say so once per command.

    None if the file has no fault now, was never read by this user without one, or says now that it is of another host.
    """
    from agtphost.client.local_host import recall_last
    from agtphost.client.target import address_of

    last = recall_last(path) if found.problems else None
    if last is not None and _is_other_host(found, last):
        return None
    if last is not None:
        warn_of_faults(path, found)
    context = click.get_current_context(silent=True)
    if last is None or context is None:
        return last
    if not context.meta.get(_RECALLED) and not context.resilient_parsing:
        context.meta[_RECALLED] = True
        said = f"the host is {address_of(last)}, with the files in {last.state_dir}, as the last {path} without a fault"
        print_note(f"note: {said} had it")
    return last


def recall_left_out(path: Path, found: LenientReading) -> LocalHost | None:
    """
    Return what :func:`recall_faulty` does for a faulty file that leaves out where its host listens.

    A file that was cut off, or emptied by a full disk, leaves it out as well: its default would be another host's.
    None if the file says it, or if the default is what was read before.
    """
    from agtphost.client.local_host import LocalHost, recall_last
    from agtphost.client.target import address_of

    listen = found.config.listen
    last = recall_last(path) if found.problems and not _ADDRESS_KEYS & listen.model_fields_set else None
    if last is None or address_of(last) == address_of(LocalHost.of(found.config)):
        return None
    return recall_faulty(path, found)


_ADDRESS_KEYS = {"address", "port", "endpoint"}


def _is_other_host(found: LenientReading, last: LocalHost) -> bool:
    """Return whether a sound value of a faulty file differs from the last reading without a fault."""
    config = found.config
    return any(
        key in getattr(config, section).model_fields_set
        and found.is_known((section, key))
        and getattr(getattr(config, section), key) != getattr(last, key)
        for section, key in (
            ("listen", "address"),
            ("listen", "port"),
            ("listen", "endpoint"),
            ("host", "state_dir"),
            ("identity", "known_agents"),
        )
    )


_RECALLED = "agtphost.cli.host_config.recalled"
"""The member of a command's memory that says that the note was printed."""

KEY_FILES: tuple[Location, ...] = (("audit", "key"), ("host", "state_dir"))
"""Keys that say where the host's signing keys are."""

STATE_FILES: tuple[Location, ...] = (("host", "state_dir"), ("identity", "known_agents"))
"""Keys that say where the files of the agents in the state directory are."""

AGENT_FILES: tuple[Location, ...] = (*STATE_FILES, ("identity", "agents"))
"""Keys that say where the files of agents are."""

AGENT_STATES: tuple[Location, ...] = (*AGENT_FILES, ("store",))
"""Keys that say where the files of agents and their states are."""


def find_usable_config(path: Path, *needed: Location) -> Config | None:
    """Return the configuration for a command that needs some of its keys alone; None if one of them is faulty."""
    found = read_config(path, warn=False)
    if not all(map(found.is_known, needed)):
        return None
    warn_of_faults(path, found)
    return found.config


def load_usable_config(path: Path, *needed: Location, remedy: str = "") -> Config:
    """
    Load a ``host.toml`` for a command that needs some of its keys alone.

    :param remedy: how the command works without them.
    :raises agtphost.cli.failures.CommandError: one of them is faulty; the message lists every problem of the file.
    """
    found = read_config(path, warn=False)
    try:
        found.require(*needed)
    except ConfigurationError as error:
        fault = configuration_error(error)
        fault.remedy = remedy
        raise fault from None
    warn_of_faults(path, found)
    return found.config


def require_config(where: Connection, purpose: str, *needed: Location) -> Config:
    """
    Return the configuration for a command that works on the host's own files.

    :param needed: keys that the command reads: it goes on while others have faults. Without any, it needs all.
    """
    path = find_config(where)
    if path is None:
        raise WrongInput(f"{purpose} needs the host's own configuration", "Name it with --config host.toml.")
    return load_usable_config(path, *needed) if needed else load_config(path)
