"""What the lines mean. Pure: no I/O, no asyncio."""
