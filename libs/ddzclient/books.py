"""The rule book that a table plays by."""

from __future__ import annotations

import json
from functools import lru_cache

from ddz.common.v1.common_pb2 import Terms
from doudizhu.rulebook import BOOKS, RuleBook, load, override


def book_of(terms: Terms) -> RuleBook:
    """One of the three books with what the room overrides, or a book that the room gives in full.

    Raises Malformed for a book that is neither: the servers are newer than this client.
    """
    return _book(terms.book, terms.book_fields_json)


@lru_cache(maxsize=64)
def _book(book_id: str, fields_json: str) -> RuleBook:
    if book_id not in BOOKS:
        return load(fields_json)
    return override(BOOKS[book_id], json.loads(fields_json)) if fields_json else BOOKS[book_id]
