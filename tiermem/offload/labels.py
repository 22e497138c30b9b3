"""Named tensors: a small block under the hash of the name says what and where the tensor is.

The label names the block of the bytes by a random key. There are two labels for each name, and the
newer one counts: so a tensor can be put again under its name while the older one is still there,
whole, until the newer one is durable.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from tiermem.errors import InputError
from tiermem.offload.layout import Layout

LABEL_BYTES = 4096
"""Of a label: one granule, which is the least that a block is charged."""

KEY_BYTES = 16
FORMAT = 1
_SHOWN = 400  # bytes of a name or identity that a label repeats for people to read


class Label(NamedTuple):
    """What is known of a named tensor before its bytes are read."""

    key: bytes
    layout: Layout
    codec: str | None
    nbytes: int
    version: int = 1


def label_keys(name: str, identity: str) -> tuple[bytes, bytes]:
    """The keys of both labels of `name`: the same in any process and on any platform."""
    return _digest("label 0", identity, name), _digest("label 1", identity, name)


def pack(label: Label, name: str, identity: str) -> bytes:
    """The bytes of a label, `LABEL_BYTES` of them."""
    document: dict[str, Any] = {
        "tiermem_label": FORMAT,
        "name": name.encode()[:_SHOWN].decode(errors="replace"),
        "identity": identity.encode()[:_SHOWN].decode(errors="replace"),
        "proof": _digest("proof", identity, name).hex(),
        "key": label.key.hex(),
        "codec": label.codec,
        "nbytes": label.nbytes,
        "version": label.version,
        **label.layout.to_json(),
    }
    text = json.dumps(document).encode()
    if len(text) > LABEL_BYTES:
        raise InputError(f"a tensor of {len(label.layout.shape)} dimensions is beyond a label")
    return text.ljust(LABEL_BYTES, b"\0")


def unpack(data: bytes, name: str, identity: str) -> Label:
    """The inverse of `pack`; `InputError` for a label of another version, name or identity."""
    try:
        document = json.loads(data.rstrip(b"\0"))
        if document["tiermem_label"] != FORMAT:
            raise InputError(
                f"its label has the format {document['tiermem_label']}, this tiermem reads {FORMAT}"
            )
        if document["proof"] != _digest("proof", identity, name).hex():
            said = f"{document['name']!r} of {document['identity']!r}"
            raise InputError(f"its label is that of {said}, not of {name!r} of {identity!r}")
        return Label(
            bytes.fromhex(document["key"]),
            Layout.from_json(document),
            document["codec"],
            int(document["nbytes"]),
            int(document["version"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"its label cannot be read ({type(error).__name__}: {error})") from error


def _digest(what: str, identity: str, name: str) -> bytes:
    """16 bytes for these words; each is hashed with its length, so that none runs into the next."""
    made = hashlib.blake2b(digest_size=KEY_BYTES, person=b"tiermem-label")
    for word in (what, identity, name):
        data = word.encode()
        made.update(len(data).to_bytes(8, "little") + data)
    return made.digest()
