"""When the output of a guest is asked for: an agent cannot report anything by itself, and libvirt
logs an error for each request that finds nothing (src/qemu/qemu_agent.c: qemuAgentCheckError).

Two kinds of output can be foreseen: the lines of a probe, one in each interval, and the answer to
what was sent. Each record says when it was made by the clock of the guest. How that differs from
the clock here is known best after a request that found nothing: what was found then was new.
Reads nothing.
"""

from __future__ import annotations

MIN_POLL_SECONDS = 0.004
"""From a request for an answer that found nothing to the next one; doubled each time."""
REQUEST_BYTES = 2048
"""A larger input is not a request that is answered, but a part of a program."""
LATE_POLL_PART = 1 / 16
"""The same for a line, as a part of the longest time between two requests."""
POLLS_PER_INTERVAL = 4
ANSWER_FACTOR, ANSWER_SLACK_SECONDS = 1.1, 0.002
"""An answer is asked for so much later than the last one was there."""
LINE_SLACK_PART = 0.02
"""A line is asked for so much later than it is expected, in intervals."""
LINE_TOLERANCE = 0.05
"""What is made so near the expected time is the line, in intervals."""
ALONE_PART = 0.75
"""What has no output before it for so long is a line, in intervals."""
MAX_MISSED_LINES = 2.5
"""Intervals without a line after which it is not known when the next one comes."""
CLOCK_MASK = 0xFFFFFFFF
"""Milliseconds in a record are modulo 2^32."""


class PollTimes:
    """Times are seconds of the clock here. `max_poll`: longest time between two requests while it
    is not known when something comes."""

    def __init__(self, max_poll: float) -> None:
        self._max_poll, self._interval = max_poll, POLLS_PER_INTERVAL * max_poll
        self._delay = MIN_POLL_SECONDS
        self._misses = 0
        """Requests that found nothing since the last output, or since something was sent."""
        self._told = self._told_ms = 0.0
        """Clock of the guest at the last record: seconds, and the milliseconds in it."""
        self._offset: float | None = None
        """The clock here minus that of the guest, or a little more."""
        self._waited = self._doubt = 0.0
        """Seconds between the last two requests; how much the offset may be too large."""
        self._sent_at: float | None = None
        """When something was sent whose answer is waited for."""
        self._answer_seconds = MIN_POLL_SECONDS
        self._is_part = False
        """What was sent last is a part of a program, and not all of it was taken yet."""
        self._line: float | None = None
        """When the last line was made, by the clock of the guest; None: not known."""
        self._output = 0.0
        """When the last output was made, by that clock."""

    def sent(self, now: float, size: int) -> float:
        """When to ask after these bytes were sent. Of more than a request it is soon told that they
        were taken, and more can be sent."""
        self._delay, self._misses = MIN_POLL_SECONDS, 0
        self._is_part = size > REQUEST_BYTES
        if self._is_part:
            return now + MIN_POLL_SECONDS
        self._sent_at = now
        return now + self._answer_seconds

    def missed(self, now: float) -> float:
        """When to ask again after nothing was found."""
        self._misses += 1
        next_poll, self._waited = now + self._delay, self._delay
        self._delay = min(self._max_poll, 2 * self._delay)
        return next_poll

    def received(self, now: float, told_ms: int, *, has_output: bool, took_all: bool) -> float:
        """When to ask again after a record was found. `has_output`: it says more than how much was
        taken; `took_all`: it was made after the guest had taken all that was sent."""
        made = self._made_at(now, told_ms)
        self._is_part = self._is_part and not took_all
        if self._sent_at is not None and has_output and took_all:
            self._learn_answer_time(made - self._sent_at)
        elif self._sent_at is None and has_output:
            self._note_output()
        self._misses = 0
        if self._sent_at is not None or self._is_part:
            self._delay = MIN_POLL_SECONDS
            return self._next_answer(now)
        self._delay = self._max_poll * LATE_POLL_PART
        return self._next_line(now)

    def _next_answer(self, now: float) -> float:
        if self._sent_at is None:
            return now + MIN_POLL_SECONDS
        return max(now, self._sent_at + self._answer_seconds)

    def _made_at(self, now: float, told_ms: int) -> float:
        """When a record was made. What was there at the first request may be old."""
        self._told += ((told_ms - int(self._told_ms)) & CLOCK_MASK) / 1e3
        self._told_ms = told_ms
        behind = now - self._told
        if self._misses or self._offset is None:
            self._offset, self._doubt = behind, self._waited
        elif behind < self._offset:
            self._doubt = max(0.0, self._doubt - (self._offset - behind))
            self._offset = behind
        return self._told + self._offset

    def _learn_answer_time(self, seconds: float) -> None:
        wanted = seconds * ANSWER_FACTOR + ANSWER_SLACK_SECONDS
        self._answer_seconds = min(max(MIN_POLL_SECONDS, wanted), self._max_poll)
        self._sent_at = None

    def _note_output(self) -> None:
        """Output that is no answer: is it a line?"""
        is_line = self._told - self._output > ALONE_PART * self._interval
        self._output = self._told
        if self._line is not None:
            intervals = (self._told - self._line) / self._interval
            if intervals < MAX_MISSED_LINES:
                is_line = intervals > 0.5 and abs(intervals - round(intervals)) < LINE_TOLERANCE
            elif not is_line:
                self._line = None
        if is_line:
            self._line = self._told

    def _next_line(self, now: float) -> float:
        """At once, if it is there by now. As long as the clock of the guest is not well known, too
        early: what is found after nothing was found is new."""
        if self._line is None or self._offset is None:
            return now + self._max_poll
        slack = self._interval * LINE_SLACK_PART
        expected = self._line + self._offset + self._interval + slack
        if self._doubt > slack:
            expected -= self._doubt
        return min(max(now, expected), now + self._interval)
