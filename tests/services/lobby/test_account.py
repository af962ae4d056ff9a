"""Names that are fit to be shown, and names to log in by."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doudizhu.refusal import Refusal
from servicekit.identity import decode_name, encode_name
from services.lobby.account import GREATEST_NAME_LENGTH, display_name, login_name, number_of, player_id


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("张三", "张三"),
        ("  Ann   Lee ", "Ann Lee"),
        ("ＡＢＣ", "ABC"),
        ("José", "José"),
        ("ไก่", "ไก่"),
        ("♠ 7", "♠ 7"),
        ("😀", "😀"),
        ("👍🏽", "👍🏽"),
        ("♥\ufe0f A", "♥\ufe0f A"),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
    ],
)
def test_display_names_are_kept_in_one_form(text: str, kept: str) -> None:
    assert display_name(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "…",
        "--",
        "a\u202eb",
        "a\u200bb",
        "a\x00b",
        "a\nb",
        "a\u0301\u0301\u0301\u0301",
        "\u0301a",
        "\ue000",
        "a\u1680b",
        "x" * 17,
    ],
)
def test_names_that_hide_reorder_or_run_over_are_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        display_name(text)
    assert (refused.value.reason, refused.value.field) == ("INVALID", "display_name")


_UNSEEN = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2800\u3164\uffa0\ufe00\ufe0e\ufe0f\ufffc\U00016fe4\U0001d159"
    "\U000e0100\U000e01ef"
)


@pytest.mark.parametrize("character", _UNSEEN, ids=ascii)
@pytest.mark.parametrize("before", ["", "Ann", "1", "+", "\u2800"], ids=ascii)
def test_names_with_what_nobody_sees_are_refused(before: str, character: str) -> None:
    for text in (before + character, f"{before}{character}B"):
        with pytest.raises(Refusal) as refused:
            display_name(text)
        assert (refused.value.reason, refused.value.field) == ("INVALID", "display_name")


@given(st.text(max_size=32))
def test_a_kept_name_is_kept_as_it_is(text: str) -> None:
    try:
        kept = display_name(text)
    except Refusal:
        return
    assert 1 <= len(kept) <= GREATEST_NAME_LENGTH
    assert not {unicodedata.category(character) for character in kept} & {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
    assert decode_name(encode_name(kept)) == kept
    if display_name(kept) != kept:  # NFKC of a cut name may join what stood apart, once
        assert display_name(display_name(kept)) == display_name(kept)


@pytest.mark.parametrize(("one", "other"), [("Ann", "aNN"), ("STRASSE", "straße"), ("ａｎｎ", "ann"), ("Ⅷ", "viii")])
def test_login_names_that_look_alike_are_one(one: str, other: str) -> None:
    assert login_name(one) == login_name(other)


@pytest.mark.parametrize("text", ["a", "a b", "a'b", "a\u200bb", "😀😀", "x" * 33, "a/b", "--\x00"])
def test_login_names_have_few_characters(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        login_name(text)
    assert refused.value.field == "name"


@pytest.mark.parametrize("text", ["", "p", "7", "px", "p-1", "p1.5", "q7", "p٣", "p0", "p017", "p" + "9" * 19])
def test_what_is_no_players_id_is_not_found(text: str) -> None:
    with pytest.raises(Refusal):
        number_of(text)


@given(st.integers(1, 10**18 - 1))
def test_a_players_id_is_his_number(number: int) -> None:
    assert number_of(player_id(number)) == number


@given(st.text())
def test_any_header_is_a_name_or_none(text: str) -> None:
    name = decode_name(text)
    assert decode_name(encode_name(name)) == name
