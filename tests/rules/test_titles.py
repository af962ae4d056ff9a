"""The 22 titles of RULES.md section 10."""

from __future__ import annotations

import pytest

from doudizhu import TITLES, title

SECTION_10 = [
    ("短工", 0), ("长工", 100), ("佃户", 200), ("贫农", 400), ("渔夫", 600), ("猎人", 1000),
    ("中农", 2000), ("富农", 4000), ("掌柜", 6000), ("商人", 10_000), ("衙役", 20_000), ("小财主", 50_000),
    ("大财主", 100_000), ("小地主", 200_000), ("大地主", 500_000), ("知县", 10**6), ("通判", 2 * 10**6),
    ("知府", 5 * 10**6), ("总督", 10**7), ("巡抚", 2 * 10**7), ("丞相", 5 * 10**7), ("帝王", 10**8),
]  # fmt: skip


def test_section_10_lists_them() -> None:
    assert [(entry.zh, entry.least_rating) for entry in TITLES] == SECTION_10


@pytest.mark.parametrize(("zh", "least"), SECTION_10)
def test_a_title_begins_at_its_least_rating(zh: str, least: int) -> None:
    assert title(least).zh == zh
    assert least == 0 or title(least - 1).zh != zh


def test_ids_and_names_are_distinct() -> None:
    assert len({entry.id for entry in TITLES}) == len({entry.en for entry in TITLES}) == len(TITLES) == 22
    assert title(10**12).zh == "帝王"
