"""The form in which nictop is installed, for ``nictop --version`` and reports of faults."""

from __future__ import annotations

import os
import sys

import nictop

FORM_FILE = "form.txt"
"""Beside this file, in the offline file and in the Debian package: what it is. `release.tree`
writes it."""
MAX_FORM_CHARS = 100


def version_text() -> str:
    """``nictop 0.1.0 (offline file, Python 3.11.7)``."""
    python = ".".join(map(str, sys.version_info[:3]))
    return f"nictop {nictop.__version__} ({_form()}, Python {python})"


def _form() -> str:
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(folder, FORM_FILE), encoding="ascii") as file:
            return file.read(MAX_FORM_CHARS).strip()
    except (OSError, ValueError):
        is_checkout = os.path.exists(os.path.join(folder, "..", "..", "pyproject.toml"))
        return "source checkout" if is_checkout else "installed package"
