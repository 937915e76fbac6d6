"""
Manifests in parts: a host with thousands of endpoints publishes several documents, each of them a signed manifest.

The drafts have one document and no pages. A reader that does not know parts gets the first one: valid, signed, with all
of the host's own members and the endpoints that fit. Its member ``parts`` has the number of all endpoints, and the
token with which ``DISCOVER /`` returns the next part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from agtphost.identity.cached_encoding import EncodedItem, ItemWriter, encode_array

PARTS = "parts"
"""The member of a manifest, and of the input that asks for a part: ``part``."""

SINGLE_OCTETS = 6 << 20
"""Largest JSON of endpoints in a single document; signed it has 14 MiB, and readers take 17."""

PART_OCTETS = 4 << 20
"""JSON of the endpoints in one part; the signature holds it again in base64, so a part has 10 MiB."""

SHARED = (("input_schema", "$defs"), ("output_schema", "$defs"))
"""Members that endpoints have in common: the definitions of their schemas."""

MAX_PARTS = 256
MAX_OCTETS = 512 << 20
"""Parts, and their octets, that a reader accepts for one manifest."""


class PartError(ValueError):
    """The parts do not belong to one manifest; the message says why."""


def split_items(items: Sequence[EncodedItem], most: int = PART_OCTETS) -> Iterator[list[EncodedItem]]:
    """
    Yield the items in groups, in order; at least one group.

    :param most: octets of JSON in a group; only a single larger item exceeds it.
    """
    group: list[EncodedItem] = []
    octets = 0
    for item in items:
        octets += item.octets + 1
        if group and octets > most:
            yield group
            group, octets = [], item.octets + 1
        group.append(item)
    yield group


def part_token(digest: str, number: int) -> str:
    """
    Return the token that requests one part.

    :param digest: digest of the whole manifest's content, so that a token expires with it.
    :param number: the part, counted from 1.
    """
    return blake2b(f"{digest}\n{number}".encode(), digest_size=18).hexdigest()


def next_part(manifest: Any, number: int, octets: int) -> str | None:
    """
    Return the token of the following part; None if there is none.

    :param manifest: the part that was read last.
    :param number: how many parts were read.
    :param octets: size of all parts read.
    :raises PartError: the manifest exceeds the reader's limits, or the server sent another part.
    """
    parts = manifest.get(PARTS) if isinstance(manifest, Mapping) else None
    token = parts.get("next") if isinstance(parts, Mapping) else None
    if not isinstance(parts, Mapping) or not isinstance(token, str) or not token:
        return None
    if parts.get("number") != number:
        raise PartError(f"part {number} was requested, but the server sent another one")
    if number >= MAX_PARTS or octets > MAX_OCTETS:
        raise PartError(f"the manifest has more than {MAX_PARTS} parts or {MAX_OCTETS} octets")
    return token


class PartReader:
    """
    Collector of the parts of one manifest, in order; a manifest without parts is one part.

    Equal schemas of its endpoints become one object as soon as they are added. So only one part at a time is in memory
    with duplicate schemas.
    """

    def __init__(self) -> None:
        # Imported here: most commands read no manifest, and it would take a tenth of their time.
        from agtphost.contract.schema_pool import SchemaPool

        self._pool = SchemaPool()
        self._writer = ItemWriter(SHARED)
        self._documents: list[Mapping[str, Any]] = []
        self._endpoints: list[Any] = []
        self._octets = 0

    @property
    def count(self) -> int:
        """Return how many parts were added."""
        return len(self._documents)

    def add(self, document: Mapping[str, Any], octets: int) -> str | None:
        """
        Add the next part.

        :param document: the part; its schemas are replaced by equal ones that were added before.
        :param octets: size of the part as sent.
        :return: the token of the following part; None if there is none.
        :raises PartError: the manifest exceeds the reader's limits, or the server sent another part.
        """
        listed = document.get("endpoints")
        if isinstance(listed, list):
            for each in listed:
                self._share(each)
        self._octets += octets
        number = len(self._documents) + 1
        if number > 1:
            if not isinstance(document.get(PARTS), Mapping) or not isinstance(listed, list):
                raise PartError(f"part {number} is not part of a manifest")
            for name in ("document_version", "server"):
                if document.get(name) != self._documents[0].get(name):
                    raise PartError(f"part {number} is of another version of the manifest")
        following = next_part(document, number, self._octets)
        if isinstance(listed, list):
            self._endpoints += listed
        # The endpoints are stored once; only the first part keeps its signature.
        kept_members = document if number == 1 else {PARTS: document[PARTS]}
        self._documents.append(kept_members)
        return following

    def with_encoded_endpoints(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an added part with its endpoints encoded, so that its canonical form is computed fast."""
        listed = document.get("endpoints")
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            return document
        try:
            return {**document, "endpoints": encode_array(map(self._writer.item, listed))}
        except (ValueError, TypeError):
            return document

    def to_manifest(self) -> Mapping[str, Any]:
        """
        Return the whole manifest of all parts; a manifest without parts is returned unchanged.

        Its ``manifest_signature`` is null, because each part has its own signature. Check those before.

        :raises PartError: a part is missing.
        """
        first = self._documents[0]
        if PARTS not in first:
            return first
        for number, document in enumerate(self._documents, 1):
            about = document[PARTS]
            if not isinstance(about, Mapping) or not isinstance(first.get("endpoints"), list):
                raise PartError(f"part {number} is not part of a manifest")
            if about.get("number") != number or about.get("of") != len(self._documents):
                raise PartError(f"part {number} of {len(self._documents)} is missing")
        total = first[PARTS].get("endpoints")
        if len(self._endpoints) != total:
            raise PartError(f"the parts have {len(self._endpoints)} endpoints, not {total}")
        whole = {name: value for name, value in first.items() if name != PARTS}
        return {**whole, "endpoints": self._endpoints, "manifest_signature": None}

    def _share(self, endpoint: Any) -> None:
        if isinstance(endpoint, dict):
            for name in ("input_schema", "output_schema"):
                if isinstance(endpoint.get(name), dict):
                    endpoint[name] = self._pool.share(endpoint[name])


def merge_parts(documents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """
    Return the whole manifest of its parts, see :class:`PartReader`.

    :raises PartError: a part is missing, or belongs to another manifest.
    """
    reader = PartReader()
    for document in documents:
        reader.add(document, 0)
    return reader.to_manifest()
