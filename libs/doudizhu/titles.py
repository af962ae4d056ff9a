"""Titles (称号) by rating (RULES.md section 10; the last ten thresholds are D-13)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Title:
    """A title and the least rating for it. `id` never changes; `zh` and `en` are for people."""

    least_rating: int
    id: str
    zh: str
    en: str


TITLES: Final[tuple[Title, ...]] = (
    Title(0, "casual_labourer", "短工", "Casual labourer"),
    Title(100, "farmhand", "长工", "Farmhand"),
    Title(200, "tenant", "佃户", "Tenant"),
    Title(400, "poor_peasant", "贫农", "Poor peasant"),
    Title(600, "fisher", "渔夫", "Fisher"),
    Title(1_000, "hunter", "猎人", "Hunter"),
    Title(2_000, "middle_peasant", "中农", "Middle peasant"),
    Title(4_000, "rich_peasant", "富农", "Rich peasant"),
    Title(6_000, "shopkeeper", "掌柜", "Shopkeeper"),
    Title(10_000, "merchant", "商人", "Merchant"),
    Title(20_000, "bailiff", "衙役", "Bailiff"),
    Title(50_000, "lesser_proprietor", "小财主", "Lesser proprietor"),
    Title(100_000, "great_proprietor", "大财主", "Great proprietor"),
    Title(200_000, "lesser_landlord", "小地主", "Lesser landlord"),
    Title(500_000, "great_landlord", "大地主", "Great landlord"),
    Title(1_000_000, "county_magistrate", "知县", "County magistrate"),
    Title(2_000_000, "vice_prefect", "通判", "Vice prefect"),
    Title(5_000_000, "prefect", "知府", "Prefect"),
    Title(10_000_000, "viceroy", "总督", "Viceroy"),
    Title(20_000_000, "governor", "巡抚", "Governor"),
    Title(50_000_000, "chancellor", "丞相", "Chancellor"),
    Title(100_000_000, "emperor", "帝王", "Emperor"),
)

_LEAST: Final = [entry.least_rating for entry in TITLES]


def title(rating: int) -> Title:
    """The title of a rating; a rating is never below 0."""
    assert rating >= 0, "a rating is never below 0"
    return TITLES[bisect_right(_LEAST, rating) - 1]
