"""What a proposal may be labelled: AGTP-API section 17.2."""

from __future__ import annotations

from tests.memory import body_of
from tests.negotiation.hosts import BOOK_ROOM, NegotiatingHost
from tests.rows import each_row


@each_row(
    ("content_type", "status"),
    [
        ("application/vnd.agtp.endpoint+json", 263),
        ("application/vnd.agtp+json", 263),
        ("application/json", 263),
        ("application/xml", 400),
    ],
)
def test_a_proposal_by_media_type(content_type: str, status: int) -> None:
    """API-155: the endpoint's own type, the protocol's, and plain JSON are read; what is no JSON is not."""
    answer = NegotiatingHost().propose(BOOK_ROOM, headers={"Content-Type": content_type})
    assert answer.status == status, body_of(answer)
