"""The report page: one file without scripts or references."""
