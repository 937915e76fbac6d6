"""What no key tells alone of the sections in :mod:`agtphost.config.published`."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from agtphost.config.faults import ConfigFault, describe_absence
from agtphost.config.presence import NoPresence, bootstrap_facts
from agtphost.config.sections import Config
from agtphost.vocabulary.tomltext import Location


def published_faults(config: Config) -> Iterator[ConfigFault]:
    """Names that are missing or taken, and HTTPS files that cannot be used."""
    yield from _name_faults("api", [entry.name for entry in config.api])
    for index, entry in enumerate(config.api):
        if not entry.base_url:
            yield ConfigFault(
                location=("api", index, "base_url"),
                message="is missing",
                hint='such as base_url = "https://shop.example.com/v1"',
            )
    yield from _name_faults("data_class", [entry.name for entry in config.data_class])
    yield from _wellknown(config)


def _name_faults(section: str, names: list[str]) -> Iterator[ConfigFault]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        where: Location = (section, index, "name")
        if not name:
            yield ConfigFault(location=where, message="is missing")
        elif name in first:
            yield ConfigFault(location=where, message=f"is already used by entry {first[name] + 1}")
        first.setdefault(name, index)


def _wellknown(config: Config) -> Iterator[ConfigFault]:
    given = config.wellknown
    if given.listen is not None:
        try:
            bootstrap_facts(config)
        except NoPresence as error:
            yield ConfigFault(
                location=("wellknown", "listen"),
                message=f"has nothing to serve: {error}",
                concerns=(("host", "server_id"), ("wellknown", "domain"), ("wellknown", "port"), ("listen", "port")),
            )
    pair: tuple[Location, ...] = (("wellknown", "certificate"), ("wellknown", "key"))
    if (given.certificate is None) != (given.key is None):
        there, missing = ("certificate", "key") if given.key is None else ("key", "certificate")
        yield ConfigFault(
            location=("wellknown", there), message=f"needs {missing} as well", hint="set both or none", concerns=pair
        )
    for name, path in (("certificate", given.certificate), ("key", given.key)):
        if path is None:
            continue
        if not path.is_file():
            yield ConfigFault(location=("wellknown", name), message=describe_absence(path))
        elif name == "key" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield ConfigFault(
                location=("wellknown", name),
                message=f"can be read by others than its owner: {path}",
                hint=f"run: chmod 600 {path}",
            )
