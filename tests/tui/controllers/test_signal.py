"""Signals: who subscribed is called at once, until it unsubscribes."""

from __future__ import annotations

from nictop.tui.controllers.signal import Signal


def test_subscribers_are_called_in_order_until_they_unsubscribe() -> None:
    signal, called = Signal(), list[str]()
    unsubscribe = signal.subscribe(lambda: called.append("first"))
    signal.subscribe(lambda: called.append("second"))
    signal.publish()
    unsubscribe()
    signal.publish()
    assert called == ["first", "second", "second"]


def test_the_same_callback_may_subscribe_twice() -> None:
    signal, called = Signal(), list[int]()

    def callback() -> None:
        called.append(len(called))

    unsubscribe = signal.subscribe(callback)
    signal.subscribe(callback)
    unsubscribe()
    signal.publish()
    assert called == [0]


def test_a_subscriber_may_unsubscribe_while_it_is_called() -> None:
    signal, called = Signal(), list[str]()

    def once() -> None:
        called.append("once")
        unsubscribe()

    unsubscribe = signal.subscribe(once)
    signal.subscribe(lambda: called.append("always"))
    signal.publish()
    signal.publish()
    assert called == ["once", "always", "always"]
