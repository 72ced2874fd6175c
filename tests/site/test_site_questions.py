"""Questions whose answer is a number: a page says what the package's check says, of right, wrong and other answers."""

from __future__ import annotations

import re

import pytest
from wrong_answers import PREAMBLE, WRONG

from efficient_transformers.book.exercises import CHECKS, check
from efficient_transformers.book.exercises.checking import WrongAnswerError
from efficient_transformers.book.exercises.numbers import QUESTIONS
from efficient_transformers.support.checks import is_number
from tools.make import browser
from tools.notebooks import chapters, run_notebooks
from tools.site.questions import CALL

# The arguments in the case that the page asks for, where the answer is a function.
CASES = {"1.3": (3, 5, 10, 7), "3.3": (3, [1, 3, 3]), "4.2": (23,), "4.3": (32,), "5.3": (16,)}
GARBAGE = ["a lot", "1/0", "--1"]


def page_of(number):
    return next(f"notebooks/{name}.html" for name in run_notebooks.chapters() if name.startswith(f"0{number[0]}"))


def given(number, answer):
    """The numbers of an answer, those of the page's case where it is a function."""
    numbers = answer(*CASES[number]) if callable(answer) else answer
    return numbers if isinstance(numbers, tuple) else (numbers,)


def answers(number):
    """The right answer, and those wrong ones that are numbers."""
    yield QUESTIONS[number].solution
    for code, _ in WRONG[number]:
        space = {}
        exec(PREAMBLE + code, space)
        answer, asked = space["answer"], QUESTIONS[number].numbers.fields
        if callable(answer) == (number in CASES) and [*map(is_number, given(number, answer))] == [True] * len(asked):
            yield answer


@pytest.fixture(scope="module")
def say(chromium, address):
    """Type numbers into the form of an exercise, and return what the page says."""
    pages = {}

    def say(number, typed):
        path = page_of(number)
        if path not in pages:
            pages[path] = chromium.new_page(reduced_motion="reduce")
            browser.visit(pages[path], f"{address}/{path}")
        form = pages[path].locator(f'form[aria-label="Answer of Exercise {number}"]')
        for field, text in zip(form.locator("input").all(), typed, strict=True):
            field.fill(text)
        form.locator("input").last.press("Enter")
        return form.locator("output").inner_text()

    yield say
    for page in pages.values():
        page.close()


def test_every_exercise_with_a_question_is_found_in_its_chapter():
    code = [cell.node.source for name in run_notebooks.chapters() for cell in chapters.cells(name) if cell.is_code]
    assert sorted(CALL.findall("\n".join(code))) == sorted(CHECKS)
    assert set(CASES) < set(QUESTIONS) < set(CHECKS)


@pytest.mark.parametrize("number", sorted(QUESTIONS))
def test_a_page_says_what_the_check_says(say, number, capsys):
    said = set()
    for answer in answers(number):
        check(number, answer)
        told = capsys.readouterr().out.rstrip("\n")
        if told.startswith("not yet: for t = "):  # the check tries every t, a page one
            continue
        assert say(number, list(map(repr, given(number, answer)))) == told
        said.add(told)
    assert len(said) >= 2
    assert [told for told in said if told.startswith("right: ")]


@pytest.mark.parametrize("number", sorted(QUESTIONS))
def test_of_any_other_number_and_of_what_is_none_a_page_says_what_the_package_says(say, number):
    numbers = QUESTIONS[number].numbers
    count = len(numbers.fields)
    for x in (-2.0, 1 / 3, 0.00001234, 1234567.0):
        with pytest.raises(WrongAnswerError) as wrong:
            numbers.judge(*[x] * count)
        assert say(number, [repr(x)] * count) == f"not yet: {wrong.value}"
    with pytest.raises(WrongAnswerError) as wrong:
        numbers.judge(*["a lot"] * count)
    assert say(number, ["a lot"] * count) == f"not yet: {wrong.value}"
    for text in GARBAGE:
        assert re.fullmatch(r"not yet: .* is '.*'; expected a number", say(number, [text] * count))
    assert say(number, [""] * count) == ""


def test_a_fraction_and_a_true_minus_sign_are_numbers(say):
    assert say("2.2", ["1/2", " 1 / 4 "]).startswith("right: ")
    assert "give the lead as a positive number" in say("6.2", ["−0.0386"])


def test_without_a_script_there_is_no_form(chromium, address):
    plain = chromium.new_context(java_script_enabled=False).new_page()
    plain.goto(f"{address}/{page_of('2.2')}")
    assert not plain.locator("form.question").is_visible()
    plain.context.close()
