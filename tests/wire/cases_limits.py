"""Limits, at and one beyond each: T-LM."""

from __future__ import annotations

from tests.wire.case import ENDING, LENGTH, Table, request

TABLE = Table()


def _limits() -> None:
    source = "security section 2.2: 8 KiB lines, 32 KiB block, 100 fields, 1 MiB body"
    start = b"AGTP/1.0 QUERY /"
    path = "/" + "p" * (8192 - len(start))
    most = start + b"p" * (8192 - len(start))
    TABLE.case("T-LM-line-most", source, most + b"\r\n\r\n", "", request("QUERY", path))
    TABLE.case("T-LM-line-one-over", source, most + b"p\r\n\r\n", "request-line-too-large")
    TABLE.case("T-LM-line-over-without-end", source, most + b"p", "request-line-too-large")
    TABLE.case("T-LM-line-most-without-end", source, most, waiting="header")
    TABLE.case("T-LM-line-lf-at-the-limit", source, most + b"\n", ENDING)
    value = "v" * (8192 - len("X-A: "))
    TABLE.case(
        "T-LM-field-most",
        source,
        start + f"\r\nX-A: {value}\r\n\r\n".encode(),
        "",
        request("QUERY", "/", None, ("X-A", value)),
    )
    TABLE.case("T-LM-field-one-over", source, start + f"\r\nX-A: {value}v\r\n\r\n".encode(), "header-line-too-large")
    TABLE.case("T-LM-field-over-without-end", source, start + f"\r\nX-A: {value}v".encode(), "header-line-too-large")
    TABLE.case("T-LM-field-most-without-end", source, start + f"\r\nX-A: {value}".encode(), waiting="header")
    TABLE.case("T-LM-name-over", source, start + b"\r\n" + b"N" * 8193, "header-line-too-large")
    quarter = ("X-A", "v" * (8192 - len("X-A: ") - 2))
    block = (f"X-A: {quarter[1]}\r\n" * 4).encode()
    TABLE.case(
        "T-LM-block-most",
        source,
        start + b"\r\n" + block + b"\r\n",
        "",
        request("QUERY", "/", None, *[quarter] * 4),
    )
    TABLE.case("T-LM-block-most-and-more", source, start + b"\r\n" + block + b"X", "header-block-too-large")
    TABLE.case("T-LM-block-one-over", source, start + b"\r\n" + block[:-2] + b"v\r\n\r\n", "header-block-too-large")
    TABLE.case(
        "T-LM-block-over-by-lines",
        source,
        start + b"\r\n" + b"X: 1\r\n" * 10 + b"Y: " + b"v" * 8189 + b"\r\n" + block,
        "header-block-too-large",
    )
    fields = tuple((f"X-{n}", "1") for n in range(101))
    lines = [f"{name}: 1\r\n".encode() for name, _ in fields]
    TABLE.case(
        "T-LM-count-most",
        source,
        start + b"\r\n" + b"".join(lines[:100]) + b"\r\n",
        "",
        request("QUERY", "/", None, *fields[:100]),
    )
    TABLE.case("T-LM-count-one-over", source, start + b"\r\n" + b"".join(lines) + b"\r\n", "too-many-headers")
    TABLE.case("T-LM-count-over-without-end", source, start + b"\r\n" + b"".join(lines), "too-many-headers")
    TABLE.case("T-LM-count-same-name", source, start + b"\r\n" + b"X: 1\r\n" * 101 + b"\r\n", "too-many-headers")
    TABLE.case("T-LM-body-most", source, start + b"\r\nContent-Length: 1048576\r\n\r\n", waiting="body")
    for id, size in {"one-over": "1048577", "gib": "1073741824", "10-digits": "9999999999"}.items():
        TABLE.case(
            f"T-LM-body-{id}",
            source,
            start + f"\r\nContent-Length: {size}\r\n\r\n".encode(),
            "body-too-large",
        )
    TABLE.case("T-LM-body-11-digits", source, start + b"\r\nContent-Length: 99999999999\r\n\r\n", LENGTH)


_limits()
