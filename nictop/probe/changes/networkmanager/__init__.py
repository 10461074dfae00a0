"""Changes made through NetworkManager, so that they can be undone even when NetworkManager is
killed.

`guard` is what the guard process calls, `checkpoint` saves the state before and restores it;
`files`, `settings` and `activation` each save and restore one part of it.
"""
