"""The commands ``agtp catalog fetch`` and ``pin``: fetch and pin the one approved catalog (AGTP-API section 16.5)."""

from __future__ import annotations

import ssl
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import click

from agtphost.cli.failures import (
    ExitStatus,
    HostRefused,
    NoConnection,
    Unverified,
    WrongInput,
    local_file,
)
from agtphost.cli.options import EXISTING, json_option
from agtphost.cli.output import print_json, print_note
from agtphost.client.local_identities import present
from agtphost.contract.catalog_diff import compare, irregularities
from agtphost.identity import files
from agtphost.vocabulary.catalog import Catalog, CatalogError
from agtphost.vocabulary.catalog_files import MAX_OCTETS, parse_catalog, read_octets
from agtphost.vocabulary.catalog_pin import Pin, is_digest, place
from agtphost.vocabulary.foreign_errors import explain, split, to_sentence

APPROVE = "Compare them with `agtp catalog diff`, then add --upgrade."


@click.command()
@click.argument("url", metavar="URL")
@click.argument("file", type=EXISTING, required=False, metavar="[FILE]")
@click.option("--sha256", "digest", metavar="HEX", help="SHA-256 that the content must have; required unless pinned.")
@click.option("--upgrade", is_flag=True, help="Approve the replacement of the pinned catalog.")
@click.option(
    "--cacert", type=EXISTING, metavar="FILE", help="Authority that the server's certificate must be from (PEM)."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3_600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the server.",
)
@json_option
def fetch(
    url: str,
    file: Path | None,
    digest: str | None,
    upgrade: bool,
    cacert: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """
    Fetch a catalog over HTTPS, and pin it.

    FILE is the file to write; by default the last part of the URL, in the working directory. The content must have the
    given SHA-256, or be the pinned one. A pinned catalog is never replaced without --upgrade.

    Exit status: 0 fetched, or unchanged; 1 refused; 2 wrong usage, such as http://; 3 no connection; 4 the content has
    another SHA-256.

    \b
    Examples:
      agtp catalog fetch https://agtp.io/api/methods.json --sha256 HEX
      agtp catalog fetch https://agtp.io/api/methods.json methods.json --sha256 HEX --upgrade
    """
    _check_url(url)
    file = file or _file_name_of(url)
    wanted = _digest(digest)
    pinned = _pin(file)
    if wanted is None and pinned is None:
        raise WrongInput(
            "--sha256 is missing", "Get it from the publisher by another way than this network connection."
        )
    octets = _download(url, None if cacert is None else present(cacert, "The --cacert"), timeout)
    found = sha256(octets).hexdigest()
    if wanted is not None and found != wanted:
        raise Unverified(f"the content has the SHA-256 {found}, not {wanted}", "Nothing was changed.")
    if wanted is None and pinned is not None and found != pinned.sha256:
        raise Unverified(
            f"the content has the SHA-256 {found}, and catalog {pinned.version} is pinned with {pinned.sha256}",
            "Nothing was changed. To upgrade, give the new --sha256, and --upgrade.",
        )
    approve(file, octets, pinned, upgrade=upgrade, as_json=as_json, write=True)


@click.command()
@click.argument("file", type=EXISTING, metavar="FILE")
@click.option("--sha256", "digest", metavar="HEX", help="SHA-256 that the content must have.")
@click.option("--upgrade", is_flag=True, help="Approve the replacement of the pinned catalog.")
@json_option
def pin(file: Path, digest: str | None, upgrade: bool, as_json: bool) -> None:
    """
    Approve the content of a catalog file.

    From then on, hosts start only with this content. The pin is written to FILE.pin in the same directory. A pinned
    catalog is never replaced without --upgrade. If the content is unchanged, the command does nothing.

    Exit status: 0 pinned, 1 another content is pinned, 2 the file is not a catalog, 4 the content has another SHA-256.

    \b
    Examples:
      agtp catalog pin methods.json
      agtp catalog pin methods.json --upgrade --json
    """
    wanted = _digest(digest)
    try:
        octets = read_octets(file)
    except CatalogError as error:
        raise WrongInput(f"{file}: {error}") from None
    found = sha256(octets).hexdigest()
    if wanted is not None and found != wanted:
        raise Unverified(f"the content has the SHA-256 {found}, not {wanted}", "Nothing was changed.")
    approve(file, octets, _pin(file), upgrade=upgrade, as_json=as_json, write=False)


def approve(file: Path, octets: bytes, pinned: Pin | None, *, upgrade: bool, as_json: bool, write: bool) -> None:
    """
    Pin content if no other content is pinned, or if its replacement is approved.

    :param write: whether to write the content to the file, too.
    :raises agtphost.cli.failures.CommandError: the content is not a catalog, or is not approved; then no file was
        changed.
    """
    catalog = catalog_in(file, octets)
    changed = pinned is None or not pinned.holds(octets)
    if pinned is not None and changed and not upgrade:
        raise HostRefused(
            f"catalog {pinned.version} is pinned, and this file has other content of version {catalog.version}",
            f"Nothing was changed. {APPROVE}",
            answer={"pinned": pinned.version, "found": catalog.version, "sha256": sha256(octets).hexdigest()},
        )
    before = _present(file, pinned)
    remarks = list(irregularities(catalog) if before is None else compare(before, catalog).violations)
    gone = set(pinned.removed if pinned is not None else ())
    if before is not None:
        gone |= before.methods - catalog.methods
    approved = Pin.for_catalog(octets, gone)
    with local_file(file, doing="written"):
        if write:
            files.replace(file, octets, files.PUBLIC)
        if changed or pinned != approved:
            files.replace(place(file), approved.octets(), files.PUBLIC)
    if as_json:
        print_json(
            {
                "file": str(file),
                "version": catalog.version,
                "sha256": approved.sha256,
                "replaced": pinned.version if pinned is not None and changed else None,
                "changed": changed,
                "removed": sorted(gone - catalog.methods),
                "violations": remarks,
            }
        )
        return
    for remark in remarks:
        print_note(f"version rule broken: {remark}")
    state = "is pinned" if changed else "was pinned already"
    click.echo(f"catalog {catalog.version} {state}: {file} ({approved.sha256})")


def _check_url(url: str) -> None:
    """
    Check that a URL is a plain https URL.

    :raises agtphost.cli.failures.CommandError: it is not.
    """
    try:
        parts = urlsplit(url)
        plain = parts.hostname and parts.username is None and (parts.port is None or parts.port)
    except ValueError:
        raise WrongInput(f"{url[:200]!r} is not a URL") from None
    if parts.scheme != "https":
        raise WrongInput(
            f"{url[:200]!r} is not an https:// URL", "Use https, so that the content cannot be changed on the way."
        )
    if not plain or not url.isascii() or not url.isprintable() or " " in url:
        raise WrongInput(f"{url[:200]!r} is not a URL of the form https://HOST/PATH")


def _download(url: str, cacert: Path | None, timeout: float) -> bytes:
    """
    Fetch a catalog from a URL that the user gave; it may be anywhere.

    :raises agtphost.cli.failures.CommandError: the fetch failed.
    """
    from agtphost.client import blocking_https

    try:
        context = ssl.create_default_context(cafile=None if cacert is None else str(cacert))
    except OSError as error:
        raise WrongInput(
            f"{cacert} has no usable certificates: {explain(error)}",
            "Give the authority of the server's certificate as PEM: --cacert FILE.",
        ) from error
    try:
        answer, octets = blocking_https.get(url, context=context, timeout=timeout, most=MAX_OCTETS, addresses=None)
    except ssl.SSLError as error:
        what, cure = split(error)
        raise NoConnection(f"{url} cannot be fetched: {what}", to_sentence(cure)) from error
    except blocking_https.TooLong:
        raise HostRefused(f"{url} has more than {MAX_OCTETS} bytes") from None
    except (OSError, ValueError) as error:
        what, cure = split(error)
        raise NoConnection(f"{url} cannot be fetched: {what}", to_sentence(cure)) from error
    if 300 <= answer.status < 400:
        raise HostRefused(
            f"{url} redirects to {answer.headers.get('Location', 'nowhere')!r}",
            "Redirects are not followed: give the final URL.",
        )
    if answer.status != 200:
        raise HostRefused(f"{url} answers {answer.status} {answer.reason}")
    return octets


def _file_name_of(url: str) -> Path:
    name = urlsplit(url).path.rpartition("/")[2]
    if not name or name.startswith(".") or not name.isprintable():
        raise WrongInput("the URL has no file name at its end", "Give FILE.")
    return Path(name)


def _digest(text: str | None) -> str | None:
    if text is None:
        return None
    lowered = text.lower()
    if not is_digest(lowered):
        raise WrongInput(
            f"--sha256 {text[:80]!r} is not a value of 64 hexadecimal digits", "Give it as sha256sum prints it."
        )
    return lowered


def _pin(file: Path) -> Pin | None:
    try:
        return Pin.load_for(file)
    except CatalogError as error:
        raise WrongInput(f"{place(file)} is not a valid pin: {error}", "Remove it, then pin again.") from None


def catalog_in(file: str | Path, octets: bytes) -> Catalog:
    """
    Return the catalog in a file.

    :raises WrongInput: the file is not a catalog; the message lists every fault.
    """
    try:
        return parse_catalog(octets)
    except CatalogError as error:
        listed = "\n".join(f"  {fault}" for fault in error.faults)
        answer = {"file": str(file), "faults": list(error.faults), "exit_status": int(ExitStatus.USAGE)}
        raise WrongInput(f"{file} is not a method catalog:\n{listed}", answer=answer) from None


def _present(file: Path, pinned: Pin | None) -> Catalog | None:
    """Return the catalog in use: that of the file, if it has the pinned content."""
    try:
        octets = read_octets(file)
        return parse_catalog(octets) if pinned is not None and pinned.holds(octets) else None
    except CatalogError:
        return None
