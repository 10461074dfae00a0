"""Build hook of hatchling: puts the man page and the completion scripts into the wheel, below
share/.

Needs the standard library only: a wheel is built in an environment without the dependencies of
nictop.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SharedFiles(BuildHookInterface[Any]):  # type: ignore[misc]  # hatchling is not in the environment of the tests
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from release.shared_files import shared_files
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory()
        for path, text in shared_files(
            float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
        ).items():
            file = Path(self._folder.name, Path(path).name)
            file.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(file)] = path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
