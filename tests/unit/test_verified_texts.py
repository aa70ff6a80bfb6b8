"""A stored text is compared with its hash at each read."""

import hashlib

import pytest

from retentive.errors import Damaged
from retentive.values.text import verified

LARGE = b"one line\n" * 20_000


def test_damage_is_found_in_a_large_text_that_was_read_before() -> None:
    """A changed byte is found in the first read, and in a read after the text matched."""
    digest = hashlib.sha256(LARGE).hexdigest()
    damaged = LARGE[:-2] + b"X\n"
    with pytest.raises(Damaged):
        verified(damaged, digest, None, "/memories/a.md")
    assert verified(LARGE, digest, None, "/memories/a.md") is LARGE
    assert verified(bytes(bytearray(LARGE)), digest, None, "/memories/a.md") == LARGE
    for wrong in (damaged, LARGE[:-1], LARGE + b"\n", b"", None):
        with pytest.raises(Damaged):
            verified(wrong, digest, None, "/memories/a.md")
