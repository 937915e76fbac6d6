"""
The stdio transport: one child process, newline-delimited JSON on its standard input and output.

The process runs under :mod:`.launcher`, which has the lifeline on descriptor 3; closing it kills everything the server
started. A link ends in one of three ways, each exactly once:

- the process exits: calls in flight fail when its output is read to the end, but at most :data:`GRACE_SECONDS` later,
  for a grandchild may hold the pipe;
- it closes its input or output and does not exit within :data:`CLOSED_OUTPUT_SECONDS`: it is ended;
- the host ends it: :meth:`StdioLink.close` in order (close input, TERM, KILL), :meth:`StdioLink.abort` immediately
  (TERM, KILL), for a server that breaks the rules, including one that reads nothing for ``input_timeout`` seconds.

A line over the size limit ends only its own call: :mod:`.long_lines`. Where many calls wait, answers are read in
batches: :mod:`.read_batching`.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall, IPullProducer, IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.adapters.mcp.input_watch import InputWatch
from agtphost.adapters.mcp.links import HeaderPairs, Message, Receiver
from agtphost.adapters.mcp.long_lines import MOST_SKIPPED, BoundedLines, LongLine, find_call_id
from agtphost.adapters.mcp.read_batching import ReadBatcher
from agtphost.upstream.failures import AnswerTooLong, NotReading, UnreadableAnswer, UpstreamBusy, UpstreamLost
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.throttle import ReadThrottle
from agtphost.vocabulary import jsontext

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))

GRACE_SECONDS = 0.008
"""Seconds between the exit of a process and the failure of its calls, for answers still in the pipe."""

CLOSED_OUTPUT_SECONDS = 0.1
"""Seconds between the end of the output and ending the process: its exit usually follows, with a code."""

CLOSED_INPUT_SECONDS = 0.5
"""Seconds a server has to end once its input is closed (MCP lifecycle, shutdown of stdio)."""

TERMINATE_SECONDS = 2.0
"""Seconds between TERM and KILL."""

KILL_SECONDS = 1.0
"""Seconds the launcher has to kill everything before it is killed."""

QUEUED_OCTETS = 8 << 20
"""Octets that can wait for a server that does not read its input; the next message is refused."""

READ = 8192
"""Octets that Twisted reads from a pipe at a time; when it got that many, there may be more."""

PIECE = 64 << 10
"""Octets handed to the pipe's writer at a time, which reports only when all of them were taken."""


INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The only variables of the host's own environment that a server gets."""


def child_environment(host: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """
    Build a server's environment from empty.

    :param host: the host's own environment.
    :param configured: the ``env`` table of the server.
    """
    inherited = {name: host[name] for name in INHERITED if name in host}
    # A value that is a shell function definition could run code in a child.
    kept = {name: value for name, value in inherited.items() if not value.startswith("()")}
    return {**kept, **configured}


@implementer(IPullProducer)
class StdioLink(ProcessProtocol):
    """
    A link to one child process.

    :param reactor: spawns and schedules.
    :param receiver: takes messages and the end.
    :param command: program and arguments.
    :param environment: the whole environment of the process.
    :param cwd: its working directory; None means the host's.
    :param log: gets stderr and unreadable lines.
    :param input_timeout: seconds within which it has to read some of its input.
    """

    takes_headers = False

    def __init__(
        self,
        reactor: Any,
        receiver: Receiver,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        cwd: str | None,
        log: UpstreamLog,
        input_timeout: float = 60.0,
    ) -> None:
        self._clock: IReactorTime = reactor
        self._receiver = receiver
        self._log = log
        self._lines = BoundedLines()
        self._unread: deque[bytes | LongLine] = deque()
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._flush_scheduled = False
        self._paused = False
        self._lost = False
        self._reason: str | None = None
        self._exit: UpstreamLost | None = None
        self._output_ended = False
        self._process_ended = False
        self._closers: list[Deferred[None]] = []
        self._timer: IDelayedCall | None = None
        self._garbage = 0
        self._too_long = 0
        self._watch = InputWatch(reactor, input_timeout, self._input_fd, self._not_reading)
        self._throttle = ReadThrottle(reactor, self._stop_reading, self._read_again)
        self._batcher = ReadBatcher(reactor, self._read_batch)
        names = ",".join(environment)
        argv = [sys.executable, "-I", "-S", _LAUNCHER, names, *command]
        spawner: IReactorProcess = reactor
        # Any: IProcessTransport has no registerProducer, pauseProducing and pipes; every implementation on POSIX has.
        process: Any = spawner.spawnProcess(
            self,
            sys.executable,
            argv,
            env=dict(environment),
            path=cwd,
            childFDs={0: "w", 1: "r", 2: "r", 3: "w"},
        )
        self._process = process
        self._pid: int | None = process.pid
        # Pull, not push: resumeProducing then means that everything was written, so that a direct write keeps the
        # order.
        process.registerProducer(self, False)

    @property
    def pid(self) -> int | None:
        """The launcher's process id; None once it is reaped."""
        return None if self._exit is not None else self._pid

    def facts(self) -> Mapping[str, object]:
        """Return the counts of unreadable and too long lines and of pauses, and the last stderr lines."""
        return {
            "garbage": self._garbage,
            "too_long": self._too_long,
            "pauses": self._throttle.pauses,
            "stderr": self._log.lines,
        }

    def set_version(self, version: str) -> None:
        """Ignore the version: stdio messages look the same in every version."""

    def send(self, message: Message, headers: HeaderPairs = ()) -> None:
        """Send or queue a message; see :class:`agtphost.adapters.mcp.links.McpLink`."""
        if self._lost:
            raise UpstreamLost("the process has ended")
        line = jsontext.encode(message) + b"\n"
        if not self._paused and not self._queue and self._receiver.timed_calls < 2:
            self._put(line)  # The server waits for it.
            return
        if self._queued + len(line) > QUEUED_OCTETS:
            self._flush()
            if self._paused and self._queued + len(line) > QUEUED_OCTETS:
                raise UpstreamBusy("the server does not read its input")
        self._queue.append(line)
        self._queued += len(line)
        if not self._paused and not self._flush_scheduled:
            self._flush_scheduled = True
            self._clock.callLater(0, self._flush_turn)

    def close(self) -> Deferred[None]:
        """End the process in order: close its input, TERM, KILL."""
        if self._process_ended:
            return succeed(None)
        closed: Deferred[None] = Deferred()
        self._closers.append(closed)
        if self._reason is None:
            self._reason = "the host ended the process"
            self._flush()
            self._close_input()
            if self._exit is None:
                self._schedule(CLOSED_INPUT_SECONDS, self._terminate)
            else:
                # Only pipes are left; processes that still hold them are not waited for.
                self._close_pipes()
        return closed

    def abort(self, reason: str, kind: type[UpstreamLost] = UpstreamLost) -> None:
        """End the process: TERM, KILL. Calls in flight fail now."""
        if self._process_ended or self._reason is not None:
            return
        self._reason = reason
        self._finish(kind)
        self._stop_reading()
        self._close_input()
        if self._exit is None:
            self._terminate()
        else:
            self._close_pipes()

    # Callbacks of Twisted.

    def outReceived(self, data: bytes) -> None:
        if self._lost:
            return
        long = len(data) >= READ or self._lines.has_begun
        if len(data) >= READ:
            data += self._read_more()
        self._unread.extend(self._lines.feed(data))
        self._take_lines()
        line = self._lines.long
        if line is None or self._lost:
            if not long:
                self._delay_reading()
            return
        if line.size > MOST_SKIPPED:
            reason = f"it wrote {MOST_SKIPPED} octets without a newline"
            self._log.event(f"{reason}; ending the process")
            self.abort(reason)
        elif not (line.settled or (line.answers and self._receiver.in_flight)):
            # The rest of an answer is free, like every answer.
            self._throttle.spend(len(data))

    def errReceived(self, data: bytes) -> None:
        self._throttle.spend(len(data))
        self._log.stderr(data)

    def childConnectionLost(self, childFD: int) -> None:
        if childFD == 2:
            self._log.end_stderr()
        if childFD == 1 and not self._output_ended:
            self._output_ended = True
            if self._exit is not None:
                self._close_pipes()
            elif not self._lost:
                self._schedule(CLOSED_OUTPUT_SECONDS, self._abort_output_closed)

    def processExited(self, reason: Failure) -> None:
        code, number = getattr(reason.value, "exitCode", None), getattr(reason.value, "signal", None)
        how = f"by signal {number}" if number is not None else f"with exit code {code}"
        said = f"{self._reason}; it ended {how}" if self._reason else f"the process ended {how}"
        self._exit = UpstreamLost(said, exit_code=code, signal=number)
        # Answers written before the end are still worth reading, and the end of the pipes must be seen.
        self._throttle.close()
        self._read_again()
        if self._output_ended:
            self._close_pipes()
        else:
            self._schedule(GRACE_SECONDS, self._close_pipes)

    def processEnded(self, reason: Failure) -> None:
        self._process_ended = True
        self._cancel_timer()
        self._throttle.close()
        self._finish()
        closers, self._closers = self._closers, []
        for closed in closers:
            closed.callback(None)

    # IPullProducer: called by the writer to standard input.

    def resumeProducing(self) -> None:
        """Send what is queued, since the server read what was written."""
        self._paused = False
        self._watch.count_taken()
        self._flush()

    def stopProducing(self) -> None:
        """Stop sending, since the server closed its input."""
        self._paused = True
        if not self._lost and self._reason is None and self._exit is None:
            self._schedule(CLOSED_OUTPUT_SECONDS, self._abort_input_closed)

    def _flush_turn(self) -> None:
        """Write what was queued during a turn of the reactor in one go: each write wakes the server."""
        self._flush_scheduled = False
        self._flush()

    def _flush(self) -> None:
        """Write what is queued, as far as the pipe takes it."""
        queue = self._queue
        while queue and not self._paused:
            lines, octets = [], 0
            while queue and octets < PIECE:
                lines.append(queue.popleft())
                octets += len(lines[-1])
            self._queued -= octets
            self._put(b"".join(lines))

    def _put(self, line: bytes) -> None:
        """Write directly what the pipe takes, for a turn of the reactor costs more; the writer gets the rest."""
        writer = self._process.pipes.get(0)
        taken = 0
        if writer is not None:
            try:
                taken = os.write(writer.fileno(), line)
            except OSError:
                taken = 0  # Full, or closed at the other end: the reactor finds out which.
        self._watch.count_written(taken)
        if taken < len(line):
            self._paused = True
            piece, rest = line[taken : taken + PIECE], line[taken + PIECE :]
            if rest:
                self._queue.appendleft(rest)
                self._queued += len(rest)
            self._watch.count_queued(len(piece))
            self._process.write(piece)

    def _read_more(self) -> bytes:
        """Read more from the pipe: otherwise a long answer takes a turn of the reactor for every 8 KiB."""
        reader = self._process.pipes.get(1)
        if reader is None:
            return b""
        try:
            return os.read(reader.fileno(), PIECE)
        except OSError:
            return b""  # Nothing, or something is wrong with it: the reactor finds out.

    def _delay_reading(self) -> None:
        """Pause reading for a moment where answers come one by one; not for long ones, which would fill the pipe."""
        if self._lost or self._exit is not None or self._throttle.is_paused or self._lines.has_begun:
            return
        reader = self._process.pipes.get(1)
        if reader is not None and self._batcher.begin_delay(self._receiver.timed_calls, self._receiver.quick_seconds):
            reader.stopReading()

    def _read_batch(self) -> None:
        """Read the answers that came during a delay of the batcher, and let the reactor watch the pipe again."""
        if self._lost or self._throttle.is_paused:
            return  # _read_again reads them when the throttle ends its pause.
        data = self._read_more()
        self._batcher.note_result(bool(data))
        if data:
            self.outReceived(data)
        reader = self._process.pipes.get(1)
        if reader is not None and not (self._batcher.is_delaying or self._lost or self._throttle.is_paused):
            reader.startReading()

    def _input_fd(self) -> int | None:
        writer = self._process.pipes.get(0)
        return None if writer is None or self._lost else int(writer.fileno())

    def _not_reading(self, seconds: float) -> None:
        reason = f"it read nothing of what it was sent for {seconds:g} s"
        self._log.event(f"{reason}; ending the process")
        self.abort(reason, NotReading)

    def _take_lines(self) -> None:
        """Process lines until none is left, or they exceed the server's allowance."""
        unread = self._unread
        while unread and not self._throttle.is_paused:
            self._take_line(unread.popleft())

    def _take_line(self, line: bytes | LongLine) -> None:
        if isinstance(line, LongLine):
            self._take_long_line(line)
            return
        if not line or line == b"\r" or self._lost:
            return
        try:
            message = jsontext.decode(line)
        except ValueError as error:
            self._take_unreadable(line, error)
            return
        if not self._receiver.take_message(message, None, line):
            self._throttle.spend(len(line))

    def _take_long_line(self, line: LongLine) -> None:
        """Count a line over the limit, and fail its call as soon as the call is known."""
        if line.settled or self._lost:
            return
        if not line.told:
            line.told = True
            self._too_long += 1
            begins = line.head[:200].decode("utf-8", "replace")
            self._log.say(f"wrote a line of more than {line.limit} octets: {begins}")
        # An answer without an id can only belong to the one call in flight; among several, none is guessed.
        call_id = self._receiver.only_call if line.call_id is None and line.ended and line.answers else line.call_id
        if call_id is not None:
            line.settled = self._receiver.fail_call(call_id, AnswerTooLong(line.limit))

    def _take_unreadable(self, line: bytes, error: ValueError) -> None:
        self._throttle.spend(len(line))
        call_id = find_call_id(line)
        if call_id is not None:
            self._receiver.fail_call(call_id, UnreadableAnswer(f"the server's answer is refused: {error}"))
            return
        self._garbage += 1
        self._log.say(f"wrote a line that is not a message: {line[:200].decode('utf-8', 'replace')}")

    def _abort_input_closed(self) -> None:
        self.abort("the server closed its input")

    def _abort_output_closed(self) -> None:
        self.abort("the server closed its output")

    def _finish(self, kind: type[UpstreamLost] = UpstreamLost) -> None:
        """Fail the calls in flight, once."""
        if not self._lost:
            self._lost = True
            self._drop_queue()
            self._watch.stop()
            self._batcher.stop()
            self._receiver.fail_all(self._exit or kind(self._reason or "the process has ended"))

    def _close_pipes(self) -> None:
        """Fail the calls of the process that is gone, and close its pipes even if other processes hold them."""
        self._finish()
        self._schedule(KILL_SECONDS, self._process.loseConnection)

    def _terminate(self) -> None:
        with suppress(ProcessExitedAlready):
            self._process.signalProcess("TERM")
        self._schedule(TERMINATE_SECONDS, self._kill)

    def _kill(self) -> None:
        self._process.closeChildFD(3)
        self._schedule(KILL_SECONDS, self._kill_launcher)

    def _kill_launcher(self) -> None:
        with suppress(ProcessExitedAlready):
            self._process.signalProcess("KILL")

    def _schedule(self, seconds: float, step: Any) -> None:
        self._cancel_timer()
        self._timer = self._clock.callLater(seconds, step)

    def _cancel_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _close_input(self) -> None:
        self._drop_queue()
        # A producer would keep the pipe open.
        self._process.unregisterProducer()
        self._process.closeChildFD(0)

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued = 0

    def _stop_reading(self) -> None:
        if not self._process_ended:
            self._process.pauseProducing()

    def _read_again(self) -> None:
        self._take_lines()
        if self._throttle.is_paused:
            return
        if not self._process_ended and not (self._lost and self._exit is None):
            self._process.resumeProducing()
