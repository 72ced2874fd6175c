"""The exercises: every solution is right, no answer is no verdict, and wrong answers are told what is wrong."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
import torch
from wrong_answers import PREAMBLE, WRONG

from efficient_transformers.book.exercises import CHECKS, check, trained
from efficient_transformers.judging.side import Side
from tools.notebooks import run_notebooks
from tools.site import pages

CALL = re.compile(r'check\("([\d.]+)", answer\)')
SOLUTION = re.compile(r"<summary>Solution</summary>\s+```python\n(.*?)```", re.DOTALL)


def solutions():
    """Number, chapter and code of each solution, from the cells of the chapters and the text before them."""
    for name in run_notebooks.chapters():
        cells = run_notebooks.source(name).cells
        for i, cell in enumerate(cells):
            if cell.cell_type == "code" and (call := CALL.search(cell.source)):
                found = SOLUTION.search(cells[i - 1].source)
                assert found, f"no solution before exercise {call[1]}"
                yield call[1], name, found[1]


FOUND = [*solutions()]
SOLVED = {number: code for number, _, code in FOUND}
CHAPTER = {number: name for number, name, _ in FOUND}


@cache
def definitions(name):
    """What a chapter imports and defines, which a solution may use."""
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)
    cells = [cell.source for cell in run_notebooks.source(name).cells if cell.cell_type == "code"]
    trees = [ast.parse(source) for source in cells if "%pip" not in source and "answer" not in source]
    space = {}
    for node in (node for tree in trees for node in tree.body if isinstance(node, kinds)):
        exec(compile(ast.Module([node], []), name, "exec"), space)
    return space


@pytest.fixture
def short(monkeypatch):
    """Trainings of a few steps, where what they reach does not matter."""
    monkeypatch.setattr(trained, "STEPS", 4)


def verdict(number, code, capsys):
    space = {}
    exec(PREAMBLE + code, space)
    capsys.readouterr()
    check(number, space["answer"])
    return capsys.readouterr().out


def test_each_exercise_has_a_check_a_solution_and_two_wrong_answers():
    assert set(SOLVED) == set(CHECKS) == set(WRONG)
    assert [number for number, answers in WRONG.items() if len(answers) < 2] == []


@pytest.mark.parametrize("number", sorted(SOLVED))
@pytest.mark.usefixtures("short")
def test_the_solution_is_right_in_its_chapter_says_one_thing_more_and_draws_no_random_number(number, capsys):
    space = definitions(CHAPTER[number]).copy()
    exec(SOLVED[number], space)
    check(number, None)
    assert capsys.readouterr().out == "no answer yet: put yours in the place of None, and run this cell again\n"
    before = torch.get_rng_state()
    check(number, space["answer"])
    out = capsys.readouterr().out
    assert re.fullmatch(r"right: .{40,220}\n", out), out
    assert torch.equal(torch.get_rng_state(), before)


REACHED = {  # what the texts of the exercises say of their trainings
    "1.6": r"ends 0\.0\d\d nats lower than with all 64.*far characters cost more than they bring",
    "2.6": r"ends 0\.0\d\d nats lower than it did",
    "3.6": r"so \d\d% of what the convolutions bring needs no learning",
    "4.6": r"ends 0\.0[01]\d nats (lower|higher) than with their mean",
    "5.6": r"ends (0\.0\d\d nats lower|0\.00\d nats higher) than with 256",
    "6.5": r"ends 0\.0\d\d nats lower than ReLU",
}


@pytest.mark.long
@pytest.mark.parametrize("number", REACHED)
def test_a_training_ends_where_the_text_says(number, capsys):
    assert re.search(REACHED[number], verdict(number, SOLVED[number], capsys))


@pytest.mark.parametrize(("number", "code", "told"), [(n, *answer) for n in sorted(WRONG) for answer in WRONG[n]])
def test_a_wrong_answer_is_told_what_is_wrong(number, code, told, capsys):
    out = verdict(number, code, capsys)
    assert out.startswith("not yet: ")
    assert told in out
    assert "RuntimeError" not in out, "what PyTorch says of sizes is not what a reader must be told"


@pytest.mark.parametrize("number", [n for n, code in SOLVED.items() if re.search("def answer|class answer", code)])
def test_what_is_no_function_is_told_of_which_arguments_one_is_expected(number, capsys):
    check(number, 768)
    told = "not yet: your answer is 768, of the type int; expected a function of "
    assert capsys.readouterr().out.startswith(told)


def test_a_function_of_other_arguments_is_told_of_which(capsys):
    assert "your function takes (D); expected one of L, H, D, T" in verdict("1.3", "def answer(D): return D", capsys)


def test_where_sizes_do_not_fit_the_line_and_the_shapes_are_shown(capsys):
    code = "def answer(x):\n    other = x[:, :3]\n    return x + other"
    expected = "two tensors are combined whose sizes do not fit (shapes: x (1, 10, 32), other (1, 3, 32))"
    assert expected in verdict("1.2", code, capsys)


def test_an_answer_that_stops_is_reported_and_an_unknown_exercise_refused(capsys):
    assert "stopped in line 9: ZeroDivisionError" in verdict("2.1", "\ndef answer(*_):\n    return 1 / 0", capsys)
    with pytest.raises(ValueError, match=r"number is '9\.9'"):
        check("9.9", 1)


@pytest.mark.parametrize("n_layers", [4, 2])
def test_what_chapter_7_makes_is_what_was_judged(n_layers):
    (made,) = [cell.source for cell in run_notebooks.source("07-your-own").cells if "def variant(" in cell.source]
    space = {}
    exec(PREAMBLE + made.partition("small = ")[0], space)
    built = []
    for build in (space["variant"], Side.of("build", "experiments/own.py:build").build):
        torch.manual_seed(0)
        built.append(build(65, n_layers=n_layers))
    first, second = built
    assert [name for name, p in first.state_dict().items() if not torch.equal(p, second.state_dict()[name])] == []
    tokens = torch.randint(65, (1, 9))
    assert torch.equal(first(tokens), second(tokens))


def test_the_page_of_exercises_lists_each():
    assert sorted(re.findall(r"\| Exercise ([\d.]+) \|", pages.exercises())) == sorted(CHAPTER)
