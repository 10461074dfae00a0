"""What is shown: each screen draws what controllers know, and has the actions of its keys
(`nictop.tui.keys`).

`live` is the first one; `base.NictopScreen` gives access to the controllers and their signals. The
application opens screens; one imports another only to open it itself.
"""
