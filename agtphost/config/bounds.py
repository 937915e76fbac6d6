"""What bounds calls: ``[[policies.scope_dimensions]]``."""

from __future__ import annotations

from pydantic import model_validator

from agtphost.config.values import Items, Line, Method, Scope, Section, Token


class ScopeDimensionSection(Section):
    """An entry of ``[[policies.scope_dimensions]]``: what a parameter may be (core v08 section 5.6, status 455)."""

    name: Token
    """What refusals call it."""

    method: Method
    """The method whose calls are bound."""

    path: Line | None = None
    """The path template of the endpoint; None for every path of the method."""

    parameter: Line
    """The name of the parameter in the endpoint's input."""

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
