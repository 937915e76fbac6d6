"""
The wire as a fuzz target: mutated octets, and what must hold for any octets.

The corpus is the table of wire cases. Everything follows from a seed, so a failure
is repeated by its seed and number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random

from agtphost.errors import LocalProtocolError
from agtphost.wire import Connection, Request, Response, Role, serialize_request, serialize_response
from tests.wire import second_reading
from tests.wire.case import Message
from tests.wire.cases import CASES
from tests.wire.deliveries import connect, deliver, event

RICH = (
    b"AGTP/1.0 EXECUTE /mcp/files?trace=1\r\nAgent-ID: " + b"0123456789abcdef" * 4 + b"\r\n"
    b"Authority-Scope: mcp:tools:execute, booking:*\r\nTask-ID: t-1\r\n"
    b"Content-Type: application/vnd.agtp+json\r\n"
    b'Content-Length: 19\r\nX-Note: a b\tc\r\n\r\n{"parameters": {} }'
)  # fmt: skip
_CASES = [case for case in CASES if 0 < len(case.octets) < 600]
_LEGAL = [case.octets for case in _CASES if case.role == "server" and not case.refusal]

# Most mutations of malformed octets stay malformed where they were; so legal ones weigh more.
CORPUS = [case.octets for case in _CASES if case.role == "server"] + _LEGAL * 2 + [RICH, RICH * 2] * 600
RESPONSES = [case.octets for case in _CASES if case.role == "client"]
LONGEST_SECONDS = 1.0

PIECES = [
    *(bytes([octet]) for octet in b"\x00\t\n\r #%+-/:?_0159AZaz\x7f\x80\xff"),
    b"\r\n", b"\r\n\r\n", b"\n\n", b"\r\r\n", b"AGTP/1.0 ", b"AGTP/1.0 QUERY /\r\n", b"Content-Length: ",
    b"Content-Length: 5\r\n", b"Content-Length: 05\r\n", b"Content-Length:+5\r\n", b"content-length: 0\r\n",
    b"Content-Length: 1\r\n\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Type: text/plain\r\n",
    b"0", b"00", b"1_0", b"\r\n ", b" :", b": ", b"//", b"%2f", b"%0", "\u0665".encode(),
    b"202 ", b"200 OK\r\n",
]  # fmt: skip


def mutate(random: Random, corpus: list[bytes]) -> bytes:
    """One input of the corpus, changed in one to four places."""
    octets = random.choice(corpus)
    for _ in range(random.randint(1, 4)):
        here = random.randint(0, len(octets))
        there = min(len(octets), here + random.randint(0, 12))
        match random.randrange(7):
            case 0:
                octets = octets[:here] + random.choice(PIECES) + octets[here:]
            case 1:
                octets = octets[:here] + octets[there:]
            case 2:
                octets = octets[:there] + octets[here:]
            case 3:
                octets = octets[:here] + random.choice(PIECES) + octets[there:]
            case 4:
                octets = octets[:here] + random.randbytes(1) + octets[here + 1 :]
            case 5:
                other = random.choice(corpus)
                octets = octets[:here] + other[random.randint(0, len(other)) :]
            case _:
                octets = octets[:here] + octets[here:there].swapcase() + octets[there:]
    return octets


def inputs(seed: int, executions: int, corpus: list[bytes]) -> Iterator[tuple[int, bytes, Random]]:
    """Numbered inputs, each with randomness of its own."""
    random = Random(seed)
    for number in range(executions):
        yield number, mutate(random, corpus), random


def check(octets: bytes, random: Random, role: str = "server") -> None:
    """
    What holds for any octets: no exception but the protocol's own, the same outcome
    however they are cut, quickly, and messages that can be sent on unchanged.
    """
    started = time.process_time()
    whole = deliver(connect(role), [octets])
    cuts = sorted(random.randint(0, len(octets)) for _ in range(random.randint(1, 6)))
    portions = [octets[here:there] for here, there in zip([0, *cuts], [*cuts, len(octets)], strict=True)]
    assert deliver(connect(role), portions) == whole
    for message in whole.messages:
        survives_or_is_refused(message)
    assert time.process_time() - started < LONGEST_SECONDS


def survives_or_is_refused(message: Message) -> None:
    """parse(serialize(x)) == x, or x cannot be sent."""
    sent = event(message)
    connection = Connection(Role.SERVER if isinstance(sent, Request) else Role.CLIENT)
    try:
        octets = serialize_request(sent) if isinstance(sent, Request) else serialize_response(sent)
    except LocalProtocolError:
        return
    if isinstance(sent, Response):
        connection.send(Request(method="QUERY"))
        if not sent.text:
            return  # the standard text is filled in
    outcome = deliver(connection, [octets])
    assert [event(again) for again in outcome.messages] == [sent]


def read_alike(octets: bytes, length_of: Callable[[bytes], int] = second_reading.strict_length) -> bool:
    """Whether the parser and the second reading read a server's octets alike."""
    outcome = deliver(connect("server"), [octets])
    messages, verdict = second_reading.read(octets, length_of)
    if list(outcome.messages) != messages:
        return False
    if outcome.refusal and verdict == "header":
        # Refused before the head ended: then nothing could have made it legal.
        return second_reading.read(octets + b"\r\n\r\n", length_of)[1] == "refused"
    ours = "refused" if outcome.refusal else outcome.waiting or "complete"
    return ours == verdict
