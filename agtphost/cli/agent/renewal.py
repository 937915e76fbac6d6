"""The command ``agtp agent renew``: issue an agent's certificate again for the same key."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli.agent.grants import agent_argument
from agtphost.cli.agent.issue import authority_of
from agtphost.cli.audit.store import may_have_store, open_records
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.host_config import require_config
from agtphost.cli.options import HOST_TOML, Connection, json_option
from agtphost.cli.output import print_json, print_note, print_summary
from agtphost.client.local_host import LocalHost
from agtphost.client.local_identities import identities
from agtphost.identity import certificates, files, renewal, revocation
from agtphost.identity.certificates import CertificateError
from agtphost.identity.revocation import RevocationError
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from cryptography import x509

    from agtphost.config import Config

RETIRED = "retired"


@click.command("renew")
@agent_argument
@click.option(
    "--days",
    type=click.IntRange(1, certificates.AGENT_CERTIFICATE_DAYS),
    metavar="DAYS",
    help="Validity of the new certificate; default: 90 days.",
)
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")
@json_option
def renew_command(agent: str, days: int | None, config: Path | None, as_json: bool) -> None:
    """
    Renew an agent's certificate.

    The new certificate has the same key, Agent-ID and scopes. It replaces the old one in one step, and both are valid
    until each ends. The host needs no reload, because it trusts its authority. Genesis and Identity Document do not
    expire and stay unchanged. AGENT may be registrar.

    \b
    Examples:
      agtp agent renew demo
      agtp agent renew demo --days 30 --json
    """
    settings = require_config(Connection(config=config), "renewing a certificate")
    name, path = _file(settings, agent)
    with local_file(path, CertificateError):
        old = certificates.load_certificate(path)
    _require_not_revoked(settings, name, old)
    authority = authority_of(settings)
    if authority is None:
        raise WrongInput(
            f"the key of the authority is not here: {settings.tls.client_ca.with_suffix('.key')}",
            "Run `agtp cert issue agent NAME --public-key FILE --genesis FILE` where that key is.",
        )
    try:
        new = renewal.renew_certificate(old, authority, datetime.now(UTC), days or certificates.AGENT_CERTIFICATE_DAYS)
    except CertificateError as error:
        raise WrongInput(f"{path} cannot be renewed: {error}") from None
    with local_file(path, doing="written"):
        files.replace(path, certificates.pem_of(new), files.PUBLIC)
    fields = {
        "name": name,
        "certificate": str(path),
        "serial": f"{new.serial_number:x}",
        "ended": _moment(old.not_valid_after_utc),
        "ends": _moment(new.not_valid_after_utc),
    }
    if as_json:
        print_json(fields)
        return
    print_summary(fields)
    print_note("the host needs no reload; replace each copy of the old certificate that a client uses")


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _file(config: Config, agent: str) -> tuple[str, Path]:
    """Return name and certificate path of an agent that is given by directory, label or Agent-ID."""
    from agtphost.cli.identities import find_named

    known = identities(LocalHost.of(config))
    found = find_named(config, agent)
    name = agent if found is None else found.name
    if name in known:
        return name, known[name]
    if found is not None and found.hosted:
        raise WrongInput(f"{agent} is hosted here and has no certificate", "The host's own certificate serves it.")
    listed = f"There are certificates of {', '.join(known)}." if known else "Start the host once."
    raise WrongInput(f"this host has no certificate of {agent!r}", listed)


def _require_not_revoked(config: Config, name: str, certificate: x509.Certificate) -> None:
    """Require that neither the certificate nor its agent was revoked."""
    from cryptography.hazmat.primitives.serialization import Encoding

    for path in config.tls.client_crl:
        try:
            lists = revocation.read_lists(path.read_bytes())
        except (OSError, RevocationError) as error:
            raise WrongInput(f"cannot check whether the certificate was revoked: {path}: {explain(error)}") from error
        for each in lists:
            if each.issuer == certificate.issuer and each.get_revoked_certificate_by_serial_number(
                certificate.serial_number
            ):
                raise WrongInput(
                    f"the certificate of {name} was revoked, and its key is not certified again",
                    "`agtp agent new` issues another agent with a new key.",
                )
    agent_id = certificates.parse_peer_certificate(certificate.public_bytes(Encoding.DER)).agent_id
    if agent_id is None or not may_have_store(config):
        return
    with open_records(config) as reader:
        state = reader.lifecycle_states().get(agent_id)
    if state is not None and state.status == RETIRED:
        raise WrongInput(f"{name} was revoked on {state.since}, and this is final", "`agtp agent new` issues another.")
