"""Pass a result of a server behind the host on in the octets that the server wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.vocabulary import jsontext


class RelayedResult(dict[str, Any]):
    """
    A result for a client, together with the server's result that it was made of.

    Encoding 100 kB anew takes a millisecond, and a thread that does it; inserting a few members takes microseconds.

    :param members: of the result for the client.
    :param written: the server's result, of which the former has most members.
    :param octets: the JSON of the latter, as the strict decoder of the host has read it.
    """

    __slots__ = ("_octets", "_written")

    def __init__(self, members: Mapping[str, Any], written: Mapping[str, Any], octets: bytes) -> None:
        super().__init__(members)
        self._written = written
        self._octets = octets

    def splice(self) -> bytes:
        """
        Return the JSON of the result, in which the server's octets stand as they are, after all other members.

        :return: nothing where a member of the server's result was changed or left out, so that it must be encoded, or
            where the server wrote line breaks between its tokens: one would end the field of an event in a stream.
        """
        if b"\r" in self._octets or b"\n" in self._octets:
            return b""
        written, more = self._written, dict[str, Any]()
        for name, value in self.items():
            if name not in written:
                more[name] = value
            elif written[name] is not value:
                return b""
        if not written or not more or len(self) != len(written) + len(more) or not self._octets.startswith(b"{"):
            return b""
        return b"%b,%b" % (jsontext.encode(more)[:-1], self._octets[1:])
