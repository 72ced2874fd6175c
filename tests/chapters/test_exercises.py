"""The exercises: every solution is right, no answer is no verdict, and wrong answers are told what is wrong."""

from __future__ import annotations

import re

import pytest
import torch
from wrong_answers import PREAMBLE, WRONG

from efficient_transformers.book.exercises import CHECKS, check
from tools.notebooks import run_notebooks

CALL = re.compile(r'check\("([\d.]+)", answer\)')
SOLUTION = re.compile(r"<summary>Solution</summary>\s+```python\n(.*?)```", re.DOTALL)


def solutions():
    """Number and code of each solution, from the cells of the chapters and the text before them."""
    for name in run_notebooks.chapters():
        cells = run_notebooks.source(name).cells
        for i, cell in enumerate(cells):
            if cell.cell_type == "code" and (call := CALL.search(cell.source)):
                found = SOLUTION.search(cells[i - 1].source)
                assert found, f"no solution before exercise {call[1]}"
                yield call[1], found[1]


SOLVED = dict(solutions())


def verdict(number, code, capsys):
    space = {}
    exec(PREAMBLE + code, space)
    capsys.readouterr()
    check(number, space["answer"])
    return capsys.readouterr().out


@pytest.mark.parametrize("number", SOLVED)
def test_a_check_draws_no_random_number_of_the_reader(number, capsys):
    torch.manual_seed(5)
    expected = torch.get_rng_state()
    space = {}
    exec(PREAMBLE + SOLVED[number], space)
    torch.set_rng_state(expected)
    check(number, space["answer"])
    assert torch.equal(torch.get_rng_state(), expected)


def test_each_exercise_has_a_check_a_solution_and_two_wrong_answers():
    assert set(SOLVED) == set(CHECKS) == set(WRONG)
    assert [number for number, answers in WRONG.items() if len(answers) < 2] == []


@pytest.mark.parametrize("number", sorted(SOLVED))
def test_the_solution_is_right_and_no_answer_is_no_verdict(number, capsys):
    assert verdict(number, SOLVED[number], capsys) == "right\n"
    check(number, None)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("number", "code", "told"), [(n, *answer) for n in sorted(WRONG) for answer in WRONG[n]])
def test_a_wrong_answer_is_told_what_is_wrong(number, code, told, capsys):
    out = verdict(number, code, capsys)
    assert out.startswith("not yet: ")
    assert told in out


def test_an_answer_that_stops_is_reported_and_an_unknown_exercise_refused(capsys):
    assert "stopped with ZeroDivisionError" in verdict("2.1", "def answer(*_): return 1 / 0", capsys)
    with pytest.raises(ValueError, match=r"number is '9\.9'"):
        check("9.9", 1)
