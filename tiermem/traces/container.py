"""Whole files as bytes: plain, gzip or zstd in, the same out, nothing ever half-written.

What is inside is told from the first bytes when reading and from the suffix when writing. Knows
nothing of traces.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path

import xxhash

from tiermem.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# RFC 1952: deflate, no flags, no time, best compression, "unknown" system: equal on every machine.
_GZIP_HEADER = _GZIP_MAGIC + b"\x08\x00" + b"\x00\x00\x00\x00" + b"\x02\xff"
_ZSTD_CHECKSUM_FLAG = 0x04  # RFC 8878, frame header descriptor


def load(path: Path) -> bytes:
    """The content of `path`, decompressed. InputError when it is missing, a folder or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except IsADirectoryError:
        raise InputError("this is a folder, not a trace file", path=path) from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", path=path) from error
    if data.startswith(_GZIP_MAGIC):
        return _gunzip(data, path)
    if data.startswith(_ZSTD_MAGIC):
        return _unzstd(data, path)
    return data


def compress(data: bytes, path: Path) -> bytes:
    """`data` as a file called `path` holds it (`.gz`, `.zst` or plain): equal in, equal out."""
    if path.suffix == ".gz":
        deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        body = deflate.compress(data) + deflate.flush()
        trailer = zlib.crc32(data).to_bytes(4, "little") + (len(data) % 2**32).to_bytes(4, "little")
        return _GZIP_HEADER + body + trailer
    if path.suffix == ".zst":
        return _zstd(data)
    return data


def replace_all(files: Mapping[Path, bytes]) -> None:
    """Write every file under a temporary name first, then give each its own name, in order.

    InputError, naming the last file, when one of them cannot be written; none is touched then.
    """
    parts = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    try:
        for path, data in files.items():
            if path.is_dir():
                raise InputError("this is a folder; a file is to be written here", path=path)
            parts[path].write_bytes(data)
        for path, part in parts.items():
            part.replace(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {error}", path=list(files)[-1]) from error
    finally:
        for part in parts.values():
            with contextlib.suppress(OSError, ValueError):
                part.unlink()


def _gunzip(data: bytes, path: Path) -> bytes:
    pieces = []
    while data:
        member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            pieces.append(member.decompress(data))
        except zlib.error as error:
            raise InputError(f"damaged gzip file: {error}", path=path) from error
        if not member.eof:
            raise InputError("truncated gzip file: it ends in the middle of its data", path=path)
        data = member.unused_data.lstrip(b"\x00")  # gzip allows zero padding between members
    return b"".join(pieces)


def _unzstd(data: bytes, path: Path) -> bytes:
    import pyarrow as pa  # slow to import, and only this format needs it

    try:
        with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
            return bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        what = "truncated" if "runcated" in str(error) else "damaged"
        raise InputError(f"{what} zstd file: {error}", path=path) from error


def _zstd(data: bytes) -> bytes:
    """One zstd frame with a checksum, which pyarrow alone would leave out."""
    import pyarrow as pa

    frame = bytearray(pa.compress(data, codec="zstd", asbytes=True))
    frame[len(_ZSTD_MAGIC)] |= _ZSTD_CHECKSUM_FLAG
    return bytes(frame) + (xxhash.xxh64_intdigest(data) % 2**32).to_bytes(4, "little")
