"""Draws that belong to people: the same for the same person, and nobody's guess without the key."""

import datetime
import hashlib
import json
import os
import subprocess
import sys
import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairmend import DataError
from fairmend.apply.draw import Drawer, random_key, read_key
from fairmend.data.columns import Frame
from fairmend.data.ids import content_ids, number_people

KEY = bytes(range(32))
DRAWER = Drawer(KEY, "plan")
MANY = np.arange(100_000)
TEXTS = [f"person {i}" for i in range(20_000)]

# A text id that no UTF-8 file can hold is an error, so lone surrogates are left out here.
IDS = st.integers(-(2**70), 2**70) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12
)


def bits_of(uniform):
    """The 53 bits of each draw, most significant first."""
    whole = (uniform * 2.0**53).astype(np.uint64)
    return (whole[:, None] >> np.arange(52, -1, -1, dtype=np.uint64)) & np.uint64(1)


# -------------------------------------------------------------------- the mapping


def test_the_mapping_is_pinned():
    """Another value here means that everybody's answer changes with the version: never."""
    integers = DRAWER.uniform([0, 1, -1, 2**62, -(2**63)])
    assert [u.hex() for u in integers] == [
        "0x1.3b5e4a6bdb646p-2",
        "0x1.b1eebf9dbe896p-1",
        "0x1.3d6ca1c3e257bp-1",
        "0x1.56a4f26de7f4cp-3",
        "0x1.6a6b9040db624p-1",
    ]
    texts = DRAWER.uniform(["anna", "Ölaf", "007", str(2**64)])
    assert [u.hex() for u in texts] == [
        "0x1.0642975769dd0p-1",
        "0x1.a50e397f9f230p-5",
        "0x1.351cec3203b72p-2",
        "0x1.7eaf4309b4747p-1",
    ]
    assert DRAWER.fingerprint == "d744dc88cc27b2c1"
    rows = content_ids(Frame.read(np.array([[1, 0.5], [0, 2.0]])))
    assert rows.tolist() == [
        "row:4c6b45df0cc8ab523c27e33aa5b26126",
        "row:86d9380ed7202f4ca0b37b7301515c35",
    ]


def test_it_is_aes_and_blake2b():
    """The primitives themselves, called directly, give the same numbers."""
    keys = hashlib.blake2b(b"plan", key=KEY, person=b"fairmend draw 1").digest()
    ids = [5, -7, 2**40]
    for person, drawn in zip(ids, DRAWER.uniform(ids), strict=True):
        block = person.to_bytes(8, "little", signed=True) + bytes(8)
        cipher = Cipher(algorithms.AES256(keys[:32]), modes.ECB()).encryptor()
        number = int.from_bytes(cipher.update(block)[:8], "little")
        assert drawn == (number >> 11) / 2**53
    for text, drawn in zip(["anna", "7.5"], DRAWER.uniform(["anna", "7.5"]), strict=True):
        digest = hashlib.blake2b(text.encode(), digest_size=8, key=keys[32:]).digest()
        assert drawn == (int.from_bytes(digest, "little") >> 11) / 2**53


# -------------------------------------------------------------------- one person, one answer


@given(st.lists(IDS, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_order_and_batch_do_not_matter(ids, random):
    together = DRAWER.uniform(ids)
    alone = [DRAWER.uniform([person])[0] for person in ids]
    np.testing.assert_array_equal(together, alone)
    order = list(range(len(ids)))
    random.shuffle(order)
    np.testing.assert_array_equal(DRAWER.uniform([ids[i] for i in order]), together[order])
    assert ((together >= 0) & (together < 1)).all()


@given(st.integers(-(2**70), 2**70))
def test_an_integer_and_its_text_are_one_person(number):
    as_int, as_text = DRAWER.uniform([number])[0], DRAWER.uniform([str(number)])[0]
    assert as_int == as_text
    if abs(number) <= 2**53:
        assert DRAWER.uniform([float(number)])[0] == as_int


def test_another_process_draws_the_same():
    code = (
        "import json; from fairmend.apply.draw import Drawer\n"
        "drawer = Drawer(bytes(range(32)), 'plan')\n"
        "print(json.dumps([*drawer.uniform(range(50)), *drawer.uniform(list('abcdefgh'))]))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code.replace("range(50)", "list(range(50))")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        here = [*DRAWER.uniform(list(range(50))), *DRAWER.uniform(list("abcdefgh"))]
        assert json.loads(done.stdout) == here


def test_containers_do_not_matter():
    ids = [3, 1, 2**40, -5]
    expected = DRAWER.uniform(ids)
    words = [str(i) for i in ids]
    for column in (
        np.array(ids), np.array(ids, float), np.array(ids, object), np.array(words),
        pd.Series(ids), pd.Series(ids, dtype="Int64"), pd.Series(words), tuple(ids),
        pd.Series(words, dtype="category"), pl.Series(ids), pl.Series(words),
        pl.Series(words, dtype=pl.Categorical), pa.array(ids), pa.chunked_array([words]),
        [3, "1", 2.0**40, np.int8(-5)],
    ):  # fmt: skip
        np.testing.assert_array_equal(DRAWER.uniform(column), expected)
    np.testing.assert_array_equal(
        DRAWER.uniform(np.array([2**63], np.uint64)), DRAWER.uniform([str(2**63)])
    )


def test_text_is_taken_in_its_composed_form_and_otherwise_as_it_is():
    composed, decomposed = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    assert composed != decomposed
    np.testing.assert_array_equal(DRAWER.uniform([composed]), DRAWER.uniform([decomposed]))
    others = ["7", "07", "+7", "007.0", "7.10", "7e0", " 7", "7 ", "７", "-0", "0", "zoë", composed]
    assert len(set(DRAWER.uniform(others))) == len(others)


@pytest.mark.parametrize(
    "ids",
    [
        [1, None], [1.5], [float("nan")], [float("inf")], [True], [1, True], [""], [b"7"],
        [2.0**53 + 2], [(1, 2)], ["\ud800"], [datetime.date(2024, 1, 1)],
        np.array([True, False]), np.array([b"7"]), np.array([1.0, np.nan]),
        np.array(["2024-01-01"], "M8[D]"), pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None]), pl.Series([None, 1]), pl.Series([1.0, float("nan")]),
    ],
)  # fmt: skip
def test_what_is_no_id_is_an_error(ids):
    with pytest.raises(DataError, match="ids: must be whole numbers or text"):
        DRAWER.uniform(ids)


def test_nobody_draws_nothing():
    assert DRAWER.uniform([]).shape == (0,)
    assert DRAWER.uniform(np.empty(0, np.int64)).shape == (0,)


# -------------------------------------------------------------------- nobody's guess


@pytest.mark.parametrize("ids", [MANY, TEXTS], ids=["integers", "texts"])
def test_draws_are_uniform(ids):
    """Keys are fixed, so this cannot flicker: p = 1e-3 is a loose bound for one fixed sample."""
    assert stats.kstest(DRAWER.uniform(ids), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("ids", [MANY, TEXTS], ids=["integers", "texts"])
def test_draws_cannot_be_told_from_a_good_generator(ids):
    """Monobit, serial and neighbour tests, judged as numpy's generator would be.

    Under chance each statistic is about standard normal; of 53 + 52 + 53 of them one beyond 4.5
    has a probability of about 1e-3. The ids are consecutive, the worst case for a weak mapping.
    """
    for uniform in (DRAWER.uniform(ids), np.random.default_rng(0).random(len(ids))):
        bits = bits_of(uniform).astype(np.int64)
        n = len(bits)
        monobit = (2 * bits.sum(axis=0) - n) / np.sqrt(n)
        serial = (2 * (bits[:, 1:] ^ bits[:, :-1]).sum(axis=0) - n) / np.sqrt(n)
        neighbour = (2 * (bits[1:] ^ bits[:-1]).sum(axis=0) - (n - 1)) / np.sqrt(n - 1)
        assert np.abs(np.concatenate([monobit, serial, neighbour])).max() < 4.5
        assert len(np.unique(uniform)) == n


def test_a_weak_mapping_would_be_noticed():
    """The same statistics find a multiplicative hash of consecutive ids out."""
    weak = ((MANY.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)) * 2.0**-53
    bits = bits_of(weak).astype(np.int64)
    neighbour = (2 * (bits[1:] ^ bits[:-1]).sum(axis=0) - len(MANY)) / np.sqrt(len(MANY))
    assert np.abs(neighbour).max() > 4.5


@pytest.mark.parametrize(
    "other",
    [Drawer(KEY, "plan 2"), Drawer(KEY), Drawer(bytes(31) + b"\x01", "plan")],
    ids=["domain", "no domain", "key"],
)
@pytest.mark.parametrize("ids", [MANY, TEXTS], ids=["integers", "texts"])
def test_another_key_or_domain_draws_independently(ids, other):
    """Correlations of n independent pairs have a standard deviation of 1/sqrt(n)."""
    one, two = DRAWER.uniform(ids), other.uniform(ids)
    for a, b in ((one, two), (one > 0.5, two > 0.5), (one, (two * 1024) % 1)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4.5 / np.sqrt(len(one))


def test_one_flipped_bit_of_the_key_changes_half_of_the_bits():
    flipped = bytes([KEY[0] ^ 1]) + KEY[1:]
    a, b = bits_of(DRAWER.uniform(MANY)), bits_of(Drawer(flipped, "plan").uniform(MANY))
    # mean of 5.3 million fair bits: standard deviation 2.2e-4
    assert abs((a ^ b).mean() - 0.5) < 1e-3


# -------------------------------------------------------------------- keys


def test_the_key_is_not_shown():
    for text in (repr(DRAWER), str(DRAWER), f"{DRAWER}"):
        assert "plan" in text
        assert KEY.hex() not in text
        assert repr(KEY)[2:-1] not in text


def test_keys_are_fresh_and_kept():
    assert random_key() != random_key()
    drawer = Drawer(None, "plan")
    assert len(drawer.key) == 32
    np.testing.assert_array_equal(
        drawer.uniform([1, 2]), Drawer(drawer.key, "plan").uniform([1, 2])
    )
    assert drawer.uniform([1])[0] != Drawer(None, "plan").uniform([1])[0]


def test_read_key(tmp_path, monkeypatch):
    path = tmp_path / "key"
    path.write_text(KEY.hex() + "\n")
    path.chmod(0o600)
    monkeypatch.setenv("FAIRMEND_KEY", KEY.hex().upper())
    assert read_key(hex=KEY.hex()) == read_key(env="FAIRMEND_KEY") == read_key(file=path) == KEY


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "0x" + "00" * 31, "é" * 64, "zz" * 32])
def test_a_bad_key_is_refused_and_not_repeated(text, tmp_path, monkeypatch):
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    monkeypatch.setenv("FAIRMEND_KEY", text)
    for source in ({"hex": text}, {"env": "FAIRMEND_KEY"}, {"file": path}):
        with pytest.raises(DataError, match="must be 32 bytes, written as 64") as raised:
            read_key(**source)
        assert not text or text not in str(raised.value)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), "00" * 32, 7, bytearray(32)])
def test_a_drawer_wants_32_bytes(key):
    with pytest.raises(DataError, match="must be 32 bytes"):
        Drawer(key, "plan")


def test_a_key_given_for_its_file_is_not_repeated():
    for key in (random_key().hex(), "A" * 43 + "="):
        with pytest.raises(DataError, match="not the key itself") as caught:
            read_key(file=key)
        assert key not in str(caught.value)
    with pytest.raises(DataError, match=r"key file 'secrt\.key'"):
        read_key(file="secrt.key")


def test_what_else_is_wrong_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("FAIRMEND_KEY", raising=False)
    with pytest.raises(DataError, match="domain: must be text; got a int"):
        Drawer(KEY, 3)
    with pytest.raises(DataError, match="it is not set"):
        read_key(env="FAIRMEND_KEY")
    with pytest.raises(DataError, match="must be readable"):
        read_key(file=tmp_path / "nowhere")
    for many in ({}, {"hex": KEY.hex(), "env": "X"}):
        with pytest.raises(DataError, match="must get one place"):
            read_key(**many)


# -------------------------------------------------------------------- people without ids


def test_content_ids_do_not_depend_on_the_container():
    columns = {
        "a": [1, 0, 1, 1],
        "b": [0.5, 2.0, 0.5, None],
        "c": ["x", "y", "x", None],
        "d": [datetime.date(2024, 2, 29)] * 4,
        "e": [True, False, True, True],
    }
    frames = [pl.DataFrame(columns), pa.table(columns), pd.DataFrame(columns)]
    midnight = {**columns, "d": pd.to_datetime(columns["d"])}
    frames.append(pd.DataFrame(midnight))
    ids = [content_ids(Frame.read(frame)) for frame in frames]
    for other in ids[1:]:
        np.testing.assert_array_equal(other, ids[0])
    assert ids[0][0] == ids[0][2]
    assert len(set(ids[0])) == 3


def test_content_ids_of_numbers_are_those_of_a_matrix():
    matrix = np.array([[1, 0.5], [0, 2.0], [1, np.nan]])
    frame = pd.DataFrame({"one": [1, 0, 1], "two": pd.Series([0.5, 2, None], dtype="Float64")})
    np.testing.assert_array_equal(content_ids(Frame.read(matrix)), content_ids(Frame.read(frame)))


def test_content_ids_tell_values_and_places_apart():
    rows = [
        ["a", "bc"], ["ab", "c"], ["1", "bc"], [1, "bc"], [None, "bc"], ["missing", "bc"],
        ["bc", "a"], [0.1, "bc"], [np.float32(0.1).item(), "bc"], [b"a", "bc"],
    ]  # fmt: skip
    ids = content_ids(Frame.read(np.array(rows, object)))
    assert len(set(ids)) == len(rows)
    assert len(set(DRAWER.uniform(ids))) == len(rows)


def test_content_ids_of_odd_values_are_an_error():
    with pytest.raises(DataError, match="X column 'x0': must hold numbers, text or dates"):
        content_ids(Frame.read(np.array([[1j], [2j]], object)))


def test_whole_numbers_are_one_person_however_they_are_written():
    """As a spreadsheet writes them too; 007 and 7 stay two people."""
    same = [5, 5.0, "5", "5.0", "5.00", np.int32(5)]
    assert len(set(DRAWER.uniform(same))) == 1
    for ids in (["5.0"], pl.Series(["5.0"]), pd.Series([5.0]), np.array(["5"]), pl.Series([5])):
        assert DRAWER.uniform(ids)[0] == DRAWER.uniform([5])[0]
    assert number_people(["7.0", "7", "007", "007.0", "7.5", "-0", "-0.0"]).tolist() == [
        0, 0, 1, 2, 3, 4, 5,
    ]  # fmt: skip
    # longer than a computer's numbers: exact, as the text they are
    assert len(set(number_people([f"{10**24 + i}" for i in range(3)] + [f"{10**24}.0"]))) == 3
