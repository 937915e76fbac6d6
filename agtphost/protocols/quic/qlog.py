"""
Traces of connections in qlog's format, for debugging: one file of JSON text sequences for each connection.

aioquic keeps a whole trace in memory and writes it at the end. Here each event is written as it comes, and both the
size of a trace and the number of traces are bounded. What would let a reader of the file end a connection or take its
address over is left out.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

from aioquic.quic.logger import QuicLogger, QuicLoggerTrace
from twisted.logger import Logger

from agtphost.vocabulary.foreign_errors import explain

MOST_TRACES = 1_000
"""Traces of one process; further connections have none."""

MOST_FAILED = 100
"""Of them those whose handshake did not succeed: what strangers begin leaves room for connections."""

MOST_OCTETS = 16_777_216
"""Octets of one trace; further events are left out."""

log = Logger()


class QlogDirectory(QuicLogger):
    """
    A directory that takes the traces of a host.

    :raises OSError: it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._count = self._failed = 0
        self._has_warned = False

    def start_trace(self, is_client: bool, odcid: bytes) -> QuicLoggerTrace:
        """Begin the trace of a connection; nothing is written of it where its file cannot be made."""
        trace = QlogTrace(is_client=is_client, odcid=odcid)
        if self._count >= MOST_TRACES:
            if not self._has_warned:
                self._has_warned = True
                log.warn(
                    "{count} traces were begun in {folder}: no more until a restart",
                    count=MOST_TRACES,
                    folder=self._folder,
                )
            return trace
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{odcid.hex()}.sqlog"
        try:
            trace.open(self._folder / name)
        except OSError as error:
            log.warn("no trace of a connection: {error}", error=explain(error))
        else:
            self._count += 1
        return trace

    def end_trace(self, trace: QuicLoggerTrace) -> None:
        """End a trace; remove it if its handshake failed, and as many that did are kept as may be."""
        assert isinstance(trace, QlogTrace)
        trace.close()
        if trace.path is None or trace.is_established:
            return
        if self._failed < MOST_FAILED:
            self._failed += 1
            return
        self._count -= 1
        try:
            trace.path.unlink(missing_ok=True)
        except OSError as error:
            log.warn("a trace cannot be removed: {error}", error=explain(error))


class QlogTrace(QuicLoggerTrace):
    """The trace of one connection."""

    def __init__(self, *, is_client: bool, odcid: bytes) -> None:
        super().__init__(is_client=is_client, odcid=odcid)
        self._file: BinaryIO | None = None
        self._left = MOST_OCTETS
        self.path: Path | None = None
        """The file, if there is one."""

        self.is_established = False
        """Whether the handshake succeeded."""

    def open(self, path: Path) -> None:
        """Write the head of a new file, and from then on each event. :raises OSError: it cannot be made."""
        self._file = path.open("xb", buffering=0)
        self.path = path
        whole = self.to_dict()
        trace = {name: whole[name] for name in ("common_fields", "vantage_point")}
        self._write({"qlog_format": "JSON-SEQ", "qlog_version": "0.3", "trace": trace})

    def close(self) -> None:
        """Close the file, if there is one."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def log_event(self, *, category: str, event: str, data: dict[str, Any]) -> None:
        """Write an event."""
        if self._file is not None:
            self._write({"name": f"{category}:{event}", "time": self.encode_time(time.time()), "data": data})

    def _write(self, entry: dict[str, Any]) -> None:
        assert self._file is not None
        line = b"\x1e" + json.dumps(entry).encode() + b"\n"
        self._left -= len(line)
        try:
            if self._left < 0:
                self.close()
            else:
                self._file.write(line)
        except OSError as error:
            log.warn("a trace ends early: {error}", error=explain(error))
            self.close()

    # What is secret

    def encode_new_connection_id_frame(self, *given: Any, **named: Any) -> dict[str, Any]:
        """Leave the token out by which a connection is ended from anywhere."""
        return self._without(super().encode_new_connection_id_frame(*given, **named), "reset_token")

    def encode_new_token_frame(self, token: bytes) -> dict[str, Any]:
        """Leave the token out by which an address is proven."""
        return self._without(super().encode_new_token_frame(token), "token")

    def encode_path_challenge_frame(self, data: bytes) -> dict[str, Any]:
        """Leave the octets out by which an address is proven."""
        return self._without(super().encode_path_challenge_frame(data), "data")

    def encode_transport_parameters(self, *given: Any, **named: Any) -> dict[str, Any]:
        """Leave the token out by which a connection is ended from anywhere."""
        return self._without(super().encode_transport_parameters(*given, **named), "stateless_reset_token")

    @staticmethod
    def _without(frame: dict[str, Any], name: str) -> dict[str, Any]:
        frame.pop(name, None)
        return frame
