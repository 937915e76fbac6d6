"""``agtp cert renew``: issue the host's own certificates again, or exchange them with another authority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.agent.issue import authority_of
from agtphost.cli.config_edit import FileChange, apply_changes
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.host_config import require_config
from agtphost.cli.options import EXISTING, Connection, host_options
from agtphost.cli.output import print_json, print_note, visible
from agtphost.cli.reload import show_outcome
from agtphost.identity import certificates, files
from agtphost.identity.certificates import CertificateError

if TYPE_CHECKING:
    from cryptography import x509

    from agtphost.config import Config

CSR_HELP = "Write a certificate signing request for its key and names, for another authority."
INSTALL_HELP = "Put this certificate, with its chain, in the place of the old one."


@dataclass(frozen=True, kw_only=True)
class _ServerFile:
    """A certificate with which the host proves its name."""

    name: str
    """Of the host, the SNI name, or the name of the HTTP listener."""

    certificate: Path
    key: Path

    def chain(self) -> list[x509.Certificate]:
        """Return the certificates of the file, the host's own first."""
        from cryptography import x509

        with local_file(self.certificate):
            octets = self.certificate.read_bytes()
        try:
            return x509.load_pem_x509_certificates(octets)
        except ValueError as error:
            raise WrongInput(f"{self.certificate} has no PEM certificate") from error

    def replace(self, chain: Sequence[x509.Certificate]) -> FileChange:
        file = self.certificate.resolve()
        return FileChange(file=file, before=file.read_bytes(), after=b"".join(map(certificates.pem_of, chain)))


@click.command("renew")
@click.argument("certificate", metavar="[NAME]", required=False)
@click.option(
    "--days",
    type=click.IntRange(1, certificates.SERVER_CERTIFICATE_DAYS),
    metavar="DAYS",
    help="Validity of the new certificates; default: 397 days.",
)
@click.option("--csr", type=EXISTING, metavar="FILE", help=CSR_HELP)
@click.option("--install", type=EXISTING, metavar="FILE", help=INSTALL_HELP)
@host_options
def renew_command(
    certificate: str | None, days: int | None, csr: Path | None, install: Path | None, where: Connection, as_json: bool
) -> None:
    """
    Renew the host's own certificates.

    Certificates that this deployment's authority issued are issued again, for the same key and the same names, and a
    running host presents them from its next connection on. Without NAME all of them are renewed; NAME is the host name
    of one, or the name of an HTTP listener such as gateway.

    For a certificate of another authority, --csr writes the request to send there, and --install takes the answer: the
    key and the names must be those of the old certificate, and it must be valid now. If the host refuses the new files,
    the old ones are put back. For agents and the registrar, use agtp agent renew.

    \b
    Examples:
      agtp cert renew
      agtp cert renew agents.example.com --csr request.pem
      agtp cert renew agents.example.com --install new.pem
      agtp cert renew --days 90 --json
    """
    config = require_config(where, "renewing a certificate")
    if csr is not None and install is not None:
        raise WrongInput("--csr and --install exclude each other", "First --csr; then --install with the answer.")
    chosen = _choose(config, certificate, only=csr is not None or install is not None)
    if csr is not None:
        _write_request(chosen[0], csr, as_json)
        return
    if install is not None:
        renewed = [(chosen[0], _check_answer(chosen[0], install))]
    else:
        renewed = list(_reissue(config, chosen, days))
    outcome = apply_changes([one.replace(chain) for one, chain in renewed], where)
    _print([_fields(one, chain[0]) for one, chain in renewed], outcome, as_json)


def _server_files(config: Config) -> Iterator[_ServerFile]:
    """Yield every certificate of the host, each file once."""
    from agtphost.config.surfaces import surfaces

    yield _ServerFile(name=config.host.server_id, certificate=config.tls.certificate, key=config.tls.key)
    for server in config.tls.server:
        yield _ServerFile(name=server.name, certificate=server.certificate, key=server.key)
    for surface in surfaces(config):
        section = surface.section
        if section.certificate is not None:
            yield _ServerFile(name=surface.name, certificate=section.certificate, key=section.key or config.tls.key)


def _choose(config: Config, name: str | None, *, only: bool) -> list[_ServerFile]:
    """
    Return the certificates that are meant.

    :param only: exactly one must be.
    """
    by_file = {one.certificate.resolve(): one for one in reversed(list(_server_files(config)))}
    every = list(reversed(by_file.values()))
    chosen = [one for one in every if name in (None, one.name)]
    listed = ", ".join(one.name for one in every)
    if not chosen:
        raise WrongInput(
            f"{name!r} is neither a host name nor an HTTP listener of this host with a certificate",
            f"Choose one of: {listed}.",
        )
    if only and len(chosen) > 1:
        raise WrongInput("this host has several certificates", f"Name one of: {listed}.")
    return chosen


def _reissue(
    config: Config, chosen: Sequence[_ServerFile], days: int | None
) -> Iterator[tuple[_ServerFile, list[x509.Certificate]]]:
    """Yield the certificates with the chains that replace them; each chain begins with the new certificate."""
    authority = authority_of(config)
    for one in chosen:
        old, *others = one.chain()
        remedy = (
            f"Run `agtp cert renew {one.name} --csr request.pem`, send the file to its authority, then use --install."
        )
        if authority is None:
            key = config.tls.client_ca.with_suffix(".key")
            raise WrongInput(f"the key of the authority is not here: {key}", remedy)
        try:
            new = certificates.reissue_server_certificate(
                authority, old, now=datetime.now(UTC), days=days or certificates.SERVER_CERTIFICATE_DAYS
            )
        except CertificateError as error:
            raise WrongInput(f"{one.certificate} cannot be renewed: {error}", remedy) from None
        yield one, [new, *others]


def _write_request(one: _ServerFile, output: Path, as_json: bool) -> None:
    """Write a certificate signing request with the subject and the names of the present certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed448, ed25519
    from cryptography.hazmat.primitives.serialization import Encoding

    old, key = one.chain()[0], _load_key(one.key)
    builder = x509.CertificateSigningRequestBuilder().subject_name(old.subject)
    if names := certificates.server_names(old):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    digest = None if isinstance(key, (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey)) else hashes.SHA256()
    with local_file(output, FileExistsError, doing="written", remedy="Choose another name, or move the file away."):
        files.write_once(output.absolute(), builder.sign(key, digest).public_bytes(Encoding.PEM), files.PUBLIC)
    if as_json:
        print_json({"name": one.name, "request": str(output)})
    else:
        click.echo(
            visible(f"wrote {output}: a request for {one.name}; then `agtp cert renew {one.name} --install FILE`")
        )


def _load_key(path: Path) -> Any:
    """Return a private key of any kind."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with local_file(path):
        octets = path.read_bytes()
    try:
        return load_pem_private_key(octets, password=None)
    except (ValueError, TypeError) as error:
        raise WrongInput(f"{path} has no private key that can be read without a passphrase") from error


def _check_answer(one: _ServerFile, answer: Path) -> list[x509.Certificate]:
    """
    Return the chain that an authority sent.

    :raises WrongInput: it is not for the key or the names of the present certificate, or it is not valid now.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    new, *others = _ServerFile(name=one.name, certificate=answer, key=one.key).chain()
    old = one.chain()[0]

    def octets(key: Any) -> bytes:
        found: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return found

    if octets(new.public_key()) != octets(_load_key(one.key).public_key()):
        raise WrongInput(f"{answer} is not for the key {one.key}", "Ask its authority with the file of --csr.")
    given = certificates.server_names(new)
    if missing := [str(each.value) for each in certificates.server_names(old) if each not in given]:
        raise WrongInput(
            f"{answer} lacks names that {one.certificate} has: {', '.join(missing)}",
            "Clients that use them would refuse the host; ask for a certificate with all of them.",
        )
    now = datetime.now(UTC)
    if not new.not_valid_before_utc <= now < new.not_valid_after_utc:
        span = f"{_moment(new.not_valid_before_utc)} to {_moment(new.not_valid_after_utc)}"
        raise WrongInput(f"{answer} is valid from {span}, and not now")
    return [new, *others]


def _fields(one: _ServerFile, new: x509.Certificate) -> dict[str, str]:
    return {
        "name": one.name,
        "certificate": str(one.certificate),
        "serial": f"{new.serial_number:x}",
        "ends": _moment(new.not_valid_after_utc),
    }


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(renewed: Sequence[Mapping[str, str]], outcome: Mapping[str, Any] | None, as_json: bool) -> None:
    if as_json:
        print_json({"certificates": list(renewed), "applied": outcome is not None, "reload": outcome})
        return
    for each in renewed:
        click.echo(visible(f"renewed {each['name']}: {each['certificate']}, valid until {each['ends']}"))
    if outcome is None:
        print_note("the host does not run; its next start uses the new certificates")
    else:
        show_outcome(outcome)
