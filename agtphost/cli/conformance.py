"""The command ``agtp conformance``: test a server from outside, requirement by requirement."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from agtphost.cli.colour import Verdict, echo
from agtphost.cli.failures import HostRefused, NoConnection, WrongInput, local_file
from agtphost.cli.host_config import AGENT_FILES, find_config, load_usable_config
from agtphost.cli.local_files import load_verifying_key
from agtphost.cli.options import EXISTING, HERE, Connection, tls_connection_options
from agtphost.cli.output import print_json
from agtphost.cli.progress import show_progress
from agtphost.cli.target import Target, resolve
from agtphost.client.local_host import LocalHost
from agtphost.client.local_identities import CALLER, REGISTRAR, certified_agent, identities, pair, present
from agtphost.conformance.access import Access, Carrier, Role
from agtphost.conformance.case import Case
from agtphost.conformance.cases import every_case
from agtphost.conformance.link import Credentials, Endpoint, Unreachable
from agtphost.conformance.reports import describe, document, junit, line, listing, summary
from agtphost.conformance.runner import CaseResult, Outcome, Plan, counts, run
from agtphost.conformance.target import connect
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.uris import DEFAULT_PORT, UriError, parse

LONGEST_WAIT = 15.0
"""Most seconds that one answer may take, even with a larger ``--timeout``."""


@dataclass(frozen=True, kw_only=True)
class SuppliedAccess:
    """The credentials and permissions that the command line adds to a connection."""

    second_cert: Path | None
    second_key: Path | None
    registrar_cert: Path | None
    registrar_key: Path | None
    signing_key: Path | None
    state_dir: Path | None
    destructive: bool
    expendable: str | None


VERDICTS = {Outcome.PASSED: Verdict.GOOD, Outcome.FAILED: Verdict.BAD}
"""The colour of each outcome; a case that was not run has none."""


@click.command(
    epilog="Exit status: 0 every case that ran passed, 1 a case failed, 2 wrong usage, 3 no connection.",
)
@click.argument("uri", default=HERE)
@click.option("--list", "listing", is_flag=True, help="Print every case and what it needs; connect to nothing.")
@click.option(
    "--only", multiple=True, metavar="PATTERN", help="Cases to run: an id, an area or a requirement; * and ? match."
)
@click.option("--fail-fast", is_flag=True, help="Stop at the first failure.")
@click.option("--strict", is_flag=True, help="Count a case that was not run as failed.")
@click.option("--junit", "report", type=click.Path(path_type=Path), metavar="FILE", help="Write a JUnit report.")
@click.option("--second-cert", type=EXISTING, metavar="FILE", help="Certificate of a second agent (PEM).")
@click.option(
    "--second-key",
    type=EXISTING,
    metavar="FILE",
    help="Private key of --second-cert; default: the .key file next to it.",
)
@click.option(
    "--registrar-cert", type=EXISTING, metavar="FILE", help="Certificate of the registrar that issued the agents (PEM)."
)
@click.option(
    "--registrar-key",
    type=EXISTING,
    metavar="FILE",
    help="Private key of --registrar-cert; default: the .key file next to it.",
)
@click.option("--signing-key", type=EXISTING, metavar="FILE", help="Public key of the host's record signatures.")
@click.option(
    "--state-dir",
    type=EXISTING,
    metavar="DIR",
    help="Take certificates and keys from this state directory of a development host.",
)
@click.option("--destructive", is_flag=True, help="Run the cases that revoke an agent; needs --expendable.")
@click.option("--expendable", metavar="ID", help="Agent-ID of an agent that may be revoked.")
@click.option("--quic", is_flag=True, help="Run over QUIC (UDP) instead of TLS; needs agtphost[quic].")
@tls_connection_options
def command(
    uri: str,
    listing: bool,
    only: Sequence[str],
    fail_fast: bool,
    strict: bool,
    report: Path | None,
    where: Connection,
    as_json: bool,
    **more: Any,
) -> None:
    """
    Test a server over the wire, case by case.

    Each case cites the requirements that it tests. Without --destructive the server is not changed. A case that needs
    an option which is missing is reported as not run, and so is one about TCP in a run over QUIC.

    \b
    Examples:
      agtp conformance agtp://agents.example.com --cacert ca.pem --cert me.pem --agent-id ID
      agtp conformance --config host.toml --junit conformance.xml
      agtp conformance --config host.toml --quic
      agtp conformance --list
      agtp conformance --only 'wire.*' --only AGTP-046 --fail-fast
    """
    if listing:
        _list([case for case in every_case() if Plan(only=only).selects(case)], as_json=as_json)
        return
    plan = Plan(only=only, strict=strict, fail_fast=fail_fast)
    if not any(plan.selects(case) for case in every_case()):
        raise WrongInput("no case matches --only", "List all cases with agtp conformance --list.")
    target, access = _access(uri, where, SuppliedAccess(**more))
    results = _examine(access, plan, quiet=as_json)
    if report is not None:
        _write(report, junit(results, target.uri))
    _conclude(results, target.uri, as_json=as_json)


def _list(cases: Sequence[Case], *, as_json: bool) -> None:
    if as_json:
        print_json([describe(case) for case in cases])
        return
    for each in listing(cases):
        click.echo(each)


def _examine(access: Access, plan: Plan, *, quiet: bool) -> list[CaseResult]:
    def print_result(result: CaseResult) -> None:
        if not quiet:
            echo(line(result), VERDICTS.get(result.outcome))

    try:
        target = connect(access)
    except Unreachable as error:
        raise NoConnection(str(error), "Check the address, --cacert and --cert.") from None
    with target:
        return run(target, _cases(), plan, print_result)


def _cases() -> Iterable[Case]:
    """Return every case; show progress only if the results do not go to a terminal."""
    cases = every_case()
    return cases if sys.stdout.isatty() else show_progress(cases, "cases examined", len(cases))


def _write(report: Path, octets: bytes) -> None:
    with local_file(report, doing="written"):
        report.write_bytes(octets)


def _conclude(results: Sequence[CaseResult], uri: str, *, as_json: bool) -> None:
    failed = counts(results)[Outcome.FAILED]
    answer = document(results, uri)
    if failed:
        if not as_json:
            click.echo(summary(results))
        raise HostRefused(f"{failed} of {len(results)} cases failed", answer=answer)
    if as_json:
        print_json(answer)
    else:
        click.echo(summary(results))


# Credentials


def _access(uri: str, where: Connection, supplied: SuppliedAccess) -> tuple[Target, Access]:
    if supplied.destructive != (supplied.expendable is not None):
        raise WrongInput("--destructive and --expendable need each other", "Give both, or neither.")
    if supplied.expendable is not None and not is_agent_id(supplied.expendable):
        raise WrongInput(
            f"--expendable {supplied.expendable[:80]!r} is not an Agent-ID of 64 lower-case hexadecimal digits",
            "`agtp agent ls` lists the Agent-IDs of a host's agents.",
        )
    if supplied.state_dir is not None:
        where = _from_state(where, supplied.state_dir)
    target = resolve(where, uri)
    keys = {kid: key.public_key for kid, key in target.keys.items()}
    if supplied.signing_key is not None:
        key = load_verifying_key(supplied.signing_key)
        keys = {key.kid: key.public_key}
    credentials, others = _credentials(target, where, supplied)
    return target, Access(
        where=_endpoint(target.uri),
        trust=target.cacert,
        credentials=credentials,
        keys=keys,
        expendable=supplied.expendable,
        timeout=min(target.timeout, LONGEST_WAIT),
        others=others,
        carrier=Carrier.QUIC if target.quic else Carrier.TLS,
        plain=target.plain_parameters,
    )


def _endpoint(uri: str) -> Endpoint:
    try:
        found = parse(uri)
    except UriError as error:
        raise WrongInput(str(error)) from None
    if not found.host:
        raise WrongInput("the URI names no host", "Use agtp://HOST or agtp://HOST:PORT.")
    return Endpoint(host=found.host.strip("[]"), port=found.port or DEFAULT_PORT)


def _from_state(where: Connection, state: Path) -> Connection:
    """Return a connection completed with options from a development host's state directory."""
    given = {item.name: getattr(where, item.name) for item in fields(where)}
    demo = state / "agents" / CALLER
    given["cacert"] = where.cacert or state / "ca.pem"
    if where.cert is None and not where.no_cert and (demo / "agent.pem").is_file():
        given["cert"], given["key"] = demo / "agent.pem", demo / "agent.key"
    return Connection(**given)


def _credentials(
    target: Target, where: Connection, supplied: SuppliedAccess
) -> tuple[dict[Role, Credentials], list[Credentials]]:
    """Return the credentials by role, and further agents of which one may be the second."""
    found = {}
    if target.cert is not None:
        agent_id = target.agent_id or certified_agent(target.cert)
        found[Role.AGENT] = Credentials(cert=target.cert, key=target.key, agent_id=agent_id)
    elif target.agent_id is not None:
        found[Role.AGENT] = Credentials(agent_id=target.agent_id)
    registrar, others = _find_identities(where, supplied, found.get(Role.AGENT))
    registrar = _pair(supplied.registrar_cert, supplied.registrar_key, "The issuer's certificate") or registrar
    second = _pair(supplied.second_cert, supplied.second_key, "The second agent's certificate")
    if registrar is not None:
        found[Role.REGISTRAR] = Credentials(cert=registrar[0], key=registrar[1])
    if second is not None:
        found[Role.SECOND] = _agent(second)
        others = []
    return found, [_agent(pair) for pair in others]


def _agent(shown: Pair) -> Credentials:
    return Credentials(cert=shown[0], key=shown[1], agent_id=certified_agent(shown[0]))


Pair = tuple[Path, Path | None]


def _pair(certificate: Path | None, key: Path | None, what: str) -> Pair | None:
    if certificate is None:
        return None
    return pair(present(certificate, what), key)


def _find_identities(
    where: Connection, supplied: SuppliedAccess, agent: Credentials | None
) -> tuple[Pair | None, list[Pair]]:
    """Return the issuer's pair, and those of agents other than the caller, from a host on this machine."""
    if supplied.state_dir is not None:
        state = supplied.state_dir
        known = {REGISTRAR: state / "registrar.pem"}
        known |= {entry.parent.name: entry for entry in sorted(state.glob("agents/*/agent.pem"))}
    else:
        path = find_config(where) if where.cacert is None else where.config
        known = identities(LocalHost.of(load_usable_config(path, *AGENT_FILES))) if path is not None else {}
    issuer = known.pop(REGISTRAR, None)
    spent = supplied.expendable
    others = [
        entry
        for entry in known.values()
        if agent is not None and certified_agent(entry) not in (agent.agent_id, spent, None)
    ]
    registrar = _pair(issuer, None, "The issuer's certificate") if issuer is not None and issuer.is_file() else None
    return registrar, [(entry, entry.with_suffix(".key")) for entry in others if entry.with_suffix(".key").is_file()]
