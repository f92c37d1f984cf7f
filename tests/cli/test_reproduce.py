"""The experiments of a checkout, from the command line's side."""

import pytest

from fairmend.cli.reproduce import run_experiments
from fairmend.errors import DataError


def test_without_a_checkout_it_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match="make reproduce") as refused:
        run_experiments(checkout=tmp_path)
    assert str(tmp_path) in refused.value.got


def test_it_runs_the_experiments_with_its_settings(tmp_path, capfd):
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "__main__.py").write_text("import sys; print(*sys.argv[1:]); sys.exit(3)")
    assert run_experiments(100, 4, tmp_path / "here", checkout=tmp_path) == 3
    assert capfd.readouterr().out == f"--splits 100 --jobs 4 --out {tmp_path / 'here'}\n"


@pytest.mark.slow
def test_the_checkout_is_this_one(capfd):
    # wrong settings are answered by the experiments themselves, in their own words
    assert run_experiments(splits=1) == 2
    assert "needs at least 2 splits" in capfd.readouterr().err
