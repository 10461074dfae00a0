"""When a guest agent is asked for output: soon after it is there, and seldom in vain. The guest is
simulated: a clock, records with the times at which they are made, and no agent."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from random import Random

import pytest

from nictop.probe.reach.poll_times import PollTimes

MAX_POLL = 0.25
START = 5000.0
"""Clock of the hypervisor at the start."""
GUEST_CLOCK = 4_294_900.0
"""Of the guest at that time, seconds: its milliseconds exceed 32 bits within a minute."""


class Guest:
    """What a bridge sees of one. `made`: times of its records, seconds after the start."""

    def __init__(self, made: Iterable[float], *, clock_rate: float = 1.0) -> None:
        self.times = PollTimes(MAX_POLL)
        self.made, self.rate = sorted(made), clock_rate
        self.now = 0.0
        self.lags: list[tuple[float, float]] = []
        """(when a record was found, seconds since it was made)"""
        self.misses: list[float] = []

    def poll_until(self, end: float) -> None:
        at = self.times.missed(START + self.now) - START
        while at < end:
            at = self.poll(at)

    def poll(self, at: float, *, has_output: bool = True, took_all: bool = True) -> float:
        """The next time."""
        self.now = at
        if not self.made or self.made[0] > at:
            self.misses.append(at)
            return self.times.missed(START + at) - START
        made = self.made.pop(0)
        self.lags.append((at, at - made))
        told_ms = int((GUEST_CLOCK + made * self.rate) * 1000) & 0xFFFFFFFF
        following = self.times.received(
            START + at, told_ms, has_output=has_output, took_all=took_all
        )
        return following - START


@pytest.mark.parametrize("clock_rate", [1.0, 1.001, 0.999])
def test_lines_are_found_when_they_are_there(clock_rate: float) -> None:
    random = Random(3)
    lines = (second + 0.37 + random.random() * 0.008 for second in range(200))
    guest = Guest(lines, clock_rate=clock_rate)
    guest.poll_until(200)
    settled = [lag for at, lag in guest.lags if at > 5]
    assert len(settled) == 195 and max(settled) < 0.06
    assert sum(at > 5 for at in guest.misses) < 60


def test_what_comes_between_two_lines_does_not_delay_them() -> None:
    """An inventory, events: found with the next line, which is found at once behind them."""
    between = [20.9, 21.55, 21.6, *(30.05 + number / 10 for number in range(20))]
    lines = [float(second) for second in range(60)]
    guest = Guest([*lines, *between])
    guest.poll_until(60)
    assert guest.made == []
    assert all(lag < 1.05 for at, lag in guest.lags)
    settled = {round(at - lag, 2): lag for at, lag in guest.lags if at > 5}
    assert max(settled[line] for line in lines[6:-1]) < 0.06


def test_lines_that_come_at_another_time_are_found_again() -> None:
    guest = Guest(
        [*map(float, range(20)), *(second + 0.6 for second in range(20, 60))], clock_rate=1
    )
    guest.poll_until(60)
    assert max(lag for at, lag in guest.lags if at > 25) < 0.06


def test_after_a_pause_of_the_guest_its_clock_is_learned_anew() -> None:
    """CLOCK_MONOTONIC of a guest stands while it is paused."""
    guest = Guest(map(float, range(20)))
    guest.poll_until(20)
    times = guest.times
    guest.made = [40.0 + number for number in range(30)]
    at = 20.0
    while guest.made:
        if guest.made[0] > at:
            at = times.missed(START + at) - START
            continue
        made = guest.made.pop(0)
        guest.lags.append((at, at - made))
        told_ms = int((GUEST_CLOCK + made - 19.5) * 1000) & 0xFFFFFFFF
        at = times.received(START + at, told_ms, has_output=True, took_all=True) - START
    assert max(lag for found, lag in guest.lags if found > 45) < 0.06


def test_an_answer_is_asked_for_when_the_last_one_was_there() -> None:
    answer_seconds = 0.031
    guest = Guest([])
    for number in itertools.count(1):
        sent = float(number)
        guest.made = [sent + 0.001, sent + answer_seconds]  # the first one: input was taken
        at = guest.times.sent(START + sent, 60) - START
        guest.misses.clear()
        while guest.made:
            at = guest.poll(at, has_output=len(guest.made) == 1)
        assert guest.lags[-1][1] < 0.04
        if number == 3:
            break
    assert guest.misses == []


def test_after_a_part_of_a_program_it_is_asked_at_once_whether_it_was_taken() -> None:
    """Of each part in two records. The time of the last answer has no meaning for that, nor is
    either a line of the probe."""
    guest = Guest([])
    at = guest.times.sent(START, 60) - START
    guest.made = [0.2]
    while guest.made:
        at = guest.poll(at)
    for part in range(20):
        sent = at
        at = guest.times.sent(START + at, 30_000) - START
        guest.made = [sent + 0.003, sent + 0.009]
        while guest.made:
            at = guest.poll(at, has_output=False, took_all=len(guest.made) == 1)
        assert guest.now - sent < 0.02, part


def test_a_guest_that_lies_about_its_time_is_asked_at_least_once_per_interval() -> None:
    random, times = Random(5), PollTimes(MAX_POLL)
    now = START
    for _ in range(2000):
        if random.random() < 0.5:
            following = times.missed(now)
        else:
            told_ms = random.randrange(1 << 32)
            following = times.received(
                now, told_ms, has_output=random.random() < 0.5, took_all=random.random() < 0.5
            )
        assert now <= following <= now + 4 * MAX_POLL
        now = following
