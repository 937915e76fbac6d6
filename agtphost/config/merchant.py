"""``[merchant]``: what hosted merchants ask of PURCHASE, and how long their quotes are good (core v08 section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo

from agtphost.config import secret
from agtphost.config.faults import ConfigFault
from agtphost.config.oauth import algorithm
from agtphost.config.values import Items, Line, Section, load_context
from agtphost.identity.bearer import read_keys
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.regular_files import read_octets
from agtphost.vocabulary.tomltext import Location

if TYPE_CHECKING:
    from joserfc.jwk import KeySet


def _keys(value: Any, info: ValidationInfo) -> KeySet:
    if hasattr(value, "as_dict"):  # Read before: a section is validated again without its faulty keys.
        return value  # type: ignore[no-any-return]
    context = load_context(info)
    path = context.note_file(context.folder / secret.text_of(value))
    try:
        keys = read_keys(read_octets(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be used: {split(error)[0]}") from error
    if not keys.keys:
        raise ValueError("cannot be used: it has no usable public key")
    return keys


class Platform(Section):
    """An entry of ``[[merchant.platform]]``: a governance platform whose Intent-Assertions are trusted."""

    issuer: Line = ""
    """The ``iss`` of its assertions. Required."""

    jwks: Annotated[
        Any,  # a KeySet, or None
        BeforeValidator(_keys),
        PlainSerializer(lambda keys: None if keys is None else keys.as_dict(private=False)),
    ] = None
    """A file with its JSON Web Key Set. Required."""

    allowed_algs: Items[Annotated[str, AfterValidator(algorithm)]] = ("EdDSA",)
    """Algorithms that its assertions may be signed with."""

    leeway_seconds: Annotated[float, Field(ge=0, le=300)] = 30.0
    """By how much clocks may differ."""


class MerchantSection(Section):
    """The section ``[merchant]``. Identity Documents say which hosted agents are merchants: ``"role": "merchant"``."""

    intent_required: bool = False
    """Whether a PURCHASE without an Intent-Assertion is refused."""

    quote_seconds: Annotated[float, Field(ge=1, le=2_592_000)] = 900.0
    """How long a quote of a cart is good for."""

    platform: Items[Platform] = ()
    """Without one, no Intent-Assertion is believed, and a PURCHASE that carries one is refused."""


def merchant_faults(given: MerchantSection) -> Iterator[ConfigFault]:
    """Yield every fault of the section whose single keys are sound."""
    names = [platform.issuer for platform in given.platform]
    for number, platform in enumerate(given.platform):
        location: Location = ("merchant", "platform", number)
        if not platform.issuer:
            yield ConfigFault(location=(*location, "issuer"), message="is missing", hint="the iss of its assertions")
        elif names.count(platform.issuer) > 1:
            yield ConfigFault(location=(*location, "issuer"), message="is repeated, so its rules are ambiguous")
        if platform.jwks is None:
            yield ConfigFault(
                location=(*location, "jwks"),
                message="is missing",
                hint="a file with its JSON Web Key Set",
                concerns=((*location, "jwks"),),
            )
        if not platform.allowed_algs:
            yield ConfigFault(
                location=(*location, "allowed_algs"), message="allows nothing", hint='write allowed_algs = ["EdDSA"]'
            )
