"""
Everything that decides which methods one host knows: its catalogs, their versions, its profiles.

A host validates against one catalog, the primary one, and on request against
further versions of it (AGTP-API section 4.8 leaves that to implementations;
:data:`~.catalog_versions.HEADER` is how a request asks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agtphost.vocabulary.catalog import Catalog, CatalogError
from agtphost.vocabulary.catalog_files import parse_catalog, read_octets
from agtphost.vocabulary.catalog_pin import Pin, place
from agtphost.vocabulary.catalog_profile import Profile


@dataclass(frozen=True, slots=True)
class CatalogFault:
    """A fault of a catalog file."""

    file: Path | None
    """The file that has the fault; None if it is not in a file."""

    message: str
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class CatalogSet:
    """The catalogs and the profile that a host validates method names against."""

    primary: Catalog
    others: tuple[Catalog, ...] = ()
    """Further versions, in the operator's order."""

    profiles: tuple[Profile, ...] = ()
    """Further catalogs that the deployment declares, in its order."""

    removed: frozenset[str] = frozenset()
    """Methods that earlier catalogs had and none of these has."""

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        """All catalogs of the set, the primary one first."""
        return (self.primary, *self.others)

    @property
    def versions(self) -> tuple[str, ...]:
        """``catalog_versions_supported`` of the manifest: the primary one first."""
        return tuple(catalog.version for catalog in self.catalogs)

    @property
    def profile_methods(self) -> frozenset[str]:
        """Methods of the profiles that the primary catalog does not have."""
        named = {method for profile in self.profiles for method in profile.methods}
        return frozenset(named - self.primary.methods)

    @property
    def superseded_methods(self) -> frozenset[str]:
        """Return the methods that only requests for another version may use."""
        known = {method for catalog in self.others for method in catalog.methods}
        return frozenset(known - self.primary.methods - self.profile_methods)


def read_catalogs(
    path: Path | None,
    versions: Sequence[Path] = (),
    profile_files: Sequence[Path] = (),
    declared: Sequence[str] = (),
) -> tuple[CatalogSet, list[CatalogFault]]:
    """
    Read every file, and go on past what is wrong.

    :param path: the primary catalog; None is the one that ships with the host.
    :param versions: further catalogs.
    :param profile_files: profiles that can be declared.
    :param declared: names of the profiles that are.
    :return: what could be read, and everything that is wrong; not to be served while there is any of that.
    """
    faults: list[CatalogFault] = []
    primary, gone = _catalog(path, faults)
    others: list[Catalog] = []
    for file in versions:
        other, lost = _catalog(file, faults)
        gone |= lost
        if other is None:
            continue
        if other.version in {catalog.version for catalog in (primary, *others) if catalog is not None}:
            faults.append(CatalogFault(file, f"its version {other.version} is supported by another catalog already"))
        else:
            others.append(other)
    shipped = Catalog.load()
    chosen = primary or shipped
    profiles = tuple(_profiles(profile_files, declared, faults))
    known = chosen.methods.union(*(other.methods for other in others), *(profile.methods for profile in profiles))
    found = CatalogSet(
        primary=chosen,
        others=tuple(others),
        profiles=profiles,
        removed=frozenset((gone | shipped.methods) - known),
    )
    return found, faults


def _catalog(file: Path | None, faults: list[CatalogFault]) -> tuple[Catalog | None, set[str]]:
    """Return a catalog that is what its pin says, if it has one, and what its upgrades removed."""
    if file is None:
        return Catalog.load(), set()
    try:
        octets = read_octets(file)
        catalog = parse_catalog(octets)
    except CatalogError as error:
        faults.extend(CatalogFault(file, fault) for fault in error.faults)
        return None, set()
    try:
        pin = Pin.load_for(file)
    except CatalogError as error:
        faults.extend(CatalogFault(place(file), fault) for fault in error.faults)
        return catalog, set()
    if pin is None:
        return catalog, set()
    if not pin.holds(octets):
        faults.append(
            CatalogFault(
                file,
                f"it is not the pinned content (version {pin.version}, sha256 {pin.sha256})",
                f"restore that, or approve this one: agtp catalog pin {file} --upgrade",
            )
        )
    return catalog, set(pin.removed)


def _profiles(files: Sequence[Path], declared: Sequence[str], faults: list[CatalogFault]) -> Iterator[Profile]:
    """Yield the declared profiles, in the order of their declaration."""
    available: dict[str, Profile] = {}
    for file in files:
        try:
            profile = Profile.load(file)
        except CatalogError as error:
            faults.extend(CatalogFault(file, fault) for fault in error.faults)
            continue
        if profile.name in available:
            faults.append(CatalogFault(file, f"the profile {profile.name} is in another file already"))
        available.setdefault(profile.name, profile)
    for name in dict.fromkeys(declared):
        if name in available:
            yield available[name]
        else:
            listed = ", ".join(sorted(available)) or "none"
            faults.append(
                CatalogFault(
                    None,
                    f"[policies.methods] profiles names {name[:64]}, which no file of [catalog] profiles has",
                    f"profiles at hand: {listed}",
                )
            )
