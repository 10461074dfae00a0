"""``nictop check``: findings as text, JSON and Markdown, and the explanation of each rule."""
