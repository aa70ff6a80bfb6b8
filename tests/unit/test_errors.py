"""Errors: one base class, stable codes, pickling, and which errors are retryable."""

from __future__ import annotations

import pickle

import pytest

from retentive import RetentiveError, errors
from retentive.engine.rendering import STORAGE_REPLIES
from retentive.values.replies import ERROR_CODES, Replies, Reply

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, RetentiveError) and found is not RetentiveError
]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [found.code for found in CLASSES]
    assert len(set(codes)) == len(codes)
    assert {found.code for found in CLASSES if found.retryable} == {"conflict", "unavailable"}


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
    of_requests = {found.code for found in CLASSES if issubclass(found, errors.InvalidInput)}
    assert {found.code for found in CLASSES} - set(STORAGE_REPLIES) == of_requests | {"refused"}
    assert set(STORAGE_REPLIES.values()) <= set(ERROR_CODES)
    assert set(ERROR_CODES) <= set(vars(Replies))


@pytest.mark.parametrize("code", sorted(set(ERROR_CODES.values())))
def test_an_error_reply_can_be_raised(code: str) -> None:
    """The class of the error has the code of the reply, and its message is the sentence of the reply."""
    reply = Reply("Error: the sentence", is_error=True, code=code)
    with pytest.raises(RetentiveError, match=r"^the sentence$") as raised:
        reply.raise_for_error()
    assert raised.value.code == code
    assert type(raised.value) in CLASSES


def test_replies_of_other_objects_can_be_raised() -> None:
    """An object with its own `execute` may use codes of its own."""
    with pytest.raises(RetentiveError, match=r"^no$") as raised:
        Reply("no", is_error=True, code="own").raise_for_error()
    assert type(raised.value) is RetentiveError
    reply = Reply("done")
    assert reply.raise_for_error() is reply
