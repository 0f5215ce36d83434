"""Keys of clients: made once, kept as scrypt hashes, revocable."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import threading
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from memvec import checks
from memvec.cache import Cache
from memvec.errors import FileFormatError, IndexNotFoundError

Scope = Literal["read", "write"]
_PREFIX = "mv"
_SECRET_BYTES = 32
# 16 MiB and about 50 ms a check, as OWASP advises for interactive use.
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 32}
_VERSION = 1
# Keys that were checked before, known by a hash that nobody can guess; some 100 of them.
_KNOWN_BYTES = 1 << 18


@dataclass(frozen=True)
class Key:
    """A key as it is stored, without its secret part.

    Attributes
    ----------
    id : str
        The first part of the key, which names it.
    scope : {"read", "write"}
        What the key allows; "write" includes reading.
    note : str
        A note, such as the owner.
    created : str
        Time of creation, in ISO 8601.
    revoked : str or None
        Time of revocation; None for a valid key.
    salt, hash : str
        Salt and hash of the secret part, in hexadecimal.
    """

    id: str
    scope: Scope
    note: str
    created: str
    revoked: str | None
    salt: str
    hash: str

    def opens(self, scope: Scope) -> bool:
        """Return whether the key allows reading or writing."""
        return self.revoked is None and scope in ("read", self.scope)


class KeyFile:
    """The keys of a server, in a file that is read again when it changes.

    Parameters
    ----------
    path : path
        The file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = checks.path(path, "path", "KeyFile")
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, Key] = {}
        self._checked: Cache[bytes, bool] = Cache(_KNOWN_BYTES)
        self._salt = secrets.token_bytes(16)

    def create(self, scope: Scope, note: str = "") -> str:
        """Create a key and return it. It is not stored and cannot be shown again."""
        checks.choice(scope, "scope", "KeyFile.create", get_args(Scope))
        # Hexadecimal, so that the parts are told apart.
        name, secret = secrets.token_hex(6), secrets.token_hex(_SECRET_BYTES)
        salt = secrets.token_bytes(16)
        hashed = _hashed(secret, salt)
        made = Key(name, scope, note, _now(), None, salt.hex(), hashed.hex())
        with self._lock:
            keys = self._read() if self._path.exists() else {}
            self._write({**keys, name: made})
        return f"{_PREFIX}_{name}_{secret}"

    def revoke(self, name: str) -> Key:
        """Revoke a key, by its id."""
        with self._lock:
            keys = self._read()
            if name not in keys:
                raise checks.bad_value("name", "KeyFile.revoke", "the id of a key", repr(name))
            gone = replace(keys[name], revoked=keys[name].revoked or _now())
            self._write({**keys, name: gone})
        return gone

    def listed(self) -> list[Key]:
        """Return all keys, revoked ones too."""
        with self._lock:
            return list(self._read().values())

    def is_known(self, key: str) -> bool:
        """Return whether a key was checked before; checking it again costs nothing."""
        return _digest(key) in self._checked

    def holder(self, key: str) -> Key | None:
        """Return a key as it is stored; None if the file does not have it.

        The file is read each time, so a revoked key is noticed.
        """
        prefix, _, rest = key.partition("_")
        name, _, secret = rest.partition("_")
        with self._lock:
            found = self._read().get(name) if prefix == _PREFIX else None
        expected, salt = (bytes(32), self._salt)
        if found is not None:
            expected, salt = bytes.fromhex(found.hash), bytes.fromhex(found.salt)

        def check() -> bool:
            # Names that nobody has take as long as others.
            return hmac.compare_digest(_hashed(secret, salt), expected)

        good = self._checked.get(_digest(key), check)
        return found if good else None

    def is_open(self, name: str) -> bool:
        """Return whether a key that was checked is still valid, by its id."""
        with self._lock:
            found = self._read().get(name)
        return found is not None and found.revoked is None

    def _read(self) -> dict[str, Key]:
        """Return the keys of the file, read where it changed."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            raise IndexNotFoundError(f"There is no file of keys at {self._path}.") from None
        if status.st_mode & 0o022:
            text = f"{self._path} is a file of keys that others may change: chmod 600 it."
            raise FileFormatError(text)
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if stamp != self._seen:
            self._keys = _parsed(self._path)
            self._checked.drop(lambda digest: True)
            self._seen = stamp
        return self._keys

    def _write(self, keys: dict[str, Key]) -> None:
        """Replace the file, whole, for its owner alone."""
        text = json.dumps({"version": _VERSION, "keys": [asdict(key) for key in keys.values()]})
        new = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}.tmp")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def _parsed(path: Path) -> dict[str, Key]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["version"] != _VERSION:
            raise ValueError(f"version {told['version']!r} is unknown")
        keys = [Key(**fields) for fields in told["keys"]]
        for key in keys:
            checks.choice(key.scope, "scope", "Key", get_args(Scope))
            bytes.fromhex(key.salt + key.hash)
        return {key.id: key for key in keys}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a file of keys: {error}.") from None


def _hashed(secret: str, salt: bytes) -> bytes:
    data = secret.encode(errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, maxmem=1 << 26, **_SCRYPT)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
