"""How soon changed TLS files count; real files, and a clock that the tests move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from agtphost.host import file_rotation
from agtphost.host.file_rotation import INCOMPLETE_SECONDS, FileRotation
from agtphost.identity import files
from agtphost.identity.revocation import UNKNOWN
from agtphost.protocols.tls import ServerTLS
from tests.protocols.authorities import Identity, issue, revocation_list
from tests.protocols.loopback import Site, make_site

ALLOWED = 1.0
"""Seconds from a revocation to the first request that is refused."""

SOON = 0.6 * ALLOWED
"""The part of it in which the file is noticed; the rest is for reading it, and for a request."""


class Inline(FileRotation):
    """One that reads files at once."""

    def _offload(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return maybeDeferred(function, *arguments)


class Rotating:
    """A host's TLS files with a list of revocations, and the service that looks at them."""

    def __init__(self, folder: Path) -> None:
        self.list = folder / "revoked.pem"
        self.list.write_bytes(b"")
        self.clock = Clock()
        site: Site = make_site(folder, client_crl=(self.list,))
        self.root = site.root
        self.client = issue(self.root, name="client")
        self.revoke()
        self.tls = ServerTLS.load(site.files)
        unused: Any = None
        self.service = Inline(self.clock, unused, self.tls, None, unused, unused, unused)

    def revoke(self, *revoked: Identity) -> None:
        files.replace(self.list, revocation_list(self.root, *revoked), files.PUBLIC)

    def look(self, seconds: float) -> None:
        """Let time pass, and the service look."""
        self.clock.pump([0.1] * round(seconds / 0.1))

    @property
    def is_refused(self) -> bool:
        """Whether a certificate is revoked."""
        return bool(self.tls.revocations.revoked.links)

    @property
    def is_unknown(self) -> bool:
        """Whether no certificate counts, as the list cannot be read."""
        return self.tls.revocations.revoked == UNKNOWN


@pytest.fixture
def rotating(tmp_path: Path) -> Rotating:
    """Provide files that nothing has changed yet, and that are looked at."""
    rotating = Rotating(tmp_path)
    rotating.service.startService()
    return rotating


def test_a_revoked_certificate_is_refused_within_a_second(rotating: Rotating) -> None:
    """On every connection that is open: each request asks the lists that are in force."""
    rotating.revoke(rotating.client)
    assert not rotating.is_refused
    rotating.look(SOON)
    assert rotating.is_refused


def test_control_a_look_every_other_second_is_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the certificate counts for longer than a second."""
    monkeypatch.setattr(file_rotation, "LOOK_EVERY", 2.0)
    rotating = Rotating(tmp_path)
    rotating.service.startService()
    rotating.revoke(rotating.client)
    rotating.look(ALLOWED)
    assert not rotating.is_refused


def test_a_list_that_changed_before_the_service_started_is_adopted(tmp_path: Path) -> None:
    """A host reads its files, and serves seconds later, or days later where it stood by."""
    rotating = Rotating(tmp_path)
    rotating.revoke(rotating.client)
    rotating.service.startService()
    rotating.look(SOON)
    assert rotating.is_refused


def test_files_that_did_not_change_are_not_read_again(rotating: Rotating, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither after the start nor later."""
    read: list[bool] = []
    monkeypatch.setattr(rotating.tls, "prepare", lambda: read.append(True))
    rotating.look(3 * file_rotation.LOOK_EVERY)
    assert read == []


def test_a_list_that_is_being_written_is_waited_for(rotating: Rotating) -> None:
    """A part of a list changes nothing for two seconds, and then no certificate counts until there is a whole one."""
    rotating.list.write_bytes(rotating.list.read_bytes()[:-40])
    rotating.look(INCOMPLETE_SECONDS - 0.1)
    assert not rotating.is_unknown
    rotating.revoke(rotating.client)
    rotating.look(SOON)
    assert rotating.is_refused and not rotating.is_unknown
    rotating.list.write_bytes(b"damaged")
    rotating.look(INCOMPLETE_SECONDS - 0.1)
    assert not rotating.is_unknown, "the time of an earlier part counted"
    rotating.look(3 * file_rotation.LOOK_EVERY)
    assert rotating.is_unknown
    rotating.revoke(rotating.client)
    rotating.look(SOON)
    assert rotating.is_refused and not rotating.is_unknown
