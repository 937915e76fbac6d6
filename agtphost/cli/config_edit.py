"""Change the files of a deployment for a command: check, write, and let a running host apply the change."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agtphost.cli.exchange import carrier_options, failure_of, refusal, result_of
from agtphost.cli.failures import CommandError, NoConnection, WrongInput, configuration_error, local_file
from agtphost.cli.host_config import NO_HOST, find_config, load_config
from agtphost.cli.options import Connection
from agtphost.cli.output import print_note
from agtphost.cli.reload import request_reload
from agtphost.cli.target import Target, resolve
from agtphost.client.errors import CannotConnect, ClientError, InvalidCall
from agtphost.client.local_identities import REGISTRAR
from agtphost.errors import ConfigurationError, Problem
from agtphost.identity import files
from agtphost.vocabulary.tomledit import TomlEditError
from agtphost.vocabulary.tomltext import TomlError

if TYPE_CHECKING:
    from agtphost.client.reply import Reply


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """New content for a file of a deployment."""

    file: Path
    """Absolute, with symbolic links resolved."""

    before: bytes
    after: bytes

    def write(self) -> None:
        """
        Write the new content; owner and mode stay.

        :raises WrongInput: the file has changed since it was read, or cannot be written.
        """
        _replace(self.file, self.before, self.after)

    def undo(self) -> None:
        """Write the old content again. :raises WrongInput: as :meth:`write` does."""
        _replace(self.file, self.after, self.before)


@dataclass(frozen=True, kw_only=True)
class ConfigEdit:
    """A change of a ``host.toml``, checked and not yet written."""

    file: Path
    """Absolute, with symbolic links resolved."""

    before: str
    after: str

    @property
    def change(self) -> FileChange:
        """The change of the file."""
        return FileChange(file=self.file, before=self.before.encode(), after=self.after.encode())

    @property
    def diff(self) -> str:
        """The changed lines as a unified diff, without their line ends: the last line of a file may have none."""
        old, new, name = self.before.splitlines(), self.after.splitlines(), self.file.name
        return "".join(f"{line}\n" for line in difflib.unified_diff(old, new, name, name, n=1, lineterm=""))


def plan_edit(where: Connection, change: Callable[[str], str]) -> ConfigEdit:
    """
    Return a change of the named ``host.toml`` that leaves the file valid.

    :param change: receives the text of the file, and returns the new text.
    :raises agtphost.cli.failures.CommandError: the file is missing, cannot be edited, or would not be valid; the
        message lists every problem with its line in the new text.
    """
    named = find_config(where)
    if named is None:
        raise WrongInput("no host.toml is named", NO_HOST)
    file = named.absolute().resolve()
    before = _read(file)
    try:
        after = change(before)
    except TomlEditError as error:
        place = f"{file}:{error.line}" if error.line else str(file)
        raise WrongInput(f"{place}: the file {error}", "Edit it by hand, then run `agtp reload`.") from None
    except TomlError as error:
        raise WrongInput(f"{file}:{error.line}: the file {error}", error.hint) from None
    from agtphost.config.loader import load_text

    try:
        load_text(after, named.absolute())
    except ConfigurationError as error:
        raise configuration_error(error) from None
    return ConfigEdit(file=file, before=before, after=after)


def apply_changes(changes: Sequence[FileChange], where: Connection) -> Mapping[str, Any] | None:
    """
    Write changes, and let the host apply them. If the host does not take them, the files are as before.

    :return: the host's answer to the reload; None if no host runs, so that its next start applies them.
    :raises agtphost.cli.failures.CommandError: the host refuses, or without a host, it would not start.
    """
    named = find_config(where)
    if named is None:
        raise WrongInput("no host.toml is named", NO_HOST)
    # A host that never ran has no certificate yet, so there is none to ask.
    target = resolve(where, identity=REGISTRAR) if load_config(named).tls.certificate.exists() else None
    try:
        with write_changes(changes):
            reply = None if target is None else _ask_to_reload(target)
            if reply is None:
                _rehearse(named)
                return None
            if not reply.ok:
                raise _to_error(reply)
    except ClientError as error:
        # The files stay: a renewed certificate cures a host whose expired one the client refuses.
        listed = ", ".join(str(change.file) for change in changes)
        raise NoConnection(
            f"{listed}: changed; whether the host has applied it is unknown: {error.explanation}",
            "Run `agtp reload`, or send SIGHUP to the host.",
        ) from None
    return result_of(reply)


@contextlib.contextmanager
def write_changes(changes: Sequence[FileChange]) -> Iterator[None]:
    """
    Write changes, and write the old content again if the block raises a ``CommandError``.

    Until the block ends, other commands wait that change files in the same directories, and say so. They find then that
    the file is another, where both would have written, and the later one would have dropped what the earlier one wrote.

    :raises agtphost.cli.failures.CommandError: a file has changed since it was read, or cannot be written.
    """
    written: list[FileChange] = []
    with contextlib.ExitStack() as stack:
        for directory in sorted({change.file.parent for change in changes}):
            with local_file(directory, doing="opened"):
                descriptor = os.open(directory, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            # Some file systems lock no directory, and Windows has no such lock; there the comparison before each write
            # has to do.
            with contextlib.suppress(OSError, ImportError):
                import fcntl

                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    print_note(f"note: waiting for another command that changes files in {directory}")
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            for change in changes:
                change.write()
                written.append(change)
            yield
        except CommandError:
            for change in reversed(written):
                try:
                    change.undo()
                except WrongInput as error:
                    print_note(f"note: {change.file} keeps what it has: {error}")
            raise


def _ask_to_reload(target: Target) -> Reply | None:
    """Return the host's answer, or None if nothing listens there."""
    from agtphost.client.sync import Client

    with Client(**target.client_options(**carrier_options(target))) as client:
        try:
            return request_reload(client, target)
        except CannotConnect:
            return None
        except InvalidCall as error:  # Nothing was sent.
            raise failure_of(error) from None


def _to_error(reply: Reply) -> CommandError:
    """Return the error for a refused reload: each problem of the configuration, or why this caller is refused."""
    problems = reply.document.get("problems") if isinstance(reply.document, dict) else None
    if not isinstance(problems, list):
        return refusal(reply)
    return configuration_error(ConfigurationError([_problem(each) for each in problems if isinstance(each, dict)]))


def _problem(said: Mapping[str, Any]) -> Problem:
    line = said.get("line")
    return Problem(
        message=str(said.get("message", "")),
        file=str(said.get("file") or ""),
        line=line if isinstance(line, int) else 0,
        hint=str(said.get("hint") or ""),
    )


def _rehearse(file: Path) -> None:
    """
    Require that a host would start with the file.

    :raises agtphost.cli.failures.CommandError: listing every problem.
    """
    from twisted.internet import reactor

    from agtphost.host.rehearsal import rehearse

    try:
        problems = rehearse(file, os.environ, reactor).problems
    except ConfigurationError as error:
        raise configuration_error(error) from None
    if problems:
        raise configuration_error(ConfigurationError(list(problems)))


def _read(file: Path) -> str:
    with local_file(file, UnicodeDecodeError):
        return file.read_bytes().decode("utf-8")


def _replace(file: Path, expected: bytes, content: bytes) -> None:
    with local_file(file, doing="written"):
        if file.read_bytes() != expected:
            raise WrongInput(f"{file} was changed by another program just now", "Run the command again.")
        now = file.stat()
        files.replace(file, content, now.st_mode & 0o7777, owner=(now.st_uid, now.st_gid))
