"""The ``agtp document`` group: sign and verify an Agent Identity Document (core v08 section 6.3)."""

from __future__ import annotations

from pathlib import Path

import click

from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.local_files import deliver, load_signing_key, load_verifying_key, output_option, read_octets
from agtphost.cli.options import EXISTING, json_option
from agtphost.cli.output import print_json, print_summary
from agtphost.identity import documents
from agtphost.identity.canonical import canonical
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis, GenesisError


@click.group(cls=VerbGroup)
def command() -> None:
    """Sign and verify an Agent Identity Document."""


@command.command()
@click.argument("file")
@click.option("--key", type=EXISTING, required=True, metavar="FILE", help="The registrar's signing key.")
@click.option("--issuer", required=True, metavar="NAME", help="The registrar's name, such as registrar.example.com.")
@output_option
@json_option
def sign(file: str, key: Path, issuer: str, output: Path | None, as_json: bool) -> None:
    """
    Sign a document as its registrar.

    FILE may be - for standard input. Existing signature members are replaced.

    \b
    Example:
      agtp document sign draft.json --key registrar.key --issuer registrar.example.com -o document.json
    """
    octets = read_octets(file)
    signer = load_signing_key(key)
    try:
        signed = documents.sign(documents.decode(octets), issuer, signer)
    except DocumentError as error:
        listed = "\n".join(f"  {fault}" for fault in error.faults)
        raise WrongInput(f"the document is not valid:\n{listed}") from None
    deliver(canonical(signed), output, str(signed["agent_id"]), as_json)


@command.command()
@click.argument("file")
@click.option(
    "--issuer", type=EXISTING, metavar="FILE", help="Public key of the registrar that must have signed the document."
)
@click.option("--genesis", "genesis_file", metavar="FILE", help="Genesis of the agent that the document must be about.")
@json_option
def verify(file: str, issuer: Path | None, genesis_file: str | None, as_json: bool) -> None:
    """
    Verify a document's members and signature.

    FILE may be - for standard input.

    \b
    Example:
      agtp document verify document.json --issuer registrar.pub --genesis genesis.json
    """
    expected = None if issuer is None else load_verifying_key(issuer)
    try:
        document = documents.decode(read_octets(file))
        faults = documents.faults_of(document)
        if faults:
            raise DocumentError(faults)
        signer = documents.check_signature(document)
    except DocumentError as error:
        listed = "\n".join(f"  {fault}" for fault in error.faults)
        raise Unverified(
            f"the document does not verify:\n{listed}",
            answer={"verified": False, "faults": list(error.faults)},
        ) from None
    fields = {
        "agent_id": document["agent_id"],
        "name": document["name"],
        "issuer": document["issuer"],
        "status": documents.status_of(document),
        "scopes": sorted(documents.declared_scopes(document)),
        "signed_by": None if signer is None else signer.fingerprint,
        "remarks": documents.remarks_on(document),
    }
    if signer is None:
        raise Unverified(
            "the document is not signed",
            "Sign it with `agtp document sign`, or ask its host for the signed one.",
            answer={"verified": False, **fields},
        )
    if expected is not None and signer != expected:
        raise Unverified(
            f"the document was signed by another key: {signer.fingerprint}, not {expected.fingerprint}",
            "Do not rely on it, unless you know that key to be the signer's too.",
            answer={"verified": False, **fields},
        )
    if genesis_file is not None:
        _require_genesis(genesis_file, str(document["agent_id"]))
    if as_json:
        print_json({"verified": True, **fields})
        return
    print_summary(fields)
    trusted = "by the given key" if expected is not None else "its signer was not checked"
    click.echo(f"document verified ({trusted})")


def _require_genesis(file: str, agent_id: str) -> None:
    try:
        genesis = Genesis.load(read_octets(file))
    except GenesisError as error:
        raise Unverified(f"the Genesis does not verify: {error}") from None
    if genesis.agent_id != agent_id:
        raise Unverified(
            f"the document names the agent {agent_id}, and its Genesis is that of {genesis.agent_id}",
            "Give the Genesis of this document's agent.",
        )
