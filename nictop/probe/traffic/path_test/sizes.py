"""The search for the largest packet that passes. Pure: what is sent and waited for is a function of
the caller."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Passes = Callable[[int], "tuple[bool, int | None]"]
    """Size in bytes → (whether such a packet passes, a size that may be the largest one: a next-hop
    MTU)."""


def largest_passing(passes: Passes, low: int, high: int, guesses: Iterable[int] = ()) -> int:
    """The largest size from `low`, which is known to pass, to `high`. First `high` is tried, then
    each guess between what passes and what does not, then the middle between them."""
    passed, hint = (True, None) if high <= low else passes(high)
    if passed:
        return max(low, high)
    pending, too_large = [*guesses], high
    above: list[int] = []
    """One more than a guess that passes: it should not."""
    while too_large - low > 1:
        if hint is not None:
            pending.insert(0, hint)
        pending = [guess for guess in pending if low < guess < too_large]
        above = [size for size in above if low < size < too_large]
        is_guess = False
        if above:
            size = above.pop()
        elif pending:
            size, is_guess = pending.pop(0), True
        else:
            size = (low + too_large) // 2
        passed, hint = passes(size)
        if not passed:
            too_large = size
            continue
        low = size
        above = [size + 1] if is_guess else []
    return low
