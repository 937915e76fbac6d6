"""Revocation lists: issued, read, and asked."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity import certificates, revocation
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import PeerCertificate
from agtphost.identity.revocation import UNKNOWN, RevocationError, Revocations, RevokedLinks
from tests.rows import each_row

NOW = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
CA = certificates.create_authority(now=NOW)
OTHER = certificates.create_authority(now=NOW, organization="other")


def issued(authority: certificates.Authority = CA) -> x509.Certificate:
    return certificates.issue_client_certificate(
        authority, SigningKey.generate().public, label="one", organization="o", now=NOW
    )


def peer(certificate: x509.Certificate, above: tuple[x509.Certificate, ...] = ()) -> PeerCertificate:
    return certificates.parse_peer_certificate(certificate.public_bytes(Encoding.DER), above)


def asked(*lists: x509.CertificateRevocationList, required: bool = True) -> Revocations:
    found = Revocations(required=required)
    found.adopt(RevokedLinks.from_lists(lists))
    return found


def test_a_revoked_certificate_is_told_from_all_others() -> None:
    """By issuer and serial number: the same number of another issuer is another certificate."""
    bad, good = issued(), issued()
    crl = revocation.issue_list(CA, now=NOW, revoke=[(bad.serial_number, "key-compromise")])
    found = asked(crl)
    assert found.objection(peer(bad), NOW.timestamp()) == "revoked"
    assert found.objection(peer(good), NOW.timestamp()) == ""
    foreign = revocation.issue_list(OTHER, now=NOW, revoke=[(good.serial_number, "superseded")])
    assert asked(foreign).objection(peer(good), NOW.timestamp()) == ""


def test_the_issuer_of_a_long_list_is_read_once() -> None:
    """With each entry it took four fifths of the time, so that 100,000 entries delayed a revocation by a second."""
    crl = revocation.issue_list(CA, now=NOW, revoke=[(number, "superseded") for number in range(1, 301)])
    called = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        found = RevokedLinks.from_lists([crl])
    finally:
        sys.setprofile(None)
    assert len(found.links) == 300
    assert called < 8 * 300


def test_what_revokes_an_intermediate_revokes_what_it_issued() -> None:
    """T-TL-76: the links of the chain count as the certificate's own."""
    leaf, middle = issued(OTHER), issued(CA)
    crl = revocation.issue_list(CA, now=NOW, revoke=[(middle.serial_number, "ca-compromise")])
    assert asked(crl).objection(peer(leaf, (middle,)), NOW.timestamp()) == "revoked"
    assert asked(crl).objection(peer(leaf), NOW.timestamp()) == ""


@pytest.mark.parametrize(("required", "answer"), [(True, "unknown"), (False, "")])
def test_an_expired_list_fails_closed(required: bool, answer: str) -> None:
    """After nextUpdate nobody knows who was revoked; with crl_required false the old list goes on counting."""
    bad = issued()
    crl = revocation.issue_list(CA, now=NOW, revoke=[(bad.serial_number, "unspecified")], days=1)
    later = (NOW + timedelta(days=1, minutes=1)).timestamp()
    found = asked(crl, required=required)
    assert found.objection(peer(issued()), later) == answer
    assert found.objection(peer(bad), later) == "revoked"


def test_nothing_is_known_of_a_list_that_is_gone() -> None:
    """And so no certificate counts; without any list at all, every one does."""
    found = Revocations()
    assert found.objection(peer(issued()), NOW.timestamp()) == ""
    found.adopt(UNKNOWN)
    assert found.objection(peer(issued()), NOW.timestamp()) == "unknown"
    assert RevokedLinks.from_lists(()).until == inf


def test_the_next_list_has_everything_of_the_one_before() -> None:
    """Numbers grow, dates and reasons stay, nothing is listed twice."""
    first, second = issued(), issued()
    one = revocation.issue_list(CA, now=NOW, revoke=[(first.serial_number, "key-compromise")])
    two = revocation.issue_list(
        CA,
        now=NOW + timedelta(hours=1),
        revoke=[(first.serial_number, "superseded"), (second.serial_number, "superseded")],
        before=one,
    )
    assert [(entry.serial_number, revocation.reason_of(entry)) for entry in two] == [
        (first.serial_number, "key-compromise"),
        (second.serial_number, "superseded"),
    ]
    numbers = [each.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number for each in (one, two)]
    assert numbers == [1, 2]
    with pytest.raises(RevocationError, match="not a revocation list of this authority"):
        revocation.issue_list(OTHER, now=NOW, before=two)


def test_files() -> None:
    """PEM with several lists, or one in DER."""
    lists = [revocation.issue_list(authority, now=NOW) for authority in (CA, OTHER)]
    pem = b"".join(revocation.pem_of(each) for each in lists)
    assert revocation.read_lists(pem) == tuple(lists)
    assert revocation.read_lists(lists[0].public_bytes(serialization.Encoding.DER)) == (lists[0],)


@each_row("octets", [b"", b"nonsense", b"\x30\x03\x02\x01\x01", b"-----END X509 CRL-----"])
def test_what_is_no_list(octets: bytes) -> None:
    """Each is refused, and nothing else is raised."""
    with pytest.raises(RevocationError):
        revocation.read_lists(octets)


def test_every_flipped_bit_of_a_list_is_found() -> None:
    """T-TL-77: what the authority did not sign as it is does not count, whatever was changed."""
    crl = revocation.issue_list(CA, now=NOW, revoke=[(issued().serial_number, "superseded")])
    octets = crl.public_bytes(Encoding.DER)
    revocation.require_signatures((crl,), (CA.certificate,))
    believed = 0
    for place in range(0, len(octets) * 8, 7):
        changed = bytearray(octets)
        changed[place // 8] ^= 1 << place % 8
        try:
            lists = revocation.read_lists(bytes(changed))
            revocation.require_signatures(lists, (CA.certificate,))
        except RevocationError:
            continue
        # An issuer that is not the authority any more: its list revokes nothing of the authority's.
        believed += any(found.issuer == CA.certificate.subject for found in lists)
    assert believed == 0


def test_a_file_of_two_lists_is_not_continued(tmp_path: Path) -> None:
    """The commands work on one authority's list; what is not there yet is None."""
    assert revocation.load_list(tmp_path / "none.pem") is None
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(revocation.pem_of(revocation.issue_list(each, now=NOW)) for each in (CA, OTHER)))
    with pytest.raises(RevocationError, match="2 revocation lists"):
        revocation.load_list(both)
