"""Names and addresses replaced by placeholders, the same one everywhere. A field that holds one:
`fields`."""
