"""How chapters read: few numbers, few hedges, few references, short; and that this is counted as it should be."""

from __future__ import annotations

import pytest
from told import TOLD

from tools.notebooks import chapters, prose, run_notebooks
from tools.site import landing

COMPARES = "06-head-to-head"  # has to speak of numbers and of how sure they are
STATISTICS = ("interval", "corrected", "one seed")
WORDS = 3200
LONG = {"01-transformer", "04-hourglass", "05-gmlp"}
# In captions, tables, lists and printed tables, before the chapters were told anew: nothing is hidden there.
ELSEWHERE = {
    "01-transformer": 87,
    "02-primer-ez": 104,
    "03-primer-variations": 240,
    "04-hourglass": 186,
    "05-gmlp": 251,
    "06-head-to-head": 667,
    "07-your-own": 20,
}

told = pytest.mark.parametrize("name", TOLD)


# The counting


def test_words_and_numbers_are_those_that_a_reader_meets_in_prose():
    found = prose.count(
        "# 7. A title\n\nThe loss is 1.25, or −0.044 less, by 3 % of\nthe *other* one. It fell +2 times.\n\n"
        "- an item with 0.5\n\n"
        "| a table | 1.5 |\n\n**Figure 7.1.** A caption with 2.5.\n\n$$\nx = 3.5 \\tag{7.1}\n$$\n\n"
        "With $y = 4.5$ inside.\n\n<!-- join\nx > 1 = f | a comment with 8.5\n-->\n\n"
        "```python\nz = 5.5\n```\n\n<details><summary>Hint</summary>\n\n6.5 of it.\n\n</details>\n"
    )
    assert found.words == 13 + 3 + 3  # the formula, X, is one
    assert found.decimals == pytest.approx(100 * 5 / 19)
    assert [paragraph[:8] for paragraph in found.crowded] == ["The loss"]


@pytest.mark.parametrize(
    "text",
    [
        "Section 2.3, Table 6.4 and Figure S1.2",
        "by (1.2), (S1.2) and (3.4b)",
        "[a paper](https://arxiv.org/abs/2109.08668), or 2109.08668",
        "torch==2.13.0, PyTorch 2.13.1",
        "(Tables 6.12 to 6.14)",
        "2,000 steps of 4 × 256 and 12",
        "on §3.7 v1.2",
    ],
)
def test_what_only_looks_like_a_number_is_not_counted(text):
    assert prose.numbers(text) == 0


@pytest.mark.parametrize(
    ("text", "count"), [("0.5", 1), ("1.25, −0.5 and +0.25", 3), ("95 % or 5%", 2), ("+3 or −2", 2)]
)
def test_numbers_are_counted(text, count):
    assert prose.numbers(text) == count


def test_references_and_hedges_are_counted():
    words = "word " * 87
    found = prose.count(
        f"{words} Section 2.3 and Tables S1.2 are not told apart, one seed each: an Interval, corrected."
    )
    assert found.words == 100
    assert found.references == 2
    assert found.hedges == {"not told apart": 1, "one seed": 1, "interval": 1, "corrected": 1}
    assert found.hedging() == 40
    assert found.hedging(without=STATISTICS) == 10


def test_a_section_that_calculates_by_hand_may_hold_numbers():
    text = "## 7.1 Letters, by hand\n\nIt is 0.1, 0.2, 0.3 and 0.4.\n\n## 7.2 What it costs\n\nIt is one word more.\n"
    found = prose.count(text)
    assert (found.words, found.decimals, found.crowded) == (8, 0, [])
    again = prose.count(text.replace("by hand", "again"))
    assert again.decimals == pytest.approx(100 * 4 / 8)
    assert len(again.crowded) == 1


def test_a_first_screen_ends_with_its_links():
    text = "# 7. Title\n\n**Figure 7.1.** It is 0.5.\n\n[Paper](a) · [Open in Colab](b)\n\nIn 2017 it was 0.7."
    assert sum(map(prose.numbers, prose.first_screen(text))) == 1
    with pytest.raises(ValueError, match="the text has no line of links with 'Open in Colab'"):
        prose.first_screen("# 7. Title")


def test_minutes_count_words_and_shown_lines():
    name = run_notebooks.chapters()[0]
    lines = sum(len(cell.node.source.splitlines()) for cell in chapters.cells(name) if cell.is_teaching)
    words = prose.count(chapters.prose(name)).words
    assert prose.minutes(name) == pytest.approx(words / 220 + lines / 20)


def test_the_names_of_told_chapters_are_names_of_chapters():
    assert set(TOLD) <= set(run_notebooks.chapters()) == set(ELSEWHERE)


# The chapters


@told
def test_a_chapter_has_few_numbers_and_none_on_its_first_screen(name):
    text = chapters.prose(name)
    found = prose.count(text)
    assert found.decimals <= (1.0 if name == COMPARES else 0.6)
    assert found.crowded == []
    assert sum(map(prose.numbers, prose.first_screen(text))) <= (3 if name == COMPARES else 0)
    assert prose.elsewhere(name) <= ELSEWHERE[name], "numbers that moved to captions, tables or lists"


@told
def test_a_chapter_hedges_and_refers_little(name):
    found = prose.count(chapters.prose(name))
    hedging = found.hedging(without=STATISTICS) if name == COMPARES else found.hedging()
    assert hedging <= (2 if name == COMPARES else 1), found.hedges
    assert found.references <= 0.5


@told
def test_a_chapter_is_short_and_says_how_long_it_takes(name):
    assert prose.count(chapters.prose(name)).words <= WORDS
    assert prose.minutes(name) <= (35 if name in LONG else 30)
    assert landing.minutes(name) == round(prose.minutes(name))
