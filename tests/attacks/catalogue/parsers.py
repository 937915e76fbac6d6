"""Bodies that cost to read: YAML and JSON, from strangers and from agents, at their full size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

from tests.attacks.attack import Attack, Target
from tests.attacks.site import amend
from tests.attacks.strikes import addresses, opened, said, turns
from tests.system.raw_link import JSON, client_context

MIB = 1 << 20
YAML = "application/vnd.agtp+yaml"
PACE = 0.1
"""Seconds between two bodies: one of them used to be enough for all that time and more."""


def message(path: str, body: bytes, kind: str, method: str = "ECHO") -> bytes:
    """A request with octets for a body."""
    head = f"AGTP/1.0 {method} {path}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def sent(
    target: Target, seconds: float, messages: Sequence[bytes], statuses: Sequence[int], *, agent: str | None
) -> None:
    """Each message on a connection of its own, one after the other; each is answered with one of these statuses."""
    context, pause = client_context(target, identified=agent is not None, agent=agent or "demo"), Event()
    answered = 0
    for number, source in zip(turns(seconds, 2_000), addresses(), strict=False):
        octets = messages[number % len(messages)]
        link = opened(target, context, source)
        if link is None:
            continue
        with link:
            try:
                link.send(octets)
            except OSError:
                continue
            answer = said(link)
            if answer is not None:
                answered += 1
                assert answer.status in statuses, (octets[:99], answer.status, answer.body[:300])
        pause.wait(PACE)
    assert answered, "not one of the messages was answered"


def asking_for_yaml(folder: Path) -> None:
    """The operator wants YAML bodies."""
    amend(folder, "wire", "yaml = true")


def _as_agent(*found: bytes, kind: str = YAML) -> Callable[[Target, float], None]:
    def run(target: Target, seconds: float) -> None:
        sent(target, seconds, [message("/text", body, kind) for body in found], (400, 413, 422, 429), agent="demo")

    return run


def refused_yaml(target: Target, seconds: float) -> None:
    """One megabyte of brackets, and what is small and deep, from a stranger to what strangers may call."""
    texts = (b"[" + b"[]," * 349_000 + b"0]", b"a: " + b"1:" * 349_000 + b"1", b"[" * 900 + b"]" * 900, b"a: 1e.5\n")
    messages = [message("/", text, YAML, "DISCOVER") for text in texts]
    sent(target, seconds, messages, (400, 401, 405, 413, 429), agent=None)


def unread(target: Target, seconds: float) -> None:
    """Large bodies for what a stranger may not call at all: refused for that, and not read."""
    bomb = b"[" + b'{"a":1},' * 120_000 + b"0]"
    messages = [
        message("/text", bomb, JSON),
        message("/nowhere", bomb, JSON),
        message("/", bomb, JSON, "FROBNICATE"),
        message("/text", bomb, YAML),
    ]
    sent(target, seconds, messages, (401, 404, 405, 459, 460, 429), agent=None)


SMALL = 65_000

ATTACKS = (
    Attack(
        name="yaml-refused",
        who="stranger",
        says="YAML of a megabyte, and YAML that is small and deep: 400 unread, as the operator asked for none.",
        run=refused_yaml,
    ),
    Attack(
        name="yaml-brackets",
        who="agent",
        says="[],[],... to a host that reads YAML: refused by its size, or by its events while it is parsed.",
        configure=asking_for_yaml,
        run=_as_agent(b"[" + b"[]," * (SMALL // 3) + b"0]", b"[" + b"[]," * 349_000 + b"0]", b"? " * (SMALL // 2)),
    ),
    Attack(
        name="yaml-sexagesimal",
        who="agent",
        says="An integer to the base 60 with tens of thousands of places: text that has to be quoted, 400.",
        configure=asking_for_yaml,
        run=_as_agent(b"text: 1" + b":1" * (SMALL // 2), b"text: " + b"9" * SMALL, b"text: 1" + b"_1" * (SMALL // 2)),
    ),
    Attack(
        name="yaml-nesting",
        who="agent",
        says="Sequences and mappings hundreds deep: 400 at the 65th level.",
        configure=asking_for_yaml,
        run=_as_agent(b"[" * 900 + b"]" * 900, b"[{" * (SMALL // 2), b"- " * (SMALL // 2), b"{a: " * 400 + b"}" * 400),
    ),
    Attack(
        name="yaml-float",
        who="agent",
        says="Numbers, dates, tags and aliases that only YAML knows: 400 with a reason, and never a traceback.",
        configure=asking_for_yaml,
        run=_as_agent(
            *(b"text: 1.e+5\n", b"text: .inf\n", b"text: .nan\n", b"text: 1_.e+1\n", b"text: 2026-99-99\n"),
            *(b"text: !!float x\n", b"text: !!int ''\n", b"text: &a [*a]\n", b"<<: 1\n", b"%YAML 9.9\n---\na: 1\n"),
            *(b"text: !!python/object/apply:os.abort []\n", b"? [a]\n: 1\n", b"text: \xff\n", b"\x00"),
        ),
    ),
    Attack(
        name="json-tokens",
        who="agent",
        says="A megabyte of empty lists, objects, numbers and names: refused before one of them is made.",
        run=_as_agent(
            b"[" + b"[]," * 349_000 + b"0]",
            b"[" + b'{"a":1},' * 120_000 + b"0]",
            b'{"text":[' + b"1," * 500_000 + b"1]}",
            b"{" + b",".join(b'"%d":1' % at for at in range(90_000)) + b"}",
            b'{"text":[' + b'{"a":1.5},' * 16_000 + b"1]}",
            kind=JSON,
        ),
    ),
    Attack(
        name="json-shapes",
        who="agent",
        says="Depth, digits, names twice, escapes and lone surrogates, a megabyte of each: 400.",
        run=_as_agent(
            b"[" * MIB,
            b'{"":' * (MIB // 4),
            b'{"text":' + b"9" * (MIB - 20) + b"}",
            b'{"text":"' + b"\\" * (MIB - 20),
            b'{"text":"' + b"\\ud800" * 100_000 + b'"}',
            b'{"a":1,"a":2}',
            b'{"text":1e999}',
            kind=JSON,
        ),
    ),
    Attack(
        name="unread-bodies",
        who="stranger",
        says="Bodies of a megabyte for what a stranger may not call: refused by the gates that need no body.",
        run=unread,
    ),
)
