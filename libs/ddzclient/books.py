"""The rule book that a table plays by."""

from __future__ import annotations

import doudizhu
from ddz.common.v1.common_pb2 import Terms
from doudizhu import RuleBook


def book_of(terms: Terms) -> RuleBook:
    """One of the three books with what the room overrides, or a book that the room gives in full.

    Raises Malformed for a book that is neither: the servers are newer than this client.
    """
    return doudizhu.book_of(terms.book, terms.book_fields_json)
