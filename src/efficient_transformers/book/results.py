"""Results as questions: what was asked, the pairs of runs that answer it, one word for each, and a sentence.

What is notable:
- ``results.yml`` has them all: chapters, studies and pages show what stands there, and say nothing else of results;
- the word of a pair is computed from its runs by one rule, :func:`.word_for`, and never written;
- a sentence names each word together with its row, ``[better](short)``, and is refused if the runs say another;
- all strips of the book have one scale, so that lengths compare.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, get_args

import matplotlib.pyplot as plt
import yaml

from ..judging.evidence import RATE_ERROR, Comparison, Word, compare, regrouped, signed, word_for
from ..judging.recording import read_records, results
from ..support.checks import require, require_known
from .figures.charts import strips
from .records import model_name

SAID = re.compile(rf"\[({'|'.join(get_args(Word))})\]\(([^)]*)\)")  # a word, and the rows that it is said of
Key = tuple[int, str]  # the protocol and the label: what tells a model at one budget from those of all studies
BARE = re.compile(rf"\b({'|'.join(get_args(Word))})\b")
LINE = 96  # letters of a printed line
AFTERWARDS = "asked afterwards"


@dataclass(frozen=True)
class Model:
    """A model of the records: its name, the rate that it was trained at, and its losses by seed."""

    name: str
    rate: float
    losses: dict[int, float]


@dataclass(frozen=True)
class Row:
    """What the runs of two models say: the losses of the first minus those of the second."""

    comparison: Comparison
    word: Word
    models: tuple[Model, Model]

    def __str__(self) -> str:
        return f"{self.word} {signed(self.comparison.mean)}"


@dataclass(frozen=True)
class Answer:
    """A question, and what the runs say.

    Args:
        question: as a reader would ask it.
        rows: by what stands beside each.
        sentence: the answer, in whole sentences with their numbers.
        study: the section that has the runs.
    """

    question: str
    rows: Mapping[str, Row]
    sentence: str
    study: str

    @property
    def picture(self) -> str:
        """What the picture shows, in words."""
        said = []
        for name, row in self.rows.items():
            low, high = signed(row.comparison.low), signed(row.comparison.high)
            said.append(f"{name}: {row}, interval {low} to {high}")
        return f"{self.question} {'; '.join(said)}."

    def __str__(self) -> str:
        return "\n".join([self.question, *textwrap.wrap(self.sentence, LINE)])


@cache
def written() -> dict[str, Any]:
    """What ``results.yml`` says."""
    return dict(yaml.safe_load(files(__package__).joinpath("results.yml").read_text(encoding="utf-8")))


@cache
def reported() -> dict[Key, Model]:
    """The models of all runs that were reported, by entry."""
    models: dict[Key, Model] = {}
    for path in sorted(results("recorded").glob("*.jsonl")):
        for record in read_records(path):
            if record.get("role") == "reported":
                run, score = record["run"], record.get("test") or record["validation"]
                key, training = (record.get("protocol", 1), run["label"]), run["training"]
                model = models.setdefault(key, Model(model_name(record), training["learning_rate"], {}))
                model.losses[training["seed"]] = score["loss"]
    return models


@cache
def lists() -> dict[str, dict[str, list[tuple[Key, Key]]]]:
    """The pairs that one correction holds for, by study and name: as declared, and what was asked afterwards."""
    declared = json.loads((results("recorded") / "lists.json").read_text(encoding="utf-8"))
    return {
        study: {name: [((*a,), (*b,)) for a, b in pairs] for name, pairs in of.items()}
        for study, of in {**declared, AFTERWARDS: written()["lists"]}.items()
    }


@cache
def judged(study: str, name: str) -> dict[tuple[str, str], Row]:
    """The pairs of a list that were run, both models with the same seeds, by name; by label, if names repeat."""
    require_known("the study", study, lists())
    require_known(f"the list of {study!r}", name, lists()[study])
    known = reported()
    asked = lists()[study][name]
    pairs = [(a, b) for a, b in asked if a in known and b in known and known[a].losses.keys() == known[b].losses.keys()]
    complete = pairs == asked or (study != AFTERWARDS and len(pairs) > 0)  # what is declared may not have run yet
    require(complete, f"the list {name!r}", asked, "pairs of entries with reported runs")
    models = [(known[a], known[b]) for a, b in pairs]
    losses = {f"{i}": (a.losses, b.losses) for i, (a, b) in enumerate(models)}
    rate_error = 0.0 if [study, name] in written()["given"] else RATE_ERROR
    undone = regrouped({name: losses}, rate_error=rate_error)
    rows = [Row(c, word_for(c, undone[i]), models[int(i)]) for i, c in compare(losses, rate_error=rate_error).items()]
    names = [(a.name, b.name) for a, b in models]
    labels = [(a[1], b[1]) for a, b in pairs]
    return {
        name if names.count(name) == 1 else label: row for name, label, row in zip(names, labels, rows, strict=True)
    }


def told(sentence: str, rows: Mapping[str, Row]) -> str:
    """The sentence in plain words and with its numbers, ``{short}`` being the size of the difference in that row.

    Raises:
        ValueError: if it says a word that the runs do not say, of no row, or not of each row.
    """
    named = [(word, row.strip()) for word, of in SAID.findall(sentence) for row in re.sub(r"\s+", " ", of).split(";")]
    for word, row in named:
        require_known("a row", row, rows)
        require(word == rows[row].word, f"the word of {row!r}", word, f"{rows[row].word!r}: {rows[row].comparison}")
    bare = BARE.findall(SAID.sub("", sentence))
    require(not bare, "the sentence", sentence, f"each word with its rows, as in [{(bare or ['better'])[0]}](short)")
    silent = rows.keys() - {row for _, row in named}
    require(not silent, "the sentence", sentence, f"a word for each of its rows, {sorted(silent)} too")
    sizes = {name: f"{abs(row.comparison.mean):.3f}" for name, row in rows.items()}
    return re.sub(r"\{([^}]*)\}", lambda number: sizes[number[1]], SAID.sub(r"\1", sentence))


@cache
def find(name: str) -> Answer:
    """An answer by its name.

    Raises:
        ValueError: if there is none of that name, or what it says is not what the runs say.
    """
    require_known("name", name, written()["questions"])
    says = written()["questions"][name]
    try:
        rows = {}
        for label, (study, name_of_list, *pair) in says["rows"].items():
            known = {" − ".join(names): row for names, row in judged(study, name_of_list).items()}
            require_known("the pair", " − ".join(pair), known)
            rows[label] = known[" − ".join(pair)]
        sentence = told(says["answer"], rows)
    except ValueError as error:
        raise ValueError(f"results.yml, {name}: {error}") from error
    return Answer(says["question"], rows, sentence, says["study"])


def answer(name: str) -> None:
    """Print a question and its answer, and draw the runs that say so: left of 0 the first model's loss is lower.

    Raises:
        ValueError: as for :func:`find`.
    """
    found = find(name)
    print(found)
    strips({label: (row.comparison, row.word) for label, row in found.rows.items()})
    plt.show()
