"""The ``agtp cert`` group: certificates of servers, registrars and agents (AGTP-CERT)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.cert.listing import list_command
from agtphost.cli.cert.renew import renew_command
from agtphost.cli.cert.revoke import crl_command, revoke_command
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.groups import VerbGroup
from agtphost.cli.local_files import load_verifying_key
from agtphost.cli.options import EXISTING, json_option
from agtphost.cli.output import print_answer, print_json, print_note
from agtphost.identity import certificates, files
from agtphost.identity.certificates import Authority, CertificateError
from agtphost.identity.extensions import ExtensionError
from agtphost.identity.genesis import Genesis, GenesisError
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.scopes import missing

if TYPE_CHECKING:
    from cryptography import x509


@click.group(cls=VerbGroup)
def command() -> None:
    """Issue, list, show, renew and revoke certificates."""


@dataclass(frozen=True, kw_only=True)
class _Order:
    """The values of a command line that issues a certificate."""

    name: str
    ca: Path | None
    ca_key: Path | None
    public_key: Path | None
    genesis: Path | None
    scopes: tuple[str, ...]
    activation: str | None
    organization: str
    days: int | None
    output: Path
    now: datetime

    @property
    def authority(self) -> Authority:
        if self.ca is None:
            raise WrongInput("--ca is missing", "Make one with `agtp cert issue authority NAME -o ca.pem`.")
        return Authority.load(self.ca, self.ca_key or self.ca.with_suffix(".key"))

    @property
    def origin(self) -> Genesis:
        if self.genesis is None:
            raise WrongInput("--genesis is missing", "Make one with `agtp genesis issue`.")
        try:
            return Genesis.load(self.genesis.read_bytes())
        except GenesisError as error:
            raise WrongInput(f"{self.genesis} is not a valid Genesis: {error}") from None

    def client_key(self) -> tuple[VerifyingKey, bytes | None]:
        """Return the key to certify, and its private half as PEM if it was made just now."""
        if self.public_key is not None:
            return load_verifying_key(self.public_key), None
        made = SigningKey.generate()
        return made.public, made.pem


def _issue_authority(order: _Order) -> dict[str, Path]:
    authority = certificates.create_authority(now=order.now, organization=order.name)
    return _write(order.output, authority.certificate, authority.key_pem)


def _issue_server(order: _Order) -> dict[str, Path]:
    key = certificates.new_tls_key()
    certificate = certificates.issue_server_certificate(
        order.authority,
        key.public_key(),
        server_id=order.name,
        now=order.now,
        organization=order.organization,
        days=order.days or certificates.SERVER_CERTIFICATE_DAYS,
    )
    return _write(order.output, certificate, certificates.key_pem_of(key))


def _issue_client(order: _Order) -> dict[str, Path]:
    public, private = order.client_key()
    certificate = certificates.issue_client_certificate(
        order.authority,
        public,
        label=order.name,
        organization=order.organization,
        now=order.now,
        days=order.days or certificates.AGENT_CERTIFICATE_DAYS,
    )
    return _write(order.output, certificate, private)


def _issue_agent(order: _Order) -> dict[str, Path]:
    origin = order.origin
    # A Genesis of another shape may have no scopes.
    if "scope" in origin.members and (beyond := missing(origin.scopes, order.scopes)):
        raise WrongInput(
            f"the Genesis does not grant {', '.join(beyond)}", "A certificate may only have scopes of its Genesis."
        )
    public, private = order.client_key()
    certificate = certificates.issue_agent_certificate(
        order.authority,
        public,
        label=order.name,
        organization=order.organization,
        agent_id=origin.agent_id,
        principal_id=origin.owner_id or origin.owner,
        commitment=order.scopes or origin.scopes,
        zone=origin.governance_zone,
        trust_tier=origin.trust_tier,
        archetype=origin.archetype,
        activation=order.activation,
        now=order.now,
        days=order.days or certificates.AGENT_CERTIFICATE_DAYS,
    )
    return _write(order.output, certificate, private)


KINDS: dict[str, Callable[[_Order], dict[str, Path]]] = {
    "authority": _issue_authority,
    "server": _issue_server,
    "agent": _issue_agent,
    "client": _issue_client,
}


@command.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name")
@click.option("--ca", type=EXISTING, metavar="FILE", help="The authority's certificate, with its .key file.")
@click.option("--ca-key", type=EXISTING, metavar="FILE", help="The authority's key, if it is elsewhere.")
@click.option("--public-key", type=EXISTING, metavar="FILE", help="Certify this key instead of making one.")
@click.option("--genesis", type=EXISTING, metavar="FILE", help="For an agent: its Genesis.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="TOKEN",
    help="For an agent: a scope that the certificate has; default: all of its Genesis.",
)
@click.option("--activation", metavar="ID", help="For an agent: its activation-certificate-id, kept in renewals.")
@click.option(
    "--organization", default="agtphost", show_default=True, metavar="NAME", help="Organization of the subject."
)
@click.option(
    "--days",
    type=click.IntRange(1, 398),
    metavar="DAYS",
    help="Validity of the certificate; default: depends on the kind.",
)
@click.option(
    "-o", "--output", type=EXISTING, required=True, metavar="FILE", help="The certificate; its key is written as .key."
)
@json_option
def issue(kind: str, as_json: bool, **given: Any) -> None:
    """
    Issue a certificate.

    The kinds are an authority, a server, an agent, and a client that is not an agent, such as a registrar. NAME is the
    server's host name or the label of the others. The private key is made here and written to the same directory, with
    the suffix .key, unless --public-key names a key.

    \b
    Examples:
      agtp cert issue authority "Example CA" -o ca.pem
      agtp cert issue server agents.example.com --ca ca.pem -o server.pem
      agtp cert issue client registrar --ca ca.pem --public-key registrar.pub -o registrar.pem
      agtp cert issue agent demo --ca ca.pem --genesis genesis.json -o agent.pem
    """
    order = _Order(now=datetime.now(UTC), **given)
    if order.public_key is not None and kind in ("authority", "server"):
        raise WrongInput(f"--public-key does not apply to {kind} certificates")
    _refuse_existing(order.output, make_key=order.public_key is None)
    try:
        written = KINDS[kind](order)
    except (CertificateError, ExtensionError, KeyFormatError) as error:
        raise WrongInput(f"the certificate cannot be issued: {error}") from None
    except OSError as error:
        raise WrongInput(f"{error.filename} cannot be read or written: {explain(error)}") from error
    if as_json:
        print_json({name: str(path) for name, path in written.items()})
        return
    for path in written.values():
        print_note(f"wrote {path}")


def _refuse_existing(output: Path, *, make_key: bool) -> None:
    for path in (output, output.with_suffix(".key")) if make_key else (output,):
        if path.exists():
            raise WrongInput(f"{path} exists", "Choose another name, or move the file away.")
    if make_key and output.with_suffix(".key") == output:
        raise WrongInput("the file of a certificate cannot end in .key")


def _write(output: Path, certificate: x509.Certificate, key: bytes | None) -> dict[str, Path]:
    """Write the key first, because a certificate without its key is useless."""
    written = {}
    if key is not None:
        written["key"] = output.with_suffix(".key")
        files.write_once(written["key"], key, files.PRIVATE)
    written["certificate"] = output
    files.write_once(output, certificates.pem_of(certificate), files.PUBLIC)
    return written


@command.command()
@click.argument("file", type=EXISTING)
@json_option
def show(file: Path, as_json: bool) -> None:
    """
    Show a certificate: its key's fingerprint, and the agent it names.

    \b
    Example:
      agtp cert show state/registrar.pem
    """
    print_answer(describe(file), as_json)


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def describe(file: Path) -> dict[str, object]:
    """
    Return what a certificate file says, by name.

    :raises agtphost.cli.failures.CommandError: the file has no certificate.
    """
    from hashlib import sha256

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    with local_file(file, CertificateError):
        certificate = certificates.load_certificate(file)
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    der = certificate.public_bytes(Encoding.DER)
    peer = certificates.parse_peer_certificate(der)
    return {
        "subject": peer.subject,
        "issuer": certificate.issuer.rfc4514_string(),
        "serial": peer.serial,
        "not_before": _moment(peer.not_before),
        "not_after": _moment(peer.not_after),
        "key_fingerprint": peer.fingerprint or None,
        "key_in_records": f"sha256:{sha256(spki).hexdigest()}",
        "sha256": peer.sha256,
        "agent_id": peer.agent_id,
        "principal_id": peer.principal_id,
        "commitment": None if peer.commitment is None else sorted(peer.commitment),
        "governance_zone": peer.governance_zone,
        "trust_tier": peer.trust_tier,
        "archetype": peer.archetype,
        "activation_certificate_id": peer.activation_certificate_id,
        "malformed": peer.malformed or None,
        "refused_critical_extensions": list(certificates.refused_critical_extensions(der)),
    }


command.add_command(list_command)
command.add_command(renew_command)
command.add_command(revoke_command)
command.add_command(crl_command)
