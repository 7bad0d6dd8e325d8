"""Text files: reading from a path or an open file, compressed or not, in one of the usual encodings."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from cutplane.exceptions import InvalidInputError

PathOrFile = str | os.PathLike[str] | IO[Any]

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\0"
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def read_bytes(path_or_file: PathOrFile) -> tuple[str, bytes]:
    r"""Return a name for messages, and the contents, decompressed if they are in gzip or xz format.

    A file with a byte-order mark is converted to UTF-8 without the mark, and line ends become ``\n``.

    Raises
    ------
    InvalidInputError
        If the argument is not a file, the archive is damaged, or the contents are not text.
    """
    if isinstance(path_or_file, str | os.PathLike):
        name = os.fspath(path_or_file)
        data = Path(path_or_file).read_bytes()
    elif callable(getattr(path_or_file, "read", None)):
        name = getattr(path_or_file, "name", None)
        name = name if isinstance(name, str) else "the file"
        data = path_or_file.read()
    else:
        raise InvalidInputError(f"Expected a path or a file object, got {type(path_or_file).__name__}.")
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    if not isinstance(data, bytes):
        raise InvalidInputError(f"{name} must give text or bytes when it is read, got {type(data).__name__}.")
    if data.startswith((_GZIP, _XZ)):
        try:
            data = _decompressed(data)
        except (OSError, EOFError, zlib.error, ValueError, ImportError) as error:
            raise InvalidInputError(f"{name} cannot be decompressed: {error}.") from error
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            data = data[len(mark) :]
            if encoding != "utf-8":
                data = _decoded(name, data, encoding).encode()
            break
    if b"\0" in data:
        raise InvalidInputError(f"{name} is no text file: its byte {data.index(0)} is zero; decompress it.")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return name, data


def _decompressed(data: bytes) -> bytes:
    if data.startswith(_GZIP):
        return gzip.decompress(data)
    import lzma  # some builds of Python have no lzma

    try:
        return lzma.decompress(data)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error


def read_text(path_or_file: PathOrFile, errors: str = "strict") -> tuple[str, str]:
    """Return a name for messages, and the text, with `errors` as in ``bytes.decode``."""
    name, data = read_bytes(path_or_file)
    return name, _decoded(name, data, "utf-8", errors)


def write_text(parts: Iterable[str], path_or_file: PathOrFile) -> None:
    """Write parts of a text to a path, compressed if it ends with ``.gz``, or to a file for text or bytes."""
    if isinstance(path_or_file, str | os.PathLike):
        name = os.fspath(path_or_file)
        with written_whole(name) as raw:
            with gzip.GzipFile(name, "wb", fileobj=raw) if name.endswith(".gz") else nullcontext(raw) as file:
                for part in parts:
                    file.write(part.encode())
        return
    for part in parts:
        try:
            path_or_file.write(part)
        except TypeError:
            path_or_file.write(part.encode())


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that gets its name when all is written, because a full disk would leave a part of it.

    A device or a pipe is written directly.
    """
    path = Path(os.path.realpath(path))
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        try:
            file = path.open("wb") if path.exists() and not path.is_file() else part.open("xb")
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None  # not the name of the part
        with file:
            yield file
        if part.exists():
            if path.exists():
                shutil.copymode(path, part)
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _decoded(name: str, data: bytes, encoding: str, errors: str = "strict") -> str:
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{name} is not in {encoding.upper()}: {error}; convert it.") from error
