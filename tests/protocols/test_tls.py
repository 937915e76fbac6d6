"""TLS on a real port: what handshakes complete, and with whom."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_twisted
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import SSL

from agtphost.config.tls import TLS
from agtphost.errors import ConfigurationError
from agtphost.protocols import ServerTLS
from tests.protocols import authorities
from tests.protocols.authorities import AGENT_ID, DAY, UNKNOWN, Identity, agtp_extensions, issue, now
from tests.protocols.links import ask
from tests.protocols.loopback import Host, Site, in_thread, make_site, read_all

OK = b"AGTP/1.0 200 OK\r\n"


def again(tls: ServerTLS) -> None:
    """What a reload does with the files as they are now."""
    tls.follow(ServerTLS.load(tls.files))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


# Versions and parameters


@pytest_twisted.ensureDeferred
async def test_tls_1_3_it_is(site: Site) -> None:
    """AGTP-001, T-TL-1: over TLS 1.3 a request is answered; nothing is resumed, whatever is presented."""
    context = site.client()

    def twice(host: Host) -> list[tuple[str | None, bool]]:
        seen = []
        session = None
        for _ in range(2):
            raw = host.connect()
            connection = context.wrap_socket(raw, server_hostname="localhost", session=session)
            connection.sendall(ask())
            assert connection.recv(65536).startswith(OK)
            seen.append((connection.version(), bool(connection.session_reused)))
            session = connection.session
            connection.close()
        return seen

    async with Host(site) as host:
        assert await in_thread(twice, host) == [("TLSv1.3", False)] * 2


@pytest_twisted.ensureDeferred
async def test_tls_1_2_is_refused(site: Site) -> None:
    """AGTP-006, T-TL-2: TLS 1.2 gets a handshake alert."""
    context = site.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with Host(site) as host:
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
            await in_thread(host.exchange, context)


@pytest.mark.parametrize(("curve", "accepted"), [("X25519", True), ("prime256v1", True), ("secp384r1", False)])
@pytest_twisted.ensureDeferred
async def test_groups(site: Site, curve: str, accepted: bool) -> None:
    """T-TL-10: X25519 and P-256 agree on keys, others do not."""
    context = site.client()
    context.set_ecdh_curve(curve)
    async with Host(site) as host:
        if accepted:
            assert (await in_thread(host.exchange, context)).startswith(OK)
        else:
            with pytest.raises(ssl.SSLError, match=r"(?i)handshake"):
                await in_thread(host.exchange, context)


@pytest_twisted.ensureDeferred
async def test_groups_without_the_binding(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pyOpenSSL cannot restrict the groups by a list, P-256 alone is left, and still serves."""
    monkeypatch.setattr("agtphost.protocols.tls._pyopenssl", Bindings())
    async with Host(site) as host:
        assert (await in_thread(host.exchange, site.client())).startswith(OK)
        context = site.client()
        context.set_ecdh_curve("X25519")
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake"):
            await in_thread(host.exchange, context)


class Bindings:
    """pyOpenSSL without its binding of the library."""

    OP_NO_RENEGOTIATION = SSL.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    ("offered", "selected"),
    [
        ([], None),
        (["agtp/1.0"], "agtp/1.0"),
        (["agtp"], "agtp"),
        (["h2", "agtp", "agtp/1.0"], "agtp/1.0"),
        (["h2"], ssl.SSLError),
        (["agtp/2.0", "http/1.1"], ssl.SSLError),
    ],
)
@pytest_twisted.ensureDeferred
async def test_application_protocol(site: Site, offered: list[str], selected: object) -> None:
    """T-TL-20: no ALPN is fine, AGTP is selected where offered, anything else alone is refused."""
    context = site.client()
    if offered:
        context.set_alpn_protocols(offered)

    def negotiate(host: Host) -> str | None:
        with host.secure(context) as connection:
            connection.sendall(ask())
            assert connection.recv(65536).startswith(OK)
            return connection.selected_alpn_protocol()

    async with Host(site) as host:
        if selected is ssl.SSLError:
            with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
                await in_thread(negotiate, host)
            # The refused handshake left nothing behind that would fail the next.
            context = site.client()
            assert await in_thread(negotiate, host) is None
        else:
            assert await in_thread(negotiate, host) == selected


@pytest_twisted.ensureDeferred
async def test_cleartext_gets_no_octet_of_agtp(site: Site) -> None:
    """T-TL-30: a request without TLS is not answered; at most a TLS alert comes back."""

    def plain(host: Host) -> bytes:
        with host.connect() as connection:
            connection.sendall(ask() * 3)
            return read_all(connection)

    async with Host(site) as host:
        received = await in_thread(plain, host)
        assert b"AGTP" not in received
        assert len(received) <= 7
        assert host.dispatcher.requests == []


# Client certificates


def good(root: Identity) -> Identity:
    return issue(root, name="agent", key=ed25519.Ed25519PrivateKey.generate(), extensions=agtp_extensions())


ACCEPTED: dict[str, Callable[[Identity], Identity]] = {
    "agtp extensions": good,
    "no agtp extensions": lambda root: issue(root),
    "no key usage": lambda root: issue(root, usage=None),
    "unknown extension, not critical": lambda root: issue(root, extensions=[(UNKNOWN, False)]),
    "three intermediates": lambda root: issue(authorities.intermediates(root, 3), extensions=agtp_extensions()),
    "known critical extension": lambda root: issue(
        root,
        extensions=[
            *agtp_extensions(),
            (x509.SubjectAlternativeName([x509.DNSName("agent.example")]), True),
        ],
    ),
}

REFUSED: dict[str, Callable[[Identity], Identity]] = {
    "unknown critical extension": lambda root: issue(root, extensions=[(UNKNOWN, True)]),
    "unknown critical beside agtp": lambda root: issue(root, extensions=[*agtp_extensions(), (UNKNOWN, True)]),
    "unknown critical on the intermediate": lambda root: issue(
        authorities.intermediates(root, 1, extensions=[(UNKNOWN, True)]), extensions=agtp_extensions()
    ),
    "unknown critical on a farther intermediate": lambda root: issue(
        issue(authorities.intermediates(root, 1, extensions=[(UNKNOWN, True)]), name="near", authority=True),
        extensions=agtp_extensions(),
    ),
    "expired": lambda root: issue(root, start=now() - 3 * DAY, end=now() - 2 * DAY),
    "not yet valid": lambda root: issue(root, start=now() + DAY, end=now() + 2 * DAY),
    "self-signed": lambda root: issue(extensions=agtp_extensions()),
    "another authority": lambda root: issue(issue(name="root", authority=True), extensions=agtp_extensions()),
    "issued by no authority": lambda root: issue(issue(authorities.intermediates(root, 1), name="leaf that signs")),
    "for servers": lambda root: issue(root, usage=ExtendedKeyUsageOID.SERVER_AUTH),
    "weak key": lambda root: issue(root, key=authorities.weak_key()),
    "four intermediates": lambda root: issue(authorities.intermediates(root, 4)),
}


@pytest.mark.parametrize("kind", ACCEPTED)
@pytest_twisted.ensureDeferred
async def test_accepted_certificates(site: Site, kind: str) -> None:
    """T-TL-50: companion section 9: critical AGTP extensions pass, and so does what OpenSSL knows."""
    async with Host(site) as host:
        identity = ACCEPTED[kind](site.root)
        assert (await in_thread(host.exchange, site.client(identity))).startswith(OK)
        [peer] = host.dispatcher.peers
        assert peer.certificate is not None
        assert peer.certificate.agent_id == (AGENT_ID if identity_names_agent(identity) else None)
        assert (peer.address, peer.loopback, peer.server_name) == ("127.0.0.1", True, "localhost")


def identity_names_agent(identity: Identity) -> bool:
    """Whether a certificate has the AGTP extensions."""
    known = {kind.oid for kind, _ in ((item, 0) for item, _ in agtp_extensions())}
    return bool(known & {item.oid for item in identity.certificate.extensions})


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("client_auth", ["optional", "required"])
@pytest_twisted.ensureDeferred
async def test_refused_certificates(tmp_path: Path, kind: str, client_auth: str) -> None:
    """T-TL-51 to T-TL-69: a certificate that does not verify ends the handshake, also where none is needed."""
    site = make_site(tmp_path, client_auth)  # type: ignore[arg-type]
    context = site.client()
    if kind == "weak key":
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
    certificate, key = REFUSED[kind](site.root).save(tmp_path, "bad")
    context.load_cert_chain(certificate, key)
    async with Host(site) as host:
        # In TLS 1.3 a client learns of the refusal when it reads.
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await in_thread(host.exchange, context)
        assert host.dispatcher.peers == []
        # The refused handshake left nothing behind that would fail the next.
        assert (await in_thread(host.exchange, site.client(good(site.root)))).startswith(OK)


@pytest_twisted.ensureDeferred
async def test_the_control_ignoring_critical_extensions_would_accept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with nobody to answer for ignored criticality, the unknown extension passes."""
    monkeypatch.setattr("agtphost.identity.chain_verification.refused_critical_extensions", lambda der: ())
    async with Host(site) as host:
        identity = REFUSED["unknown critical extension"](site.root)
        assert (await in_thread(host.exchange, site.client(identity))).startswith(OK)


@pytest_twisted.ensureDeferred
async def test_a_malformed_agtp_extension_is_for_the_dispatcher(site: Site) -> None:
    """Companion section 9.2: TLS accepts it, the peer says what is wrong, and 401 is the dispatcher's."""
    identity = issue(site.root, extensions=agtp_extensions(b"A" * 64))
    async with Host(site) as host:
        await in_thread(host.exchange, site.client(identity))
        [peer] = host.dispatcher.peers
        assert peer.certificate is not None
        assert peer.certificate.malformed
        assert peer.certificate.agent_id is None


@pytest.mark.parametrize(
    ("client_auth", "shown", "served"),
    [
        ("optional", False, True),
        ("required", False, False),
        ("required", True, True),
        ("none", False, True),
        ("none", True, True),
    ],
)
@pytest_twisted.ensureDeferred
async def test_whether_a_certificate_is_needed(tmp_path: Path, client_auth: str, shown: bool, served: bool) -> None:
    """T-TL-70: optional serves both, required only who shows one, none does not ask."""
    site = make_site(tmp_path, client_auth)  # type: ignore[arg-type]
    context = site.client(good(site.root) if shown else None)
    async with Host(site) as host:
        if served:
            assert (await in_thread(host.exchange, context)).startswith(OK)
            [peer] = host.dispatcher.peers
            assert (peer.certificate is not None) == (shown and client_auth != "none")
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await in_thread(host.exchange, context)


@pytest_twisted.ensureDeferred
async def test_revoked_certificates(tmp_path: Path) -> None:
    """T-TL-75: a revoked certificate is refused from the reload on, for new connections, without a restart."""
    revocations = tmp_path / "revoked.pem"
    site = make_site(tmp_path, client_crl=(revocations,))
    revocations.write_bytes(authorities.revocation_list(site.root))
    agent, other = good(site.root), good(site.root)
    async with Host(site) as host:
        assert (await in_thread(host.exchange, site.client(agent))).startswith(OK)
        revocations.write_bytes(authorities.revocation_list(site.root, agent))
        assert (await in_thread(host.exchange, site.client(agent))).startswith(OK)
        again(host.tls)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await in_thread(host.exchange, site.client(agent))
        assert (await in_thread(host.exchange, site.client(other))).startswith(OK)


@pytest_twisted.ensureDeferred
async def test_a_missing_revocation_list_refuses(tmp_path: Path) -> None:
    """Fail closed: an authority whose list is not there has no valid certificates."""
    revocations = tmp_path / "revoked.pem"
    site = make_site(tmp_path, client_crl=(revocations,))
    foreign = issue(name="foreign", authority=True)
    revocations.write_bytes(authorities.revocation_list(foreign))
    async with Host(site) as host:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await in_thread(host.exchange, site.client(good(site.root)))


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("required", [True, False])
async def test_an_issuer_without_a_list_is_put_up_with_only_where_that_is_said(tmp_path: Path, required: bool) -> None:
    """T-TL-78: with ``crl_required = false`` a list that is missing refuses nobody, and one that is there counts."""
    revocations = tmp_path / "revoked.pem"
    site = make_site(tmp_path, client_crl=(revocations,), crl_required=required)
    revocations.write_bytes(authorities.revocation_list(issue(name="foreign", authority=True)))
    agent = good(site.root)
    async with Host(site) as host:
        if required:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await in_thread(host.exchange, site.client(agent))
        else:
            assert (await in_thread(host.exchange, site.client(agent))).startswith(OK)
        revocations.write_bytes(authorities.revocation_list(site.root, agent))
        again(host.tls)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await in_thread(host.exchange, site.client(agent))


def test_a_damaged_list_keeps_no_new_certificate_out(tmp_path: Path) -> None:
    """While the host runs: the rest is adopted, and nobody's certificate counts; at start it is a fault."""
    revocations = tmp_path / "revoked.pem"
    site = make_site(tmp_path, client_crl=(revocations,))
    revocations.write_bytes(authorities.revocation_list(site.root))
    tls = ServerTLS.load(site.files)
    assert tls.revocations.revoked.until > 0
    revocations.write_bytes(b"nonsense")
    prepared = tls.prepare()
    assert len(prepared.faults) == 1 and prepared.revoked.until == 0
    with pytest.raises(ConfigurationError, match="holds no revocation list"):
        again(tls)
    assert tls.revocations.revoked.until > 0, "a reload that fails changes nothing"


def test_a_forged_list_is_a_fault(tmp_path: Path) -> None:
    """T-TL-77: in the authority's name, by another key."""
    revocations = tmp_path / "revoked.pem"
    site = make_site(tmp_path, client_crl=(revocations,))
    revocations.write_bytes(authorities.revocation_list(issue(name="root", authority=True)))
    with pytest.raises(ConfigurationError, match="did not sign"):
        ServerTLS.load(site.files)


# Files


@pytest_twisted.ensureDeferred
async def test_reload_is_atomic(site: Site) -> None:
    """Security invariant 13: a bad file changes nothing; a good one is in force for the next connection."""

    def serial(host: Host) -> int:
        with host.secure(site.client()) as connection:
            der = connection.getpeercert(binary_form=True)
            assert der is not None
            return x509.load_der_x509_certificate(der).serial_number

    async with Host(site) as host:
        first = await in_thread(serial, host)
        renewed = issue(site.root, name="localhost", usage=ExtendedKeyUsageOID.SERVER_AUTH)
        site.files.certificate.write_bytes(renewed.pem())
        with pytest.raises(ConfigurationError, match="does not hold the private key"):
            again(host.tls)
        assert await in_thread(serial, host) == first
        site.files.key.write_bytes(renewed.key_pem())
        again(host.tls)
        assert await in_thread(serial, host) == renewed.certificate.serial_number != first


def broken(site: Site, fault: str) -> TLS:
    """The site's files, with one fault."""
    files = site.files
    if fault == "missing certificate":
        files.certificate.unlink()
    elif fault == "no certificate":
        files.certificate.write_text("nonsense")
    elif fault == "empty certificate":
        files.certificate.write_text("")
    elif fault == "empty authority":
        (site.folder / "root.pem").write_text("")
    elif fault == "missing key":
        files.key.unlink()
    elif fault == "no key":
        files.key.write_text("nonsense")
    elif fault == "another key":
        files.key.write_bytes(issue().key_pem())
    elif fault == "weak certificate":
        weak = issue(site.root, key=authorities.weak_key(), usage=ExtendedKeyUsageOID.SERVER_AUTH)
        weak.save(site.folder, "server")
    elif fault == "no authority":
        (site.folder / "root.pem").write_text("nonsense")
    else:
        revocations = site.folder / "revoked.pem"
        revocations.write_bytes(
            authorities.revocation_list(site.root, extension=UNKNOWN) if "unknown" in fault else b"nonsense"
        )
        return TLS(certificate=files.certificate, key=files.key, client_ca=files.client_ca, client_crl=(revocations,))
    return files


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing certificate", r"server\.pem: cannot be read"),
        ("no certificate", r"server\.pem: holds no PEM certificate"),
        ("empty certificate", r"server\.pem: is empty"),
        ("missing key", r"server\.key: cannot be read"),
        ("no key", r"server\.key: does not hold"),
        ("another key", r"server\.key: does not hold"),
        ("weak certificate", r"server\.pem: holds a certificate that TLS does not accept"),
        ("no authority", r"root\.pem: holds no PEM certificate"),
        ("empty authority", r"root\.pem: is empty"),
        ("no revocation list", r"revoked\.pem: holds no revocation list in PEM or DER"),
        ("unknown revocation list extension", r"unknown critical extension 1\.3\.6\.1\.4\.1\.55555\.1"),
    ],
)
def test_a_faulty_file_is_named(site: Site, fault: str, message: str) -> None:
    """A file that cannot be used keeps the host from starting, and is named."""
    with pytest.raises(ConfigurationError, match=message):
        ServerTLS.load(broken(site, fault))


def test_all_faulty_files_are_named(site: Site) -> None:
    """All problems at once."""
    site.files.key.unlink()
    (site.folder / "root.pem").unlink()
    with pytest.raises(ConfigurationError) as caught:
        ServerTLS.load(site.files)
    assert len(caught.value.problems) == 2


def test_the_end_of_the_first_certificate_is_known(site: Site, tmp_path: Path) -> None:
    """Of the host's own, and of those of further names."""
    own = {"certificate": site.files.certificate, "key": site.files.key, "client_auth": "none"}
    (leaf, *_) = x509.load_pem_x509_certificates(site.files.certificate.read_bytes())
    assert ServerTLS.load(TLS(**own)).until == leaf.not_valid_after_utc.timestamp()
    sooner = issue(name="other", usage=None, end=now() + DAY / 24)
    certificate, key = sooner.save(tmp_path, "sooner")
    named = {"name": "other.example", "certificate": certificate, "key": key}
    until = ServerTLS.load(TLS(**own, server=[named])).until
    assert until == sooner.certificate.not_valid_after_utc.timestamp() < leaf.not_valid_after_utc.timestamp()


def test_an_authority_is_not_needed_where_nobody_is_asked(site: Site) -> None:
    """With ``client_auth = "none"`` no authority is read."""
    assert ServerTLS.load(TLS(certificate=site.files.certificate, key=site.files.key, client_auth="none"))
