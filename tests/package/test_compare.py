"""A model of one's own, judged: what is refused, what is planned, what a card says, and that a comparison goes on."""

import math
import multiprocessing
from pathlib import Path

import pytest
import torch
from torch import nn

from efficient_transformers import build_model, load_corpus, model_names
from efficient_transformers.studies import compare as judging
from efficient_transformers.studies import screening
from efficient_transformers.studies.compare import Plan, Side, compare
from efficient_transformers.studies.records import read_records

pytestmark = pytest.mark.usefixtures("on_the_cpu")

V, T = 65, 32


class Plain(nn.Module):
    """Each token alone, and what a leak adds."""

    def __init__(self, leak=lambda x: x, vocab_size=V):
        super().__init__()
        self.embedding, self.output, self.leak = nn.Embedding(vocab_size, 16), nn.Linear(16, vocab_size), leak
        self.norm = nn.BatchNorm1d(16)

    def forward(self, tokens):
        return self.output(self.leak(self.embedding(tokens)))


def next_token(x, at=10):
    """The channels of one token, in its predecessor."""
    later = x.clone()
    later[:, at] = x[:, at] + 0.01 * x[:, at + 1]
    return later


# What is refused before anything is trained


@pytest.mark.parametrize("name", model_names())
def test_no_model_of_the_book_leaks(name):
    sizes = {"d_model": 16, "n_heads": 2, "max_seq_len": 2 * T}
    for remark in screening.check_leaks(build_model(name, vocab_size=V, **sizes), T, V):
        assert remark.startswith("It does not read")


@pytest.mark.parametrize(
    ("leak", "said"),
    [
        (next_token, "output 10 changes with token 11"),
        (lambda x: x + x.mean(1, keepdim=True), "output 0 changes with token 1"),
        (lambda x: next_token(x, 40) if x.shape[1] > T else x, "at length 64, in eval mode: output 40"),
        (lambda x: x * (1 + 1 / x.shape[1]), "nobody knows its length"),
        (lambda x: x - x.mean(0, keepdim=True), "a leak across the batch"),
    ],
    ids=["one token", "a mean", "beyond the trained length", "the length", "the batch"],
)
def test_a_leak_is_refused_with_its_place(leak, said):
    with pytest.raises(ValueError, match=said):
        screening.check_leaks(Plain(leak), T, V)


def test_a_leak_of_eval_mode_alone_is_refused():
    class Sly(Plain):
        def forward(self, tokens):
            x = self.embedding(tokens)
            return self.output(x if self.training else next_token(x))

    with pytest.raises(ValueError, match="in eval mode: output 10 changes"):
        screening.check_leaks(Sly(), T, V)


def test_a_leak_of_train_mode_alone_is_refused():
    model = Plain()
    model.leak = lambda x: model.norm(x.transpose(1, 2)).transpose(1, 2)
    with pytest.raises(ValueError, match="across the batch, in train mode"):
        screening.check_leaks(model, T, V)


def test_dropout_is_no_leak():
    model = build_model("transformer", vocab_size=V, d_model=16, n_heads=2, max_seq_len=2 * T, dropout=0.5)
    assert screening.check_leaks(model, T, V) == []


def test_the_map_shows_who_reads_whom():
    seen = screening.Probe(build_model("transformer", vocab_size=V, d_model=16, n_heads=2), V, training=False)
    assert torch.equal(seen.dependence(8), torch.ones(8, 8, dtype=torch.bool).tril())


def test_a_model_that_knows_the_text_beforehand_is_refused():
    tokens = torch.randint(V, (2, T))
    model = build_model("transformer", vocab_size=V, d_model=16, n_heads=2)
    assert screening.check_start(model, tokens, tokens.roll(-1), V) == []
    with pytest.raises(ValueError, match=r"the loss before training is 0\.0"):
        screening.check_start(lambda x: 50.0 * nn.functional.one_hot(x, V), tokens, tokens, V)
    (remark,) = screening.check_start(lambda x: 50.0 * nn.functional.one_hot(x, V), tokens, (tokens + 1) % V, V)
    assert "far above ln 65 = 4.17" in remark


@pytest.mark.parametrize(
    ("model", "error", "said"),
    [
        (lambda: 5, TypeError, "what build returns is 5; expected a torch.nn.Module"),
        (lambda: nn.Embedding(V, 7), ValueError, r"the shape of the output is \[2, 32, 7\]"),
        (lambda: nn.Linear(4, 4), ValueError, "the model fails on tokens"),
    ],
    ids=["no module", "shape", "fails"],
)
def test_what_makes_no_logits_is_refused(model, error, said):
    with pytest.raises(error, match=said):
        screening.require_logits(model(), torch.zeros(2, T, dtype=torch.int64), V)


def test_logits_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="expected finite logits"):
        screening.require_logits(Plain(lambda x: x / 0), torch.zeros(2, T, dtype=torch.int64), V)


def test_costs_more_than_five_percent_apart_are_said():
    assert screening.apart("parameters", 104, 100) == []
    assert screening.apart("parameters", 112, 100) == ["It has 12% more parameters."]
    assert screening.apart("parameters", 70, 100) == ["It has 30% fewer parameters."]


def test_multiply_adds_of_a_strange_module_are_counted():
    assert screening.multiply_adds_of(Plain(), T) == 16 * V
    book = build_model("transformer", vocab_size=V, d_model=16, n_heads=2)
    strange = nn.Sequential(book)
    assert screening.multiply_adds_of(strange, T) == pytest.approx(screening.multiply_adds_of(book, T))


# Sides


SOURCE = """
from efficient_transformers import build_model

def build(vocab_size, n_layers=2, max_seq_len=16):
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": n_layers, "max_seq_len": max_seq_len}
    return build_model("primer-ez", vocab_size=vocab_size, **sizes)

def whole(vocab_size):
    return build(vocab_size, max_seq_len=1024)

WRONG = 3
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A folder with a variant and a text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "text.txt").write_text("the quick brown fox\njumps over the lazy dog. " * 1000)
    return tmp_path / "mine.py"


def test_a_side_is_a_name_a_function_or_a_place_in_a_file(file):
    named, placed, given = (Side.of("variant", what) for what in ("transformer", "mine.py:build", Plain))
    assert (named.n_layers, placed.n_layers, given.n_layers) == (4, 2, None)
    assert placed.make(V, 24).max_seq_len == 24
    assert given.source == "test_compare:Plain"
    assert Side.of("variant", "hourglass").n_layers is None  # a hierarchy has no one depth


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("mine.py:nothing", r"the function of mine.py is 'nothing'; expected one of its functions: \['build"),
        ("mine.py:WRONG", "the function of mine.py is 'WRONG'"),
        ("his.py:build", "the model is 'his.py:build'; expected one of transformer"),
        ("perceiver", "the model is 'perceiver'"),
        ("broken.py:build", "broken.py fails when it is executed: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_what_is_no_side_is_refused(file, what, said):
    file.with_name("broken.py").write_text("1 / 0")
    with pytest.raises(ValueError, match=said):
        Side.of("variant", what)


# The plan


def planned(minutes=30.0, processes=1, depths=(4, 4), seconds=(0.065, 0.08, 0.035, 0.04), **changes):
    names = ("baseline", "variant")
    halves = {f"{name}, half": s for name, s in zip(names, seconds[2:], strict=True)}
    plan = Plan(
        variant="mine.py:build", baseline="transformer", checksums=(None, None), corpus="shakespeare-with-test",
        subwords=None, seq_len=256, batch_size=4, minutes=minutes, processes=processes,
        depths=dict(zip(names, depths, strict=False)), seconds=dict(zip(names, seconds[:2], strict=True)) | halves,
        looked=0.0, size="0.8M", steps=0, seeds=0, remarks=(),
    )  # fmt: skip
    return Plan(**(vars(plan) | changes))


def test_minutes_buy_steps_and_few_of_them_cost_seeds():
    found = [planned(minutes).settled() for minutes in (3000, 120, 30, 15, 10, 6)]
    assert [plan.seeds for plan in found] == sorted((plan.seeds for plan in found), reverse=True)
    assert [plan.steps for plan in found[:2]] == sorted((plan.steps for plan in found[:2]), reverse=True)
    assert found[0].seeds == 5
    assert found[-1].seeds == 2
    for plan in found:
        assert plan.cost(plan.steps, plan.seeds) <= 60 * plan.minutes * 0.9
        assert plan.cost(plan.steps + 1, plan.seeds) > 60 * plan.minutes * 0.9
    assert planned(30, processes=2).settled().steps > found[2].steps


def test_fewer_seeds_are_said_to_cost_certainty():
    assert "times as wide as one of 5" in str(planned(6).settled())
    assert "as wide" not in str(planned(3000).settled())


def test_minutes_too_few_for_anything_are_refused_with_how_many_are_needed():
    with pytest.raises(ValueError, match=r"minutes is 0.1; expected at least (\d+\.?\d*) on this machine") as refused:
        planned(0.1).settled()
    least = float(str(refused.value).split("at least ")[1].split()[0])
    plan = planned(least).settled()
    assert plan.seeds == 2
    assert plan.cost(plan.steps, 2, rates=3) <= 60 * least * 0.9 < plan.cost(plan.steps, 2)


def test_in_equal_time_a_slower_variant_makes_fewer_steps_at_the_same_rate():
    plan = planned(30).settled()
    slower = plan.entries["variant in time"]
    assert slower.steps == round(plan.steps * 65 / 80)
    assert slower.rate_of == plan.entries["variant"]
    assert plan.entries["variant, half"].options == {"n_layers": 2}
    assert "variant in time" not in planned(30, seconds=(0.065, 0.0655, 0.035, 0.035)).settled().entries


# All of it, small


@pytest.fixture
def small(file, monkeypatch):
    """Comparisons of a moment, whose plan does not depend on the clock."""
    monkeypatch.setattr(judging, "BLOCKS", 2)
    monkeypatch.setattr(judging, "SHORT", 0.0)
    monkeypatch.setattr(judging, "ENOUGH", 4)
    monkeypatch.setattr(judging, "FEWEST", 4)
    monkeypatch.setattr(Plan, "scoring", lambda plan, role: 0.0)
    seconds = {"baseline": 5.0, "variant": 6.0, "baseline, half": 3.0, "variant, half": 3.5}
    monkeypatch.setattr(judging, "seconds_per_step", lambda models, *_: {name: seconds[name] for name in models})
    return {"corpus": "text.txt", "seq_len": 16, "batch_size": 64, "minutes": 40.0, "show_progress": False}


@pytest.fixture
def recorded(small, monkeypatch):
    """The same, whose runs are not trained: losses lie on a smooth curve, 0.05 lower for the variant."""

    def execute(study, trial, build, **_):
        entry, rate = trial.entry, trial.rate
        lead = 0.05 * entry.name.startswith("variant") + 0.01 * (len(entry.options) > 0)
        loss = 2 - lead + 0.1 * math.log(rate / 5e-3) ** 2 + 0.003 * math.sin(100 * trial.seed + len(entry.label))
        scored = {"loss": loss, "blocks": [loss, loss]}
        build(entry.model, vocab_size=V, max_seq_len=16, **entry.options)
        return {
            "protocol": 3, "role": trial.role, "run": trial.describe(), "validation": scored, "test": scored,
            "parameters": 5, "multiply_adds": 7, "versions": {"torch": "2"}, "machine": "none", "device": "cpu",
        }  # fmt: skip

    monkeypatch.setattr(judging, "execute_trial", execute)
    return small


def baseline(vocab_size, n_layers=2):
    return build_model("transformer", vocab_size=vocab_size, d_model=8, n_heads=2, n_layers=n_layers)


def test_a_comparison_ends_with_a_card_and_a_figure_and_goes_on_where_it_was_left(recorded, file):
    whole = compare("mine.py:build", baseline, out="whole", **recorded)
    assert whole.card == (Path("whole") / "card.md").read_text()
    assert (Path("whole") / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert {name: (found.told_apart, round(found.mean, 2)) for name, found in whole.comparisons.items()} == {
        "equal steps": (True, -0.05),
        "equal time": (True, -0.05),
    }
    assert "| variant, half |" in whole.card  # half as deep, both end lower by 0.01
    assert "| variant in time (no verdict) |" in whole.card
    lines = (Path("whole") / "records.jsonl").read_text().splitlines()
    assert len(lines) == 4 * 5 + 5 * 5  # four entries with a grid of five rates, five with five seeds
    part = file.with_name("part")
    part.mkdir()
    (part / "plan.json").write_bytes((Path("whole") / "plan.json").read_bytes())
    (part / "records.jsonl").write_text("\n".join(lines[:33]) + "\n" + lines[33][:50])  # cut off
    with pytest.warns(UserWarning, match="is not a record"):
        again = compare("mine.py:build", baseline, out="part", **recorded)
    assert again.card == whole.card


def test_two_processes_do_as_much_as_one(recorded):
    other = multiprocessing.get_context("fork").Process(  # which has what `recorded` has changed
        target=compare, args=("mine.py:build", baseline), kwargs={"out": "two", "shard": (1, 2), **recorded}
    )
    other.start()
    ours = compare("mine.py:build", baseline, out="two", shard=(0, 2), **recorded)
    other.join()
    assert other.exitcode == 0
    assert (Path("two") / "card.md").read_text() == ours.card
    runs = [(r["role"], r["run"]) for r in read_records(Path("two/records.jsonl"))]
    assert all(runs.count(run) == 1 for run in runs)


def test_a_leak_is_drawn(small):
    with pytest.raises(
        screening.LeakError, match=r"output 3 changes with token 4 .* \(leaky/leaks.png shows them\)"
    ) as found:
        compare(lambda vocab_size: Plain(lambda x: next_token(x, 3), vocab_size), baseline, out="leaky", **small)
    assert found.value.reads.triu(1).nonzero().tolist() == [[3, 4]]
    assert Path("leaky/leaks.png").read_bytes().startswith(b"\x89PNG")


def test_a_variant_of_one_depth_says_so_and_the_half_deep_baseline_has_no_verdict(recorded):
    found = compare("mine.py:whole", baseline, out="one", **recorded)
    assert "- Depth of the variant not tuned." in found.card
    assert "| baseline, half (no verdict) |" in found.card


def test_the_baseline_against_itself_is_the_same_run_for_run(recorded, monkeypatch):
    judge_ = judging.by_entry
    monkeypatch.setattr(judging, "by_entry", lambda *a: {name: {0: 2.0, 1: 2.1} for name in judge_(*a)})
    found = compare("mine.py:build", baseline, out="same", **recorded)
    assert found.comparisons == {}
    assert found.card.count("no: the runs are the same") == 2


def test_sides_of_the_same_name_are_two(recorded, monkeypatch):
    made = []

    def side(width):
        def build(vocab_size):
            made.append(width)
            return build_model("transformer", vocab_size=vocab_size, d_model=width, n_heads=2, n_layers=1)

        return build

    compare(side(8), side(16), out="same", **recorded)
    assert min(made.count(8), made.count(16)) > 10


def test_another_question_in_the_same_folder_is_refused(recorded, file):
    compare("mine.py:build", baseline, out="whole", **recorded)
    with pytest.raises(ValueError, match=r"minutes of whole/plan.json is 40.0; expected 50.0"):
        compare("mine.py:build", baseline, out="whole", **recorded | {"minutes": 50.0})
    file.write_text(SOURCE + "\n# changed")
    with pytest.raises(ValueError, match=r"checksums of whole/plan\.json"):
        compare("mine.py:build", baseline, out="whole", **recorded)


@pytest.mark.parametrize(
    ("slower", "said"),
    [(1.7, "The minutes were over after"), (3, "the minutes were over before its grid was whole")],
)
def test_when_the_minutes_are_over_complete_seeds_are_judged(recorded, monkeypatch, slower, said):
    """On a machine that has become slower since its steps were timed."""
    now, execute = [0.0], judging.execute_trial

    def slowly(study, trial, build, **options):
        name = trial.entry.name.replace(" depth", "")
        now[0] += (
            slower * trial.entry.steps * {"baseline": 5, "variant": 6, "baseline, half": 3, "variant, half": 3.5}[name]
        )
        return execute(study, trial, build, **options)

    monkeypatch.setattr(judging.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(judging, "execute_trial", slowly)
    found = compare("mine.py:build", baseline, out="short", **recorded)
    assert 0.8 * 40 * 60 < now[0] <= 1.1 * 40 * 60
    records = read_records(Path("short/records.jsonl"))
    assert sum(record["seconds"] for record in records) == pytest.approx(now[0])
    assert said in found.card
    assert (slower == 3) == ("No verdict: that takes 3 seeds" in found.card)
    assert any(comparison.told_apart for comparison in found.comparisons.values()) == (slower < 2)


def test_a_module_that_is_not_the_books_is_trained_and_judged(small):
    """Real runs; each token alone is what the baseline, too, can do at least."""
    found = compare(lambda vocab_size: Plain(vocab_size=vocab_size), baseline, out="plain", **small | {"minutes": 13.0})
    assert set(found.comparisons) == {"equal steps", "equal time"}
    characters = len(load_corpus("text.txt").vocabulary)
    counted = [(r["parameters"], r["multiply_adds"]) for r in read_records(Path("plain/records.jsonl"))]
    assert (33 * characters + 32, 16 * characters) in counted


def test_a_plan_that_is_none_is_refused(small, file):
    file.with_name("odd").mkdir()
    (file.parent / "odd" / "plan.json").write_text("[]")
    with pytest.raises(ValueError, match="is not the plan of a comparison"):
        compare("mine.py:build", baseline, out="odd", **small)


BAD = {
    ("compare",): "the following arguments are required: build",
    ("compare", "nowhere.py:build"): "the model is 'nowhere.py:build'",
    ("compare", "mine.py:build", "--shard", "2/2"): "shard is (2, 2)",
    ("compare", "mine.py:build", "--shard", "one"): "shard is 'one'; expected two numbers",
    ("compare", "mine.py:build", "--shard", "0/2"): "out is None; expected a folder that all processes share",
    ("compare", "mine.py:build", "--against", "perceiver"): "the model is 'perceiver'",
    ("compare", "mine.py:build", "--minutes", "nan"): "minutes is nan; expected a finite number",
    ("compare", "mine.py:build", "--corpus", "none.txt"): "none.txt",
}


@pytest.mark.parametrize("line", BAD, ids=" ".join)
def test_a_bad_comparison_ends_in_one_line(file, command, line):
    code, _, err = command(*line)
    assert (code, err.count("\n")) == (2, 1)
    assert BAD[line] in err


def test_help_says_that_the_file_is_executed(command):
    assert "is executed" in command("compare", "--help")[1]
