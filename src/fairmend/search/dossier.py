"""The dossier: a search for alternatives as one page to file."""

from typing import Any


def dossier(found: Any, *, command: str | None = None) -> str:
    """The page."""
    raise NotImplementedError
