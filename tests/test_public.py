"""The public names: what `dir` lists, and what `help` says first."""

import inspect
import pydoc
import re

import pytest

import fairmend

NAMES = [name for name in fairmend.__all__ if name != "__version__"]


def test_dir_lists_the_public_names_and_no_more():
    assert dir(fairmend) == sorted(fairmend.__all__) == fairmend.__dir__()
    assert len(set(fairmend.__all__)) == len(fairmend.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'mend'"):
        fairmend.mend  # noqa: B018


@pytest.mark.parametrize("name", [*NAMES, ""])
def test_help_opens_with_one_plain_sentence(name):
    thing = getattr(fairmend, name) if name else fairmend
    first = (inspect.getdoc(thing) or "").split("\n\n")[0]
    assert re.fullmatch(r"[A-Z`][^\n]{10,110}\.", first), first
    assert not re.search(r"\b(mend(s|ed|ing)?|apart|whom|nobody)\b", first), first
    assert first in pydoc.plain(pydoc.render_doc(thing))


def test_each_constant_says_what_it_measures():
    for name in ("FDR", "FNR", "FPR", "SP"):
        assert getattr(fairmend, name).words.title
