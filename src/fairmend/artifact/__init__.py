"""A fitted repair as one file: JSON and plain numbers in a zip, nothing that is ever executed."""

from fairmend.artifact.manifest import Manifest, inspect
from fairmend.artifact.store import load, save

__all__ = ["Manifest", "inspect", "load", "save"]
