"""Where figures go: a file in a folder that need not be there yet, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairmend.data.files import writing


def write_text(path: Path, text: str) -> None:
    """What is there already is replaced once the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, overwrite=True) as file:
        file.write(text.encode())


def write_json(path: Path, content: dict[str, Any]) -> None:
    """The same for figures."""
    write_text(path, json.dumps(content, indent=2) + "\n")
