"""What is checked before an agent is issued, and the registrar's statement of it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from agtphost.identity import issuance
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import encode
from agtphost.identity.genesis import Genesis
from agtphost.identity.issuance import IssueError, inspect_package, read_statement
from agtphost.identity.keys import SigningKey
from agtphost.identity.packages import PackageError
from tests.identity.samples import document, genesis_octets, key_of

NOW = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
KEY = key_of("issuing key")
ORIGIN = Genesis.load(genesis_octets(KEY))
Edit = Callable[[dict[str, bytes]], None]


def certificate(
    name: str, key: Any, issuer: str, by: Any, *, ca: bool, start: int = -400, days: int = 20_000
) -> x509.Certificate:
    """A certificate of a small hierarchy; it is good now as well, which is when commands look."""
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=start))
        .not_valid_after(NOW + timedelta(days=start + days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    return built.sign(by, None if isinstance(by, Ed25519PrivateKey) else hashes.SHA256())


ROOT_KEY, MIDDLE_KEY, AUTHOR_KEY, EC_KEY = (
    Ed25519PrivateKey.generate(),
    Ed25519PrivateKey.generate(),
    Ed25519PrivateKey.generate(),
    ec.generate_private_key(ec.SECP256R1()),
)
ROOT = certificate("root", ROOT_KEY, "root", ROOT_KEY, ca=True)
MIDDLE = certificate("middle", MIDDLE_KEY, "root", ROOT_KEY, ca=True)
AUTHOR = certificate("author", AUTHOR_KEY, "middle", MIDDLE_KEY, ca=False)


def pem(*chain: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in chain)


def nomo(folder: Path, *chain: x509.Certificate, edit: Edit = lambda _: None, after: Edit = lambda _: None) -> Path:
    """A package signed by the author; ``edit`` before the signature, ``after`` behind it."""
    members = document(trust_tier=2, verification_path="org-asserted")
    del members["agent_id"]
    files = {"manifest.json": canonical(members), "code/main.py": b"print()\n"}
    edit(files)
    signature = encode(SigningKey(AUTHOR_KEY).sign(issuance.covered_octets(files)))
    whole = {**files, "chain.pem": pem(*(chain or (AUTHOR, MIDDLE))), "signature": signature}
    after(whole)
    path = folder / "desk.nomo"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in whole.items():
            archive.writestr(name, content)
    return path


def look(
    path: Path, *, trusted: tuple[x509.Certificate, ...] = (ROOT,), given: str | None = None
) -> issuance.Inspected:
    return inspect_package(path, expected_hash=given, authorities=trusted, now=NOW)


def test_a_package_of_a_known_author_passes(tmp_path: Path) -> None:
    """AGTP-170: the chain from the author to the trusted authority goes into the evidence."""
    found = look(nomo(tmp_path))
    assert found.author == "CN=author" and len(found.chain) == 3 and found.manifest["name"] == "desk"
    assert found.evidence()["integrity_hash"] == found.reference
    assert look(nomo(tmp_path, AUTHOR, MIDDLE, ROOT)).chain == found.chain
    assert len(look(nomo(tmp_path), trusted=(MIDDLE,)).chain) == 2


def _drop(name: str) -> Edit:
    return lambda files: files.__delitem__(name)


def _change(files: dict[str, bytes]) -> None:
    files["code/main.py"] += b"#"


def _add(files: dict[str, bytes]) -> None:
    files["more.py"] = b""


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (_drop("chain.pem"), "has no chain.pem"),
        (_drop("signature"), "has no signature"),
        (_drop("code/main.py"), "not its author's"),
        (_change, "not its author's"),
        (_add, "not its author's"),
        (lambda files: files.update({"signature": b"AAAA"}), "not its author's"),
        (lambda files: files.update({"signature": "ü".encode()}), "not its author's"),
        (lambda files: files.update({"chain.pem": b"none"}), "no certificates"),
        (lambda files: files.update({"chain.pem": pem(*[AUTHOR] * 6)}), "more than 5"),
    ],
)
def test_a_package_that_is_not_its_authors(tmp_path: Path, after: Edit, why: str) -> None:
    """AGTP-170: nothing in a package can be added, taken out or changed after its author signed it."""
    with pytest.raises(PackageError, match=why):
        look(nomo(tmp_path, after=after))


@pytest.mark.parametrize(
    ("chain", "trusted", "why"),
    [
        ((AUTHOR,), (ROOT,), "does not lead to a trusted authority"),
        ((AUTHOR, MIDDLE), (), "does not lead to a trusted authority"),
        ((AUTHOR, ROOT), (ROOT,), "was not issued by"),
        ((MIDDLE, AUTHOR), (ROOT,), "does not lead"),
        (
            (certificate("author", AUTHOR_KEY, "middle", MIDDLE_KEY, ca=False, start=-40, days=30), MIDDLE),
            (ROOT,),
            "not valid",
        ),
        ((certificate("author", AUTHOR_KEY, "middle", MIDDLE_KEY, ca=False, start=5), MIDDLE), (ROOT,), "not valid"),
        ((certificate("author", AUTHOR_KEY, "root", MIDDLE_KEY, ca=False),), (ROOT,), "does not lead"),
        (
            (
                certificate("author", AUTHOR_KEY, "middle", MIDDLE_KEY, ca=False),
                certificate("middle", MIDDLE_KEY, "root", ROOT_KEY, ca=False),
            ),
            (ROOT,),
            "was not issued by",
        ),
        ((certificate("author", EC_KEY, "root", ROOT_KEY, ca=False),), (ROOT,), "not Ed25519"),
    ],
)
def test_a_chain_that_proves_nothing(
    tmp_path: Path, chain: tuple[x509.Certificate, ...], trusted: tuple[x509.Certificate, ...], why: str
) -> None:
    """AGTP-170: missing links, foreign roots, wrong order, expired, not valid yet, no authority, another key."""
    with pytest.raises(PackageError, match=why):
        look(nomo(tmp_path, *chain), trusted=trusted)


def test_the_hash_that_its_author_names(tmp_path: Path) -> None:
    """AGTP-170: another hash than the given one is refused, and named."""
    path = nomo(tmp_path)
    reference = look(path).reference
    assert look(path, given=reference.upper().replace("SHA256", "sha256")).reference == reference
    with pytest.raises(PackageError, match=reference):
        look(path, given="sha256:" + "0" * 64)
    other = path.with_suffix(".zip")
    path.rename(other)
    with pytest.raises(PackageError, match="ends in none"):
        look(other)


def test_a_statement_is_its_registrars_alone() -> None:
    """AGTP-170: every flipped character, another key and another Genesis are noticed."""
    signed = issuance.state(ORIGIN, KEY, label="desk", issued_at="2026-06-01T00:00:00Z", package=None)
    payload = read_statement(signed, ORIGIN)
    assert (payload["label"], payload["agent_id"]) == ("desk", ORIGIN.agent_id)
    for at in range(0, len(signed), 7):
        bad = bytearray(signed)
        bad[at] ^= 1
        with pytest.raises(IssueError):
            read_statement(bytes(bad), ORIGIN)
    stranger = SigningKey.generate()
    with pytest.raises(IssueError):
        read_statement(
            issuance.state(ORIGIN, stranger, label="desk", issued_at="2026-06-01T00:00:00Z", package=None), ORIGIN
        )
    other = Genesis.load(genesis_octets(KEY, issued_at="2026-05-02T09:00:00Z"))
    with pytest.raises(IssueError, match="another Genesis"):
        read_statement(signed, other)
    assert json.loads(json.dumps(dict(payload))) == payload
