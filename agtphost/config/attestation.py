"""``[attestation]``: evidence of what this host runs on, for others to appraise (core v08 section 5.5.4, RFC 9334)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationInfo, model_validator

from agtphost.config import secret
from agtphost.config.upstreams import web_url
from agtphost.config.values import Section, load_context
from agtphost.vocabulary.foreign_errors import split

LONGEST = 6_000
"""Characters: a header line has 8,192 octets at most."""

_TOKEN = re.compile(rf"[A-Za-z0-9_.=~-]{{1,{LONGEST}}}", re.ASCII)


def _evidence(value: Any, info: ValidationInfo) -> str:
    text = secret.text_of(value)
    if text.startswith("file:"):
        context = load_context(info)
        try:
            text = context.note_file(context.folder / text.removeprefix("file:")).read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise ValueError(f"names a file that cannot be read as ASCII text: {split(error)[0]}") from error
    return text


class AttestationSection(Section):
    """The section ``[attestation]``; without it, responses name no evidence."""

    type: Literal["rats-eat", "rats-corim", "rats-uri"] | None = None
    """What the evidence is: an Entity Attestation Token, a CoRIM, or the URI of either."""

    evidence: Annotated[str, BeforeValidator(_evidence)] | None = None
    """The evidence itself in base64url or as a JWT, ``file:PATH`` of it, or an https URI. Read at start."""

    @model_validator(mode="after")
    def _whole(self) -> AttestationSection:
        if (self.type is None) is not (self.evidence is None):
            raise ValueError("needs type and evidence together")
        if self.type == "rats-uri":
            url = web_url(self.evidence)
            if not url.startswith("https://") or len(url) > LONGEST:
                raise ValueError(f"evidence of type rats-uri must be an https URI of at most {LONGEST} characters")
        elif self.evidence is not None and _TOKEN.fullmatch(self.evidence) is None:
            raise ValueError(f"evidence must be a token of 1 to {LONGEST} base64url characters, dots between")
        return self
