"""What mkdocs needs beside the pages of docs/: files of the repository, and the reference.

The README, the changelog and a few more belong to the repository and to the site; they are taken
from where they are, and links between them and the pages are bent accordingly. The reference is
made from the package's public names, so that a new name cannot be forgotten.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
FROM_REPOSITORY = {
    "README.md": "start.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Files of the repository, and the page of the site that each becomes."""
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")

REFERENCE = {
    "Audit": [
        "audit", "Audit", "BlackBox", "RemoteModel", "tabulate", "audit_data", "AuditData",
        "Population",
    ],
    "Metrics": ["Disparity", "RateGap", "MetricWords", "Alignment", "Combination"],
    "Explanation": [
        "counterfactual", "Counterfactual", "counterfactual_data", "project", "descend",
    ],
    "Repair": [
        "RepairedClassifier", "fairmend.repair.settings.RepairSettings", "Cost", "load",
        "fairmend.repair.plan.Plan",
        "fairmend.repair.plan.Outlook", "fairmend.report.report.Report",
        "fairmend.artifact.manifest.inspect",
    ],
    "Search": ["alternatives", "Alternatives"],
    "Data elsewhere": [
        "fairmend.engines.source.source", "fairmend.engines.verbs.tabulate",
        "fairmend.engines.verbs.tabulate_into", "fairmend.engines.verbs.map_rows",
    ],
    "Data sets": [
        "fairmend.datasets.embedded.load_adult", "fairmend.datasets.embedded.load_compas",
        "fairmend.datasets.raw.load_adult_raw", "fairmend.datasets.raw.load_compas_raw",
    ],
    "Errors": [
        "FairmendError", "DataError", "ModelError", "RepairRefused", "ArtifactError",
        "MissingExtra", "FairmendWarning",
    ],
}  # fmt: skip
"""The public names by subject, and what they hand over or other doors offer, by its full name;
constants are described where they are used."""
ELSEWHERE = {"FDR", "FNR", "FPR", "SP", "__version__", "datasets", "engines"}


def on_files(files: Files, config: Any) -> Files:
    """Add the repository's own pages and the reference."""
    for source, page in FROM_REPOSITORY.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_bent(text, Path(source).parent)))
    files.append(File.generated(config, "reference.md", content=_reference()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Bend links that leave docs/."""
    if page.file.generated_by is not None:
        return markdown
    return _bent(markdown, Path("docs", page.file.src_uri).parent)


def _bent(text: str, folder: Path) -> str:
    """Links of a file of that folder, as the site has their targets."""
    below_docs = folder.parts[:1] == ("docs",)
    here = posixpath.relpath(folder.as_posix(), "docs") if below_docs else "."

    def bend(link: re.Match[str]) -> str:
        target = link[2]
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = posixpath.normpath((folder / target).as_posix())
        if path in FROM_REPOSITORY:
            target = posixpath.relpath(FROM_REPOSITORY[path], here)
        elif path.startswith("docs/"):
            target = posixpath.relpath(path.removeprefix("docs/"), here)
        elif (ROOT / path).exists():  # code is named on the site, not linked
            return f"]({posixpath.relpath('architecture.md', here)})"
        return link[1] + target + link[3]

    return LINK.sub(bend, text)


def _reference() -> str:
    import fairmend

    named = [name for names in REFERENCE.values() for name in names]
    forgotten = set(fairmend.__all__) - set(named) - ELSEWHERE
    if forgotten:
        raise ValueError(f"scripts/docs_site.py: REFERENCE must name {sorted(forgotten)}")
    parts = [
        "# Reference\n\nImported from `fairmend`; data elsewhere from `fairmend.engines`, data "
        "sets from `fairmend.datasets`, `inspect` from `fairmend.artifact`.\n"
    ]
    for subject, names in REFERENCE.items():
        parts.append(f"\n## {subject}\n")
        parts += [f"\n::: {_home(name)}\n" for name in names]
    return "".join(parts)


def _home(name: str) -> str:
    """Where a public name is defined: documentation is read from there."""
    import fairmend

    if "." in name:
        return name
    return f"{getattr(fairmend, name).__module__}.{name}"
