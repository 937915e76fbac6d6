"""
Manifests in parts: a host with thousands of endpoints publishes several documents, each of them a signed manifest.

The drafts have one document and no pages, so a reader that knows nothing of
parts gets the first one: sound, signed, with all of the host's own members
and as many endpoints as fit. Its member ``parts`` says how many endpoints
there are in all, and with which token ``DISCOVER /`` gives the next part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from agtphost.contract.schema_pool import SchemaPool
from agtphost.identity.kept_forms import EncodedItem, ItemWriter, encode_array

PARTS = "parts"
"""The member of a manifest, and of the input that asks for a part: ``part``."""

SINGLE_OCTETS = 6 << 20
"""JSON of endpoints up to which a manifest is one document; signed it has 14 MiB, and readers take 17."""

PART_OCTETS = 4 << 20
"""JSON of the endpoints in one part; with the signature, which holds it again in base64, a part has 10 MiB."""

SHARED = (("input_schema", "$defs"), ("output_schema", "$defs"))
"""Where endpoints have parts in common: the definitions of their schemas."""

MAX_PARTS = 256
MAX_OCTETS = 512 << 20
"""Parts, and their octets, that a reader takes of one manifest."""


class PartError(ValueError):
    """Parts that are not those of one manifest; the message says why."""


def split_items(items: Sequence[EncodedItem], most: int = PART_OCTETS) -> Iterator[list[EncodedItem]]:
    """
    Return the items in groups, in order; at least one group.

    :param most: octets of JSON in a group, unless one item alone has more.
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
    Return what asks for one part.

    :param digest: of the content of the whole manifest, so that a token ends with it.
    :param number: from 1.
    """
    return blake2b(f"{digest}\n{number}".encode(), digest_size=18).hexdigest()


def next_part(manifest: Any, number: int, octets: int) -> str | None:
    """
    Return the token of the part that follows; None where there is none.

    :param manifest: the part that was read last.
    :param number: how many parts were read.
    :param octets: of them all.
    :raises PartError: the server goes beyond what a reader takes, or answers with another part than was asked for.
    """
    parts = manifest.get(PARTS) if isinstance(manifest, Mapping) else None
    token = parts.get("next") if isinstance(parts, Mapping) else None
    if not isinstance(parts, Mapping) or not isinstance(token, str) or not token:
        return None
    if parts.get("number") != number:
        raise PartError(f"part {number} was asked for, and another one came")
    if number >= MAX_PARTS or octets > MAX_OCTETS:
        raise PartError(f"it has more than {MAX_PARTS} parts, or {MAX_OCTETS} octets")
    return token


class PartReader:
    """
    Takes the parts of one manifest, in order; a manifest without parts is one.

    Equal schemas of its endpoints are one object as soon as they came: of a manifest with thousands of endpoints, only
    one part is in memory as it was sent.
    """

    def __init__(self) -> None:
        self._pool = SchemaPool()
        self._writer = ItemWriter(SHARED)
        self._documents: list[Mapping[str, Any]] = []
        self._endpoints: list[Any] = []
        self._octets = 0

    @property
    def count(self) -> int:
        """How many parts were added."""
        return len(self._documents)

    def add(self, document: Mapping[str, Any], octets: int) -> str | None:
        """
        Take the next part.

        :param document: its schemas are put in place of equal ones.
        :param octets: that it came in.
        :return: the token of the part that follows; None where there is none.
        :raises PartError: the server goes beyond what a reader takes, or answers with another part than was asked for.
        """
        listed = document.get("endpoints")
        if isinstance(listed, list):
            for each in listed:
                self._share(each)
        self._octets += octets
        number = len(self._documents) + 1
        if number > 1:
            if not isinstance(document.get(PARTS), Mapping) or not isinstance(listed, list):
                raise PartError(f"part {number} is no part of a manifest")
            for name in ("document_version", "server"):
                if document.get(name) != self._documents[0].get(name):
                    raise PartError(f"part {number} is of another version of the manifest")
        following = next_part(document, number, self._octets)
        if isinstance(listed, list):
            self._endpoints += listed
        # The endpoints are kept once, and of the first part alone its signature.
        kept_members = document if number == 1 else {PARTS: document[PARTS]}
        self._documents.append(kept_members)
        return following

    def written(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a part that was added with the texts of its endpoints, so that its canonical form is made fast."""
        listed = document.get("endpoints")
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            return document
        try:
            return {**document, "endpoints": encode_array(map(self._writer.item, listed))}
        except (ValueError, TypeError):
            return document

    def whole(self) -> Mapping[str, Any]:
        """
        Return the one manifest of all parts; one that has none as it is.

        Its ``manifest_signature`` is null: each part is signed for itself, to be checked before.

        :raises PartError: a part is missing.
        """
        first = self._documents[0]
        if PARTS not in first:
            return first
        for number, document in enumerate(self._documents, 1):
            about = document[PARTS]
            if not isinstance(about, Mapping) or not isinstance(first.get("endpoints"), list):
                raise PartError(f"part {number} is no part of a manifest")
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
    Return the one manifest that parts make, see :class:`PartReader`.

    :raises PartError: a part is missing, or is of another manifest.
    """
    reader = PartReader()
    for document in documents:
        reader.add(document, 0)
    return reader.whole()
