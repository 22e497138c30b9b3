"""The first page of a segment, and identities of any kind."""

from __future__ import annotations

import pytest

from tiermem.runtime.file.head import EMPTY, Head, fingerprint, pack, parse, start_of

IDENTITIES = ("", "mistralai/Mistral-7B", "a:b", "..", "x" * 300, "Modèle-λ-模型", "\ud800")


@pytest.mark.parametrize("identity", IDENTITIES)
def test_a_head_says_what_was_put_in(identity: str) -> None:
    """Whatever characters the identity has; lone surrogates come back as question marks."""
    head = Head(8192, 100, 5, fingerprint(identity), identity)
    found = parse(pack(head))
    assert found == head._replace(identity=identity.replace("\ud800", "?"))


def test_a_long_identity_is_cut_but_not_confused() -> None:
    """The text is for people; the fingerprint covers all of it."""
    one, two = "é" * 5000 + "1", "é" * 5000 + "2"
    assert fingerprint(one) != fingerprint(two)
    found = parse(pack(Head(8192, 1, 0, fingerprint(one), one)))
    assert isinstance(found, Head)
    assert found.store == fingerprint(one)
    assert found.identity.startswith("ééé")


def test_any_flipped_byte_is_noticed() -> None:
    """Of the whole page."""
    page = bytearray(pack(Head(8192, 100, 5, fingerprint("a"), "a")))
    for at in range(len(page)):
        page[at] ^= 1
        assert isinstance(parse(bytes(page)), str), at
        page[at] ^= 1


def test_other_pages_say_what_they_are() -> None:
    """Empty, cut off, something else, of another version."""
    assert parse(b"") == EMPTY
    assert parse(b"x") == "truncated: 1 bytes"
    assert parse(bytes(4096)) == "not a segment"
    old = bytearray(pack(Head(8192, 100, 5, fingerprint("a"), "a")))
    old[8] = 0
    assert parse(bytes(old)) == "version 0, and this is version 1"


def test_slots_start_after_the_marks() -> None:
    """On a page, with a mark for each slot."""
    assert start_of(1) == 8192
    assert start_of(4096 - 64) == 8192
    assert start_of(4096 - 63) == 12288
