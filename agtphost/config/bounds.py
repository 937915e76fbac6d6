"""What bounds calls: ``[delegation]`` and ``[[policies.scope_dimensions]]``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from agtphost.config import secret
from agtphost.config.values import Items, Line, Method, Scope, Seconds, Section, Table, Token, around
from agtphost.identity.keys import KeyFormatError, VerifyingKey


def _key(value: Any, info: ValidationInfo) -> VerifyingKey:
    if isinstance(value, VerifyingKey):
        return value
    text = secret.text_of(value)
    try:
        if text.startswith("file:"):
            return VerifyingKey.load(around(info).folder / text.removeprefix("file:"))
        return VerifyingKey.from_text(text)
    except (KeyFormatError, OSError) as error:
        raise ValueError(f"is not an Ed25519 public key in base64url, nor file:PATH of one: {error}") from None


class DelegationSection(Section):
    """``[delegation]``: how far callers may hand on what they may do (core v08 section 7.2.9)."""

    max_depth: Annotated[int, Field(ge=1, le=5)] = 5
    """Hops of one chain. Calls inside this host nest ten deep, and each hop takes up to two of them."""

    max_deadline: Seconds = 300.0
    """Seconds for one task, whatever its delegator asks."""

    zone_bound: bool = False
    """Whether a delegatee has to be in its delegator's governance zone even without AGTP-Zone-ID."""

    governance: Table[Token, Annotated[VerifyingKey, BeforeValidator(_key)]] = Field(default_factory=dict)
    """Public keys of governance platforms by what they call themselves: base64url, or ``file:PATH``."""


class ScopeDimensionSection(Section):
    """One entry of ``scope_dimensions``: what a parameter may be (core v08 section 5.6, status 455)."""

    name: Token
    """What refusals call it."""

    method: Method
    path: Line | None = None
    """The path template of the endpoint; None for every path of the method."""

    parameter: Line
    maximum: float | int | None = None
    """The largest number."""

    allowed: Items[Line] | None = None
    """The only texts; of a list, each has to be one of them."""

    default: Line | float | int | None = None
    """What the endpoint takes where the parameter is left out."""

    unless_scope: Scope | None = None
    """Callers who hold it are not bound."""

    @model_validator(mode="after")
    def _one_bound(self) -> ScopeDimensionSection:
        if (self.maximum is None) is (self.allowed is None):
            raise ValueError("needs one of maximum and allowed, and not both")
        return self
