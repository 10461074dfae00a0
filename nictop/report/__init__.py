"""Facts, findings and traffic runs as text, JSON, Markdown and HTML, redacted on request.

`facts`: ``nictop show``. `findings`: ``nictop check``. `runs`: results of traffic. `html`: the
report page.
"""
