"""``fairmend inspect``: what is in an artifact."""

from __future__ import annotations

from fairmend.cli import options as o
from fairmend.cli.output import print_json


def inspect(artifact: o.Artifact, as_json: o.AsJson = False) -> None:
    """Print what is in an artifact: what it mends, for whom, how, and where it comes from."""
    from fairmend.artifact import inspect as look

    manifest = look(artifact)
    if as_json:
        content = manifest.to_dict()
        print_json(content.pop("schema", "fairmend.manifest/1"), content)
    else:
        print(manifest)
