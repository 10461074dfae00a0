"""Columns of tables: title, width, value and text of each. A new column is one entry."""
