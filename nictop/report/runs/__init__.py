"""Runs and comparisons as text, JSON and Markdown."""
