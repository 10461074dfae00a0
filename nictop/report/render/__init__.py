"""Three forms of every document: text for a terminal, Markdown, HTML."""
