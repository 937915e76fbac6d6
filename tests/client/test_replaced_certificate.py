"""A client certificate that is replaced while a client runs: the next connection presents the new one."""

from __future__ import annotations

import os
from pathlib import Path

from agtphost.client.errors import InvalidCall
from agtphost.client.tls import PresentedCertificate, TLSSettings


def replace(path: Path, text: str) -> None:
    """Replace a file in one step."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_a_replaced_file_is_read_once(tmp_path: Path) -> None:
    """Reading happens after the change and not before it, and not for every call."""
    file = tmp_path / "agent.pem"
    file.write_text("one")
    presented, read = PresentedCertificate(TLSSettings(cert=file)), list[str]()
    follow = lambda: presented.follow(lambda: read.append(file.read_text()))  # noqa: E731
    assert not follow() and read == []
    replace(file, "two")
    assert follow() and not follow() and read == ["two"]


def test_half_a_pair_is_tried_again(tmp_path: Path) -> None:
    """A certificate whose key was not replaced yet changes nothing, and the next call looks again."""
    file = tmp_path / "agent.pem"
    file.write_text("one")
    presented = PresentedCertificate(TLSSettings(cert=file))
    before = presented.stamp
    replace(file, "two")

    def refuse() -> None:
        raise InvalidCall("The key is not the certificate's.")

    assert not presented.follow(refuse) and presented.stamp == before
    assert presented.follow(lambda: None)


def test_a_removed_file_leaves_the_certificate_in_use(tmp_path: Path) -> None:
    """A client without a certificate, or whose file is gone, goes on as it began."""
    file = tmp_path / "agent.pem"
    file.write_text("one")
    presented, none = PresentedCertificate(TLSSettings(cert=file)), PresentedCertificate(TLSSettings())
    file.unlink()
    assert not presented.follow(lambda: None) and not none.follow(lambda: None)
