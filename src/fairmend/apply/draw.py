"""One person, one answer: numbers in [0, 1) that belong to people.

A repair that leaves something to chance must not roll again when the same person comes back, comes
in another batch, or is answered by another process. So the number is no random number but a keyed
function of the person's id:

    u = floor(first 64 bits of F(id) / 2^11) / 2^53,

where F is AES-256 of the id as one 16-byte block for integers, and keyed BLAKE2b of the id's text
for the rest. Both keys are derived by keyed BLAKE2b from the operator's secret and from a domain. A
repair's domain holds its fingerprint, which is stored in its artifact: two repairs with one secret
draw independently, and a repair draws alike wherever it is loaded. Whoever lacks the secret can
neither foretell a draw nor learn anything from published ones; features stay out of it, or people
could roll again by changing them.

Which ids are the same person: `fairmend.data.ids`.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, IntArray
from fairmend.data.files import read_small, writing
from fairmend.data.ids import canonical, is_id, no_id, read_ids
from fairmend.errors import DataError, check, unreadable

KEY_BYTES = 32
_LONGEST_KEY = 4096
"""Of a file with a key, blanks and all."""
# Marks the mapping; another number would be another mapping, and everybody would be drawn anew.
_VERSION = b"fairmend draw 1"


@dataclass(frozen=True, eq=False)
class Drawer:
    """Draws for people, by a secret of 32 bytes and a domain: what is drawn, and by which repair.

    Without a key a fresh one is made: people then keep their answers for as long as this drawer
    (or its `key`) is kept.

    >>> drawer = Drawer(bytes(32), "example")
    >>> drawer.uniform([7, 8]).round(6).tolist()
    [0.264979, 0.62442]
    >>> bool(drawer.uniform(["7"])[0] == drawer.uniform([7.0])[0])
    True
    """

    key: bytes | None = field(default=None, repr=False)
    domain: str = ""

    def __post_init__(self) -> None:
        if self.key is None:
            object.__setattr__(self, "key", random_key())
        is_bytes = isinstance(self.key, bytes)
        got = f"got {len(self.key)} bytes" if is_bytes else f"got a {type(self.key).__name__}"  # type: ignore[arg-type]
        check(is_bytes and len(self.key) == KEY_BYTES, "key", _MUST, got, _HOW_TO_MAKE_ONE)  # type: ignore[arg-type]
        check(
            isinstance(self.domain, str),
            "domain",
            "must be text",
            f"got a {type(self.domain).__name__}",
            "It names the plan or the artifact that draws.",
        )

    @cached_property
    def _keys(self) -> tuple[bytes, bytes]:
        """The domain's keys for AES and for BLAKE2b."""
        assert self.key is not None
        both = blake2b(self.domain.encode(), key=self.key, person=_VERSION).digest()
        return both[:KEY_BYTES], both[KEY_BYTES:]

    @property
    def fingerprint(self) -> str:
        """Distinguishes keys and reveals nothing about them: for logs and artifacts."""
        assert self.key is not None
        return blake2b(b"fingerprint", key=self.key, digest_size=8).hexdigest()

    def uniform(self, ids: Any) -> FloatArray:
        """One number in [0, 1) a person: the same for the same id, whatever else is asked.

        ``ids`` is a list, an array or a series with one id a person.
        """
        bits, entry = self._bits(ids)
        number: FloatArray = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return number if entry is None else number[entry]

    def pseudonym(self, person: Any) -> str:
        """A stand-in for somebody's id in records: nobody without the key can undo or make it.

        >>> drawer = Drawer(bytes(32), "example")
        >>> drawer.pseudonym(7) == drawer.pseudonym("7") != drawer.pseudonym("8")
        True
        """
        if not is_id(person):
            raise no_id(person, 0)
        text = str(canonical(person)).encode()
        return blake2b(text, digest_size=16, key=self._keys[1], person=b"pseudonym").hexdigest()

    def _bits(self, ids: Any) -> tuple[NDArray[np.uint64], IntArray | None]:
        """64 bits for each distinct id, and who has which; None for one each in order."""
        column = read_ids(ids)
        if column.dtype.kind == "i":
            return self._of_integers(column.astype(np.int64, copy=False)), None
        place: dict[Any, int] = {}
        entry = np.fromiter(
            (place.setdefault((type(v), v), len(place)) for v in column), np.int64, len(column)
        )
        people = [canonical(value) for _, value in place]
        bits = np.empty(len(people), np.uint64)
        numbered = np.array([isinstance(person, int) for person in people], bool)
        integers = np.array([person for person in people if isinstance(person, int)], np.int64)
        bits[numbered] = self._of_integers(integers)
        bits[~numbered] = self._of_texts([text for text in people if isinstance(text, str)])
        return bits, entry

    def _of_integers(self, ids: IntArray) -> NDArray[np.uint64]:
        from cryptography.hazmat.primitives import ciphers

        cipher = ciphers.Cipher(ciphers.algorithms.AES(self._keys[0]), ciphers.modes.ECB())
        blocks = np.zeros((len(ids), 2), "<i8")
        blocks[:, 0] = ids
        encrypted = cipher.encryptor().update(blocks.tobytes())
        return np.frombuffer(encrypted, "<u8")[::2].astype(np.uint64)

    def _of_texts(self, ids: list[str]) -> NDArray[np.uint64]:
        key = self._keys[1]
        digests = (blake2b(text.encode(), digest_size=8, key=key).digest() for text in ids)
        return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


# -------------------------------------------------------------------- keys


def random_key() -> bytes:
    """A fresh secret from the operating system; keep it, or everybody is drawn anew.

    >>> len(random_key())
    32
    """
    return secrets.token_bytes(KEY_BYTES)


def write_key(path: str | Path) -> str:
    """Make a secret in a file that only its owner can read, and return its fingerprint.

    A key is never overwritten: with another one, people would be drawn anew.
    """
    check(
        not os.path.lexists(path),
        f"output {str(path)!r}",
        "must not exist yet",
        "there is such a file",
        "Choose another name: a key is never overwritten. Repairs made with the old key need the "
        "old key.",
    )
    secret = random_key()
    before = os.umask(0o077)
    try:
        with writing(path) as out:
            out.write(secret.hex().encode() + b"\n")
    finally:
        os.umask(before)
    return Drawer(secret).fingerprint


def read_key(
    *, hex: str | None = None, env: str | None = None, file: str | Path | None = None
) -> bytes:
    """The secret written as 64 hexadecimal digits: given, in an environment variable, or in a file.

    No error message repeats what it read.

    >>> read_key(hex="00" * 32) == bytes(32)
    True
    """
    given = [source for source in (hex, env, file) if source is not None]
    fix = "Pass hex=..., env=... or file=...."
    check(len(given) == 1, "read_key", "must get one place to read from", f"got {len(given)}", fix)
    if hex is not None:
        return _from_hex(hex, "key")
    if env is None:
        return _from_file(Path(str(file)))
    what = f"environment variable {env!r}"
    check(env in os.environ, what, "must hold the key", "it is not set", _HOW_TO_MAKE_ONE)
    return _from_hex(os.environ[env], what)


def find_key(env: str, file: str | Path | None = None) -> bytes | None:
    """The secret of a file, else of an environment variable; None where neither is given."""
    if file is not None:
        return read_key(file=file)
    return read_key(env=env) if os.environ.get(env) else None


_MAY_BE_A_KEY = re.compile(r"[0-9A-Za-z+=_]{20}")
"""So many letters in a row are hardly a file's name, and are not repeated."""
_HOW_TO_MAKE_ONE = (
    "Make a key once with fairmend key FILE, or fairmend.apply.draw.random_key().hex(), and keep "
    "it secret."
)
_MUST = f"must be {KEY_BYTES} bytes, written as {2 * KEY_BYTES} hexadecimal digits in text"


def _from_file(path: Path) -> bytes:
    what, fix = f"key file {str(path)!r}", f"Check its name. {_HOW_TO_MAKE_ONE}"
    try:
        refuse_readable(path, f"key file {path.name!r}")
        text = read_small(path, _LONGEST_KEY, what).decode("ascii", "replace")
    except DataError:  # too long, or no file
        raise
    except OSError as error:
        if _MAY_BE_A_KEY.search(str(path)):
            what = "key file"
            fix = "Give the name of the file that holds the key, not the key itself."
        raise unreadable(what, error, fix) from None
    except ValueError:  # a name with a zero byte in it
        raise DataError("key file", "must be readable", "its name is none", fix) from None
    return _from_hex(text, f"key file {path.name!r}")


def refuse_readable(path: Path, what: str) -> None:
    """A secret is its owner's; one that a cluster mounts is root's, and may be its group's too."""
    found = path.stat()
    others = 0o027 if found.st_uid == 0 != os.geteuid() else 0o077
    mode = stat.S_IMODE(found.st_mode)
    check(not stat.S_ISREG(found.st_mode) or not mode & others, what,
          "must be readable by nobody but its owner", f"its mode is {mode:04o}",
          "Say chmod 600 FILE; if others may have read it, make another key.")  # fmt: skip


def _from_hex(text: str, what: str) -> bytes:
    digits = text.strip()
    got = f"got {len(digits)} characters"
    check(len(digits) == 2 * KEY_BYTES, what, _MUST, got, _HOW_TO_MAKE_ONE)
    plain = re.fullmatch(r"[0-9a-fA-F]+", digits, re.ASCII)
    check(plain, what, _MUST, "got something else among its characters", _HOW_TO_MAKE_ONE)
    return bytes.fromhex(digits)
