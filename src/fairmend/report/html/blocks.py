"""What a page is made of. The template knows how each looks, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from fairmend.report.html.table import Table

__all__ = [
    "MOST_OPEN",
    "Answers",
    "Block",
    "Chart",
    "Facts",
    "Figures",
    "Fold",
    "Heading",
    "Section",
    "Slider",
    "TableBlock",
    "Text",
]

MOST_OPEN = 2
"""Groups whose parts of the page lie open; those of further ones are folded, and printed open."""


@dataclass(frozen=True)
class Block:
    """One part of a section; the template chooses by ``kind``, the name of the class."""

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Text(Block):
    """A paragraph."""

    text: str
    aside: bool = False


@dataclass(frozen=True)
class Heading(Block):
    """The title of a part of a section."""

    text: str


@dataclass(frozen=True)
class Answers(Block):
    """Questions with their answers; one of several lines is a list."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Figures(Block):
    """A few figures that stand out: label, figure, what to say beside it."""

    items: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Chart(Block):
    """A drawing with its description and, below it, its table."""

    key: str
    caption: str
    svg: Markup
    table: Table


@dataclass(frozen=True)
class TableBlock(Block):
    """A table without a drawing; with a link to save it where it is to be filed."""

    table: Table
    download: bool = False


@dataclass(frozen=True)
class Facts(Block):
    """Names with what they stand for."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Fold(Block):
    """What is told of one of several groups: its name opens and closes it."""

    title: str
    blocks: tuple[Block, ...]
    is_open: bool


@dataclass(frozen=True)
class Slider(Block):
    """The choice of a level, and what each level does to each group."""

    key: str
    levels: tuple[str, ...]
    start: int
    labels: tuple[str, ...]
    """What the figures are."""
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    """A group's name, and for each level its figures as text."""
    charts: tuple[Chart, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    """The same for the script."""


@dataclass(frozen=True)
class Section:
    """A numbered part of the page."""

    key: str
    title: str
    blocks: tuple[Block, ...]
