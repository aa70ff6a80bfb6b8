"""Errors: one base class, stable codes, pickling, and which errors are retryable."""

from __future__ import annotations

import pickle

import pytest

from retentive import RetentiveError, errors
from retentive.engine.rendering import STORAGE_REPLIES
from retentive.values.replies import ERROR_CODES, Replies

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, RetentiveError) and found is not RetentiveError
]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [found.code for found in CLASSES]
    assert len(set(codes)) == len(codes)
    assert {found.code: found.retryable for found in CLASSES} == {
        "invalid_input": False,
        "invalid_path": False,
        "read_only": False,
        "too_large": False,
        "sensitive": False,
        "not_found": False,
        "conflict": True,
        "permission_denied": False,
        "store_full": False,
        "unavailable": True,
        "closed": False,
        "outcome_unknown": False,
        "damaged": False,
        "locked": False,
        "unknown_schema": False,
        "refused": False,
    }


@pytest.mark.parametrize("kind", [found for found in CLASSES if found is not errors.Refused])
def test_errors_survive_pickling(kind: type[RetentiveError]) -> None:
    again = pickle.loads(pickle.dumps(kind("the reason")))
    assert (type(again), str(again)) == (kind, "the reason")


def test_refusals_survive_pickling_with_their_values() -> None:
    refusal = errors.Refused("invalid_path", path="/memories/.", reason=errors.Phrase("reason_dots", {"name": "."}))
    again = pickle.loads(pickle.dumps(refusal))
    assert (again.key, again.values) == (refusal.key, refusal.values)


def test_every_code_is_in_every_table() -> None:
    """A failure of storage becomes a reply, and a reply that is an error has a code."""
    not_storage = {"refused", "invalid_input", "invalid_path", "read_only", "too_large", "sensitive"}
    assert {found.code for found in CLASSES} - set(STORAGE_REPLIES) == not_storage
    assert set(STORAGE_REPLIES.values()) <= set(ERROR_CODES)
    assert set(ERROR_CODES) <= set(Replies.__dataclass_fields__)
