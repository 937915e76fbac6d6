"""Stream answers of the gateway: interim messages as they come, and the final answer last."""

from __future__ import annotations

from agtphost.gateway.translation import TranslationRules
from agtphost.http.bounded_request import BoundedRequest, set_status
from agtphost.http.event_stream import EventWriter
from agtphost.http.status import over_http
from agtphost.vocabulary import jsontext
from agtphost.wire.events import Response


class GatewayEvents(EventWriter):
    """
    The events of one call.

    Each is an object with the status of the message, its fields and its body; its id is the Audit-ID.
    """

    def __init__(self, request: BoundedRequest, rules: TranslationRules) -> None:
        super().__init__(request, self._note_disconnect)
        self._asked = request
        self._rules = rules

    def _note_disconnect(self) -> None:
        left = self._asked.on_disconnect
        if left is not None:
            left()

    def interim(self, response: Response) -> None:
        """Send an interim message."""
        self._send("interim", response)

    def result(self, response: Response) -> None:
        """Send the final answer and end the stream."""
        if not self.has_begun:
            set_status(self._asked, over_http(response.status))
        self._send("result", response)
        self.finish()

    def _send(self, kind: str, response: Response) -> None:
        if self.is_gone:
            return
        audit_id = response.audit_id
        self.write(
            b"".join((f"id: {audit_id}\nevent: {kind}\ndata: ".encode("ascii"), _encode_message(response), b"\n\n"))
        )


def _encode_message(response: Response) -> bytes:
    """
    Encode a message as one value. A JSON body is embedded unchanged, since records have its hash; another one as a
    string.
    """
    body = response.body
    try:
        jsontext.decode(body)
    except jsontext.JSONTextError:
        body = jsontext.encode(body.decode("utf-8", "replace"))
    if b"\n" in body or b"\r" in body:
        body = jsontext.encode(jsontext.decode(body))
    head = jsontext.encode({"status": response.status, "headers": dict(response.headers)})
    return b"".join((head[:-1], b',"body":', body, b"}"))
