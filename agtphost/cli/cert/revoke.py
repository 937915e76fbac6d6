"""The commands ``agtp cert revoke`` and ``agtp cert crl``: an authority's revocation list (RFC 5280 section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from cryptography import x509

from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.host_config import find_config, load_usable_config
from agtphost.cli.options import EXISTING, Connection, add_options, connection_options
from agtphost.cli.output import print_json, print_note, print_table
from agtphost.identity import certificates, files, revocation
from agtphost.identity.certificates import Authority, CertificateError
from agtphost.identity.revocation import REASONS, RevocationError

DEFAULT = "crl.pem"
"""File name of the list in the state directory, if the deployment names none."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """An authority and its revocation list."""

    ca: Path
    ca_key: Path
    crl: Path
    configured: bool = True
    """Whether the host reads the list."""

    def authority(self) -> Authority:
        with local_file(None, CertificateError):
            return Authority.load(self.ca, self.ca_key)

    def present(self) -> x509.CertificateRevocationList | None:
        with local_file(self.crl, RevocationError, remedy="Move it away to start a new list."):
            return revocation.load_list(self.crl)


def _place(where: Connection, given: _Given) -> _Place:
    """Return the files that the command line names, completed from the configured host."""
    ca, ca_key, crl = given.ca, given.ca_key, given.crl
    if ca is not None and crl is not None:
        return _Place(ca=ca, ca_key=ca_key or ca.with_suffix(".key"), crl=crl)
    path = find_config(where)
    if path is None:
        raise WrongInput("--ca and --crl are missing", "Give both, or the host.toml with --config.")
    keys = (("tls", "client_ca"), ("tls", "client_crl"), ("host", "state_dir"))
    config = load_usable_config(path, *keys, remedy="Or give --ca and --crl.")
    ca = ca or config.tls.client_ca
    listed = config.tls.client_crl
    if crl is None and len(listed) > 1:
        raise WrongInput("the host reads several revocation lists", "Name this authority's list with --crl.")
    crl = crl or (listed[0] if listed else config.host.state_dir / DEFAULT)
    read = any(crl.resolve() == entry.resolve() for entry in listed)
    return _Place(ca=ca, ca_key=ca_key or ca.with_suffix(".key"), crl=crl, configured=read)


def _publish(place: _Place, revoke: Sequence[tuple[int, str]], days: int, as_json: bool) -> None:
    try:
        with local_file(place.crl, doing="written"):
            issued = revocation.issue_list(
                place.authority(), now=datetime.now(UTC), revoke=revoke, before=place.present(), days=days
            )
            files.replace(place.crl, revocation.pem_of(issued), files.PUBLIC)
    except RevocationError as error:
        raise WrongInput(f"{place.crl} {error}") from None
    _show(place, issued, as_json)
    if not place.configured:
        print_note(f'the host does not read it yet: [tls] client_crl = ["{place.crl}"]')


def _show(place: _Place, issued: x509.CertificateRevocationList, as_json: bool) -> None:
    entries = [
        {
            "serial": f"{entry.serial_number:x}",
            "revoked_at": revocation.moment(entry.revocation_date_utc),
            "reason": revocation.reason_of(entry),
        }
        for entry in issued
    ]
    until = revocation.moment(issued.next_update_utc)
    if as_json:
        print_json(
            {
                "file": str(place.crl),
                "issuer": issued.issuer.rfc4514_string(),
                "issued_at": revocation.moment(issued.last_update_utc),
                "next_update": until,
                "revoked": entries,
                "read_by_host": place.configured,
            }
        )
        return
    print_table(("SERIAL", "REVOKED AT", "REASON"), (tuple(entry.values()) for entry in entries))
    print_note(f"{place.crl}: {len(entries)} revoked, valid until {until}")


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The options about the list."""

    ca: Path | None
    ca_key: Path | None
    crl: Path | None
    days: int


_list_options = add_options(
    _Given,
    "given",
    (
        click.option(
            "--ca", type=EXISTING, metavar="FILE", help="Certificate of the authority; default: [tls] client_ca."
        ),
        click.option("--ca-key", type=EXISTING, metavar="FILE", help="The authority's key, if it is elsewhere."),
        click.option("--crl", type=EXISTING, metavar="FILE", help="The revocation list; default: [tls] client_crl."),
        click.option(
            "--days", type=click.IntRange(1, 398), default=revocation.LIST_DAYS, show_default=True,
            metavar="DAYS",
            help="Time until the list must be renewed.",
        ),
    ),
)  # fmt: skip


@click.command("revoke")
@click.argument("files_", nargs=-1, type=EXISTING, metavar="[CERTIFICATE]...")
@click.option(
    "--serial",
    "serials",
    multiple=True,
    metavar="HEX",
    help="Serial number of a certificate, instead of its file; may be repeated.",
)
@click.option(
    "--reason",
    type=click.Choice(list(REASONS)),
    metavar="REASON",
    default="unspecified",
    show_default=True,
    help=f"Reason, which the list has for each certificate: {', '.join(REASONS)}.",
)
@_list_options
@connection_options
def revoke_command(
    files_: tuple[Path, ...],
    serials: tuple[str, ...],
    reason: str,
    given: _Given,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Revoke certificates permanently.

    Writes the authority's next revocation list. A host that reads it ([tls] client_crl) refuses the certificates within
    seconds, also on open connections.

    \b
    Examples:
      agtp cert revoke state/agents/demo/agent.pem --reason key-compromise
      agtp cert revoke --serial 5f3a --ca ca.pem --crl crl.pem
    """
    place = _place(where, given)
    numbers = [_serial(text) for text in serials]
    subject = place.authority().certificate
    for file in files_:
        with local_file(file, CertificateError):
            certificate = certificates.load_certificate(file)
        if certificate.issuer != subject.subject:
            raise WrongInput(f"{file} was issued by another authority: {certificate.issuer.rfc4514_string()}")
        numbers.append(certificate.serial_number)
    if not numbers:
        raise WrongInput("no certificate is named", "Give a certificate's file, or --serial.")
    _publish(place, [(number, reason) for number in numbers], given.days, as_json)


def _serial(text: str) -> int:
    try:
        return int(text.replace(":", ""), 16)
    except ValueError:
        raise WrongInput(f"--serial {text[:60]!r} is not a hexadecimal number", "Give one such as 5f3a.") from None


@click.command("crl")
@click.option("--show", is_flag=True, help="Only show the list.")
@_list_options
@connection_options
def crl_command(
    show: bool,
    given: _Given,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Renew an authority's list of revoked certificates.

    A list is valid for a few days only, so run this daily from a timer. If a list has expired, a host accepts no client
    certificate, unless [tls] crl_required is false.

    \b
    Examples:
      agtp cert crl
      agtp cert crl --show
    """
    place = _place(where, given)
    if not show:
        _publish(place, (), given.days, as_json)
        return
    present = place.present()
    if present is None:
        raise WrongInput(f"the revocation list {place.crl} does not exist", "Write it with `agtp cert crl`.")
    _show(place, present, as_json)
