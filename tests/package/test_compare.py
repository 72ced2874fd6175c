"""A model of one's own, judged: what is refused, what is planned, what a card says, and that a comparison goes on."""

import hashlib
import math
import multiprocessing
import random
import time
from dataclasses import replace
from pathlib import Path

import judged
import pytest
import torch
from torch import nn

from efficient_transformers import LeakError, __version__, build_model, check_leaks, load_corpus, model_names
from efficient_transformers.judging import compare as judging
from efficient_transformers.judging import judgment, screening
from efficient_transformers.judging import plan as planning
from efficient_transformers.judging.compare import compare
from efficient_transformers.judging.plan import Plan
from efficient_transformers.judging.protocol import Trial, chosen_rate
from efficient_transformers.judging.recording import read_records, results
from efficient_transformers.judging.side import Side
from efficient_transformers.layers.leaks import require_logits
from efficient_transformers.models.cost import effective_parameters
from efficient_transformers.support.files import locked

pytestmark = [pytest.mark.usefixtures("on_the_cpu"), pytest.mark.slow]

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
    for remark in check_leaks(build_model(name, vocab_size=V, **sizes), T, V):
        assert remark.startswith("It does not read")


@pytest.mark.parametrize(
    ("leak", "said"),
    [
        (next_token, "output 10 changes with token 11"),
        (lambda x: x + x.mean(1, keepdim=True), "output 0 changes with token 1"),
        (lambda x: next_token(x, 40) if x.shape[1] > T else x, "the model leaks at length 64, in eval mode: output 40"),
        (lambda x: x * (1 + 1 / x.shape[1]), "nobody knows its length"),
        (lambda x: x + x[:1], "the model leaks across the batch, in train mode"),
    ],
    ids=["one token", "a mean", "beyond the trained length", "the length", "the batch"],
)
def test_a_leak_is_refused_with_its_place(leak, said):
    with pytest.raises(ValueError, match=said):
        check_leaks(Plain(leak), T, V)


def test_a_leak_of_eval_mode_alone_is_refused():
    class Sly(Plain):
        def forward(self, tokens):
            x = self.embedding(tokens)
            return self.output(x if self.training else next_token(x))

    with pytest.raises(ValueError, match="in eval mode: output 10 changes"):
        check_leaks(Sly(), T, V)


def test_a_model_that_remembers_is_refused_as_such():
    class Remembers(Plain):
        def forward(self, tokens):
            x = self.embedding(tokens)
            self.calls = getattr(self, "calls", 0) + 1
            return self.output(x * self.calls)

    with pytest.raises(ValueError, match="in train mode, of the same text is 'others the second time'"):
        check_leaks(Remembers(), T, V)


def test_rounding_in_float32_is_no_leak_and_is_said():
    class Single(Plain):
        def forward(self, tokens):
            x = torch.fft.irfft(torch.fft.rfft(self.embedding(tokens).float(), 2 * T, 1), 2 * T, 1)[
                :, : tokens.shape[1]
            ]
            return self.output(x.to(self.output.weight.dtype))

    remarks = check_leaks(Single(), T, V)
    assert remarks[0].startswith("It computes in less than float64")


def test_a_model_that_knows_the_text_beforehand_is_refused():
    tokens = torch.randint(V, (2, T))
    model = build_model("transformer", vocab_size=V, d_model=16, n_heads=2)
    assert screening.check_start(model, tokens, tokens.roll(-1), V) == []
    with pytest.raises(ValueError, match=r"the loss of the model before training is 0\.0"):
        screening.check_start(lambda x: 50.0 * nn.functional.one_hot(x, V), tokens, tokens, V)
    (remark,) = screening.check_start(lambda x: 50.0 * nn.functional.one_hot(x, V), tokens, (tokens + 1) % V, V)
    assert "far above ln 65 = 4.17" in remark


def test_a_bias_that_starts_with_the_frequencies_of_tokens_is_passed_with_a_remark():
    tokens = torch.randint(8, (2, T))
    often = (tokens.flatten().bincount(minlength=V) + 0.01).log()
    (remark,) = screening.check_start(lambda x: often.expand(*x.shape, V), tokens, tokens, V)
    assert remark.endswith("below ln 65 = 4.17: it starts with the frequencies of tokens.")


def test_matrices_that_lose_the_decay_are_remarked():
    model = Plain()
    assert screening.undecayed(model) == []
    model.inner = nn.MultiheadAttention(16, 2)  # whose matrix of queries, keys and values is no nn.Linear's
    assert screening.undecayed(model) == [
        "24% of its parameters are matrices outside nn.Linear and nn.Embedding, and are not decayed."
    ]


@pytest.mark.parametrize(
    ("model", "error", "said"),
    [
        (lambda: 5, TypeError, "mine is 5; expected a torch.nn.Module"),
        (lambda: nn.Embedding(V, 7), ValueError, r"the output of mine is \[2, 32, 7\]; expected logits \[2, 32, 65\]"),
        (lambda: nn.Linear(4, 4), ValueError, r"mine fails on tokens \[2, 32\]: RuntimeError"),
        (lambda: Plain(lambda x: x / 0), ValueError, "expected finite logits"),
    ],
    ids=["no module", "shape", "fails", "not finite"],
)
def test_what_makes_no_logits_is_refused(model, error, said):
    with pytest.raises(error, match=said):
        require_logits("mine", model(), torch.zeros(2, T, dtype=torch.int64), V)


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
    named, placed, given = (Side.of("build", what) for what in ("transformer", "mine.py:build", Plain))
    assert (named.n_layers, placed.n_layers, given.n_layers) == (4, 2, None)
    assert placed.make(V, 24).max_seq_len == 24
    assert given.source == "test_compare:Plain"
    assert Side.of("build", "hourglass").n_layers is None  # a hierarchy has no one depth


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("mine.py:WRONG", ValueError, "the function of mine.py is 'WRONG'"),
        ("perceiver", ValueError, "build is 'perceiver'"),
        ("text.txt:build", ValueError, "build is 'text.txt:build'"),
        ("broken.py:build", ValueError, "broken.py fails when it is executed: ZeroDivisionError: division by zero"),
        (Plain(), TypeError, "build is 'Plain'; expected a function that makes a new model each time"),
        (lambda vocab_size, d_model: 0, TypeError, "missing a required argument: 'd_model'"),
        (lambda vocab_size: 1 / 0, ValueError, "fails: ZeroDivisionError: division by zero"),
    ],
    ids=["a number", "no model", "no Python", "broken", "a model", "more arguments", "fails"],
)
def test_what_is_no_side_is_refused(file, what, error, said):
    file.with_name("broken.py").write_text("1 / 0")
    with pytest.raises(error, match=said):
        Side.of("build", what).make(V, T)


# The plan


def planned(minutes=30.0, depths=(4, 4), seconds=(0.065, 0.08, 0.035, 0.04), **changes):
    names = ("baseline", "variant", "baseline, half", "variant, half")
    plan = Plan(
        variant="mine.py:build", baseline="transformer", checksums=[None, None], corpus="shakespeare-with-test",
        tokens="characters", seq_len=256, batch_size=4, minutes=minutes,
        depths=dict(zip(names, depths, strict=False)), seconds=dict(zip(names, seconds, strict=True)),
        sizes=dict.fromkeys(names, "0.8M"), looked=0.0, steps=0, seeds=0, remarks=[], rates={},
    )  # fmt: skip
    return replace(plan, **changes)


def test_minutes_buy_steps_and_few_of_them_cost_seeds():
    found = [planned(minutes).settled() for minutes in (3000, 120, 30, 15, 10, 6, 2)]
    assert [plan.seeds for plan in found] == [5, 5, 5, 3, 3, 3, 2]
    assert [plan.steps for plan in found[:3]] == sorted((plan.steps for plan in found[:3]), reverse=True)
    assert all(plan.steps >= 200 for plan in found if plan.seeds > 3)
    for plan in found:
        assert plan.cost(plan.steps, plan.seeds) <= 60 * plan.minutes * 0.9
        assert plan.cost(plan.steps + 1, plan.seeds) > 60 * plan.minutes * 0.9
    on_the_books_machine = planned(30, seconds=(0.1, 0.11, 0.052, 0.057)).settled()
    assert (on_the_books_machine.steps // 10, on_the_books_machine.seeds) == (21, 5)  # as README says


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
    muon = planned(30, optimizer="muon").settled()
    assert {entry.training["optimizer"] for entry in muon.entries.values()} == {"muon"}


@pytest.mark.parametrize(("share", "fits"), [(0.99, True), (1.04, True), (1.06, False)])
def test_a_run_begins_if_it_ends_at_most_a_twentieth_after_the_minutes(tmp_path, share, fits):
    plan = planned(30).settled()
    trial = Trial(plan.entries["baseline"], "reported", 2e-3, 0)
    clock = judging.Clock(plan, tmp_path / "none.jsonl")
    clock.before = share * 60 * 30 - plan.expected(trial.entry, "reported")
    assert clock.is_enough_for(trial) == fits


def test_the_recorded_hour_was_made_by_its_plan():
    """Each run is what today's code would make of the plan, so that the card of Chapter 7 says what was run."""
    folder = results("recorded") / "own"
    plan, records = Plan.read(folder / "plan.json"), read_records(folder / "records.jsonl")
    entries = {entry.label: (name, entry) for name, entry in plan.entries.items()}
    for record in records:
        name, entry = entries[record["run"]["label"]]
        training = record["run"]["training"]
        unsaid = {"tokens": "characters", "training": training | {"optimizer": "adamw"}}
        assert record["run"] | unsaid == entry.describe(training["learning_rate"], training["seed"])
        assert record["role"] == "tuning" or training["learning_rate"] == plan.rates[name]
    assert plan.rates == {name: chosen_rate(entry, records) for name, entry in plan.entries.items()}
    assert plan.checksums[0] == hashlib.sha256(Path("experiments/own.py").read_bytes()).hexdigest()


# What was recorded: experiments/judged.py


def test_a_card_counts_the_verdicts_whose_answer_is_known():
    assert judgment.known_answers() == (
        "How often a verdict is right: a model compared with itself was called different in 1 of 60 verdicts at equal "
        "steps and in 3 of 38 verdicts in equal time; a lead of 0.12 nats was found in 20 of 20 verdicts."
    )


def test_a_judged_run_that_is_recorded_is_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(judged, "RESULTS", tmp_path / "verdicts.jsonl")
    monkeypatch.setattr(judged, "TRIALS", {"null": range(2)})
    monkeypatch.setattr(judged, "commit_of_code", lambda: "0" * 40)
    made = []
    monkeypatch.setattr(judged, "execute", lambda run, commit: made.append(run) or {"run": run, "metrics": []})
    judged.main()
    assert len(made) == 2, "from nothing"
    judged.TRIALS["null"] = range(3)
    judged.main()
    assert [run["number"] for run in made] == [0, 1, 2]


# All of it, small


@pytest.fixture
def small(file, monkeypatch):
    """Comparisons of a moment, whose plan does not depend on the clock."""
    monkeypatch.setattr(planning, "BLOCKS", 2)
    monkeypatch.setattr(planning, "SHORT", 0.0)
    monkeypatch.setattr(planning, "ENOUGH_STEPS", 4)
    monkeypatch.setattr(planning, "FEWEST_STEPS", 4)
    monkeypatch.setattr(Plan, "scoring", lambda plan, role: 0.0)
    seconds = {"baseline": 5.0, "variant": 6.0, "baseline, half": 3.0, "variant, half": 3.5}
    monkeypatch.setattr(planning, "seconds_per_step", lambda models, *_: {name: seconds[name] for name in models})
    return {"corpus": "text.txt", "seq_len": 16, "batch_size": 64, "minutes": 40.0, "show_progress": False}


@pytest.fixture
def recorded(small, monkeypatch):
    """The same, whose runs are not trained: losses lie on a smooth curve, 0.05 lower for the variant."""

    def execute(trial, build, **_):
        entry, rate = trial.entry, trial.rate
        lead = 0.05 * entry.name.startswith("variant") + 0.01 * (len(entry.options) > 0)
        loss = 2 - lead + 0.1 * math.log(rate / 5e-3) ** 2 + 0.003 * math.sin(100 * trial.seed + len(entry.label))
        scored = {"loss": loss, "blocks": [loss, loss]}
        known = len(load_corpus(entry.corpus).vocabulary)
        parameters = effective_parameters(build(entry.model, vocab_size=known, max_seq_len=16, **entry.options))
        return {
            "role": trial.role, "run": entry.describe(trial.rate, trial.seed), "validation": scored, "test": scored,
            "metrics": [{"seconds": 5.0}], "parameters": parameters,
            "multiply_adds": 7, "versions": {"torch": "2"}, "machine": "none", "device": "cpu",
        }  # fmt: skip

    monkeypatch.setattr(judging, "execute_trial", execute)
    monkeypatch.setattr(judging, "look_for_leaks", lambda *_: [])  # of the models that were not trained
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
    for said in ("lower is better", "AdamW with β = (0.9, 0.99)", f"annotated {__version__}, torch"):
        assert said in whole.card
    assert whole.verdicts == {"equal steps": "yes", "equal time": "yes"}
    assert whole.plan.part == "validation"  # the text has no test part
    lines = (Path("whole") / "records.jsonl").read_text().splitlines()
    assert len(lines) == 4 * 5 + 5 * 5  # four entries with a grid of five rates, five with five seeds
    part = file.with_name("part")
    part.mkdir()
    (part / "plan.json").write_bytes((Path("whole") / "plan.json").read_bytes())
    (part / "records.jsonl").write_text("\n".join(lines[:33]) + "\n" + lines[33][:50])  # cut off
    with pytest.warns(UserWarning, match="is not a record"):
        again = compare("mine.py:build", baseline, out="part", **recorded)
    assert again.card == whole.card


def test_a_folder_that_another_process_is_at_is_refused(recorded):
    Path("two").mkdir()
    with locked(Path("two") / judging.LOCK), pytest.raises(ValueError, match="expected a folder that no other process"):
        compare("mine.py:build", baseline, out="two", **recorded)


def test_killed_at_any_moment_it_goes_on_to_the_same_card(recorded):
    asked = recorded | {"minutes": None, "steps": 20, "seeds": 3}
    began = time.monotonic()
    whole = compare("mine.py:build", baseline, out="whole", **asked)
    duration, moments = time.monotonic() - began, random.Random(0)
    for _ in range(8):
        killed = multiprocessing.get_context("fork").Process(
            target=compare, args=("mine.py:build", baseline), kwargs={"out": "killed", **asked}
        )
        killed.start()
        killed.join(moments.uniform(0, duration / 2))
        killed.kill()
        killed.join()
    assert compare("mine.py:build", baseline, out="killed", **asked).card == whole.card
    runs = [(r["role"], r["run"]) for r in read_records(Path("killed/records.jsonl"))]
    assert len(runs) == len(read_records(Path("whole/records.jsonl")))
    assert all(runs.count(run) == 1 for run in runs)


def test_a_leak_is_drawn(small):
    with pytest.raises(LeakError, match=r"output 3 changes with token 4; .* \(leaky/leaks.png shows them\)") as found:
        compare(lambda vocab_size: Plain(lambda x: next_token(x, 3), vocab_size), baseline, out="leaky", **small)
    assert found.value.reads.triu(1).nonzero().tolist() == [[3, 4]]
    assert Path("leaky/leaks.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("opens", [("tuning", 100), ("reported", 4)], ids=["the first run", "the last run"])
def test_a_leak_that_opens_while_a_model_is_trained_is_found(recorded, monkeypatch, opens):
    execute = judging.execute_trial

    class Opens(Plain):
        steps = 0

        def forward(self, tokens):
            self.leak = next_token if self.steps == 300 else lambda x: x
            return super().forward(tokens)

    def trained(trial, build, **options):
        def made(*args, **sizes):
            model = build(*args, **sizes)
            model.steps = 300 * ((trial.role, trial.seed) == opens)
            return model

        return execute(trial, made, **options)

    monkeypatch.setattr(judging, "execute_trial", trained)
    monkeypatch.setattr(judging, "look_for_leaks", planning.look_for_leaks)
    said = r"the variant, trained, leaks at length 16, .*: output 10 changes .* \(opens/leaks.png shows them\)"
    with pytest.raises(LeakError, match=said):
        compare(lambda vocab_size: Opens(vocab_size=vocab_size), baseline, out="opens", **recorded)


def test_a_variant_of_one_depth_says_so_and_the_half_deep_baseline_has_no_verdict(recorded):
    found = compare("mine.py:whole", baseline, out="one", **recorded)
    assert "- The depth of the variant was not tuned." in found.card
    assert "| baseline, half (not used) |" in found.card
    assert "- In equal time a baseline of half the depth has a lower loss, " in found.card
    neither = compare("mine.py:build", lambda vocab_size: baseline(vocab_size), out="neither", **recorded)
    assert list(neither.plan.entries) == ["baseline", "variant", "variant in time"]


def test_the_baseline_against_itself_is_the_same_run_for_run(recorded, monkeypatch):
    losses = {0: 2.0, 1: 2.1, 2: 2.0}
    monkeypatch.setattr(judgment, "by_entry", lambda plan, *_: dict.fromkeys(plan.entries, losses))
    found = compare("mine.py:build", baseline, out="same", **recorded)
    assert found.comparisons == {}
    assert set(found.verdicts.values()) == {"no: the runs are the same"}
    assert found.card.count("no: the runs are the same") == len(found.verdicts)


def test_what_is_the_same_pair_at_equal_steps_and_in_equal_time_is_compared_once(recorded, monkeypatch):
    seconds = {"baseline": 5.0, "variant": 5.0, "baseline, half": 3.0}
    monkeypatch.setattr(planning, "seconds_per_step", lambda models, *_: {name: seconds[name] for name in models})
    found = compare("mine.py:whole", baseline, out="once", **recorded)
    assert list(found.comparisons) == ["equal steps and equal time"]


@pytest.mark.parametrize(("seconds", "verdict"), [(5.4, "yes"), (5.6, "no verdict")])
def test_a_time_that_was_not_equal_is_said_and_gives_no_verdict_where_it_is_far_from_it(
    recorded, monkeypatch, seconds, verdict
):
    execute = judging.execute_trial

    def slow_variant(trial, build, **options):
        slow = [{"seconds": seconds}] if trial.entry.name.startswith("variant") else [{"seconds": 5.0}]
        return execute(trial, build, **options) | {"metrics": slow}

    monkeypatch.setattr(judging, "execute_trial", slow_variant)
    found = compare("mine.py:build", baseline, out="slow", **recorded)
    assert found.verdicts == {"equal steps": "yes", "equal time": verdict}
    judged = ", so equal time has no verdict" if verdict == "no verdict" else ""
    assert (
        f"- The times were not equal: the variant took {seconds / 5 - 1:.0%} more time than the baseline{judged}."
        in (found.card)
    )
    assert ("- The interval of equal time leaves out 0." in found.card) == (verdict == "no verdict")


def seeded(model):
    """A function that seeds itself."""
    return lambda vocab_size: torch.manual_seed(42) and Plain(vocab_size=vocab_size)


def warm(model):
    """A function whose model starts from the last one, whatever that has become."""
    last = {}

    def build(vocab_size):
        model = Plain(vocab_size=vocab_size)
        model.load_state_dict(last or model.state_dict())
        last.update(model.state_dict())
        return model

    return build


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (
            seeded,
            "most of whose weights are the same with the seeds 0 and 1'; expected other weights with another seed",
        ),
        (
            warm,
            "other weights when it is made again with the same seed'; expected new ones, which PyTorch's seed decides",
        ),
        (lambda model: lambda vocab_size: model, "a model of other weights when it is made again with the same seed"),
        (lambda model: lambda vocab_size: Plain(vocab_size=vocab_size).requires_grad_(False), "without parameters to"),
    ],
    ids=["seeds itself", "warm start", "the model of before", "frozen"],
)
def test_a_baseline_that_cannot_be_compared_is_refused(small, theirs, said):
    with pytest.raises(ValueError, match=said):
        compare("mine.py:build", theirs(Plain(vocab_size=28)), out="odd", **small)


def test_a_half_that_is_no_half_is_left_out_and_twice_the_size_stands_beside_the_verdict(recorded):
    found = compare(lambda vocab_size, n_layers=2: baseline(vocab_size, 4), baseline, out="deaf", **recorded)
    assert list(found.plan.entries) == ["baseline", "variant", "variant in time", "baseline, half"]
    assert (
        "- The variant is as large with half the layers: n_layers does nothing, and the half is left out." in found.card
    )
    assert " | yes, with 87% more parameters |" in found.card.splitlines()[4]


def test_a_loss_that_is_not_finite_is_said_with_the_step_of_the_variants_own_training(file):
    class Breaks(Plain):
        steps = 0

        def forward(self, tokens):
            self.steps += self.training and torch.is_grad_enabled()
            return super().forward(tokens) / (self.steps < 16)

    text = load_corpus("text.txt")
    model = Breaks(vocab_size=len(text.vocabulary))
    with pytest.raises(
        FloatingPointError, match=r"the mine breaks down at .*, 12 steps on: the training loss of step 4 is (nan|inf)"
    ):
        planning.seconds_per_step({"mine": model}, text, 16, 4, "adamw")


def test_a_side_that_breaks_down_at_every_rate_is_given_up(recorded, monkeypatch):
    execute = judging.execute_trial

    def breaks(trial, build, **options):
        why = {"validation": {"loss": None, "broke_down": "the training loss of step 9 is nan"}}
        return execute(trial, build, **options) | (why if trial.entry.name == "variant" else {})

    monkeypatch.setattr(judging, "execute_trial", breaks)
    with pytest.raises(FloatingPointError, match=r"the variant breaks down at every rate; .* step 9 is nan"):
        compare("mine.py:build", baseline, out="broken", **recorded)
    assert sum(r["run"]["name"] == "variant" for r in read_records(Path("broken/records.jsonl"))) == 3


@pytest.mark.parametrize("dropout", [0.0, 0.2], ids=["the baseline renamed", "dropout"])
def test_an_honest_variant_passes_without_a_remark(file, dropout):
    def honest(vocab_size, n_layers=2):
        sizes = {"d_model": 8, "n_heads": 2, "n_layers": n_layers, "dropout": dropout}
        return build_model("transformer", vocab_size=vocab_size, **sizes)

    text, sides = (
        load_corpus("text.txt"),
        {"baseline": Side.of("against", baseline), "variant": Side.of("build", honest)},
    )
    models = {name: planning.new_model(side, len(text.vocabulary), 16) for name, side in sides.items()}
    models["variant, half"] = honest(len(text.vocabulary), 1)
    assert planning.look_first(sides, models, text, 16, 4) == []
    assert len(models) == 3


def scaled(by):
    return lambda vocab_size: Plain(lambda x: by * x, vocab_size)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda asked: asked | {"minutes": 50.0}, r"minutes of same/plan\.json is 40\.0; expected 50\.0"),
        (lambda asked: asked | {"optimizer": "muon"}, r"optimizer of same/plan\.json is 'adamw'; expected 'muon'"),
        (lambda asked: asked | {"build": scaled(2.0)}, r"checksums of same/plan\.json"),  # of the same name
        (lambda asked: Path("text.txt").write_text("another text " * 4000) and asked, r"checksums of same/plan\.json"),
        (lambda asked: Path("same/plan.json").write_text("[]") and asked, "is not the plan of a comparison"),
        (lambda asked: Path("same/plan.json").unlink() or asked, "expected plan.json beside records.jsonl"),
    ],
    ids=["minutes", "optimizer", "function", "text", "no plan's content", "no plan"],
)
def test_another_question_in_the_same_folder_is_refused(recorded, change, said):
    asked = {"build": scaled(1.0), "against": baseline, "out": "same", **recorded}
    compare(**asked)
    with pytest.raises(ValueError, match=said):
        compare(**change(asked))


def test_records_of_another_plan_are_refused(recorded):
    compare("mine.py:build", baseline, out="whole", **recorded)
    plan, records = Plan.read(Path("whole/plan.json")), read_records(Path("whole/records.jsonl"))
    with pytest.raises(ValueError, match=r"a record is .* expected one of"):
        judgment.judge(replace(plan, steps=plan.steps + 1), records)


def test_a_leak_of_half_the_depth_or_of_the_baseline_is_refused_too(small):
    def of_half(vocab_size, n_layers=2):
        return Plain(next_token if n_layers == 1 else lambda x: x, vocab_size)

    def leaky(vocab_size):
        return Plain(lambda x: next_token(x, 3), vocab_size)

    with pytest.raises(LeakError, match="the variant, half leaks at length 16"):
        compare(of_half, baseline, out="half", **small)
    with pytest.raises(LeakError, match="the baseline leaks at length 16"):
        compare("mine.py:build", leaky, out="theirs", **small)


@pytest.mark.parametrize(
    ("slower", "said"),
    [(1.7, "The minutes were over after"), (3, "the minutes were over before all could be tried")],
)
def test_when_the_minutes_are_over_complete_seeds_are_judged(recorded, monkeypatch, slower, said):
    """On a machine that has become slower since its steps were timed."""
    now, execute = [0.0], judging.execute_trial

    def slowly(trial, build, **options):
        seconds = {"baseline": 5, "variant": 6, "baseline, half": 3, "variant, half": 3.5}
        now[0] += slower * trial.entry.steps * seconds[trial.entry.name]
        return execute(trial, build, **options)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(judging, "execute_trial", slowly)
    found = compare("mine.py:build", baseline, out="short", **recorded)
    assert 0.8 * 40 * 60 < now[0] <= 1.1 * 40 * 60
    records = read_records(Path("short/records.jsonl"))
    assert sum(record["seconds"] for record in records) == pytest.approx(now[0])
    assert said in found.card
    assert (slower == 3) == ("No verdict: a verdict takes 3 seeds" in found.card)
    assert set(found.verdicts.values()) == {"yes" if slower < 2 else "no verdict"}


def test_a_module_that_is_not_the_books_is_trained_and_judged(small):
    """Real runs; each token alone is what the baseline, too, can do at least."""
    found = compare(lambda vocab_size: Plain(vocab_size=vocab_size), baseline, out="plain", **small | {"minutes": 13.0})
    assert set(found.comparisons) == {"equal steps", "equal time"}
    characters = len(load_corpus("text.txt").vocabulary)
    counted = [(r["parameters"], r["multiply_adds"]) for r in read_records(Path("plain/records.jsonl"))]
    assert (33 * characters + 32, 16 * characters) in counted


def test_steps_and_seeds_are_kept_however_slow_the_machine_is(recorded, monkeypatch):
    monkeypatch.setattr(planning, "seconds_per_step", lambda models, *_: dict.fromkeys(models, 1e6))
    asked = recorded | {"minutes": None, "steps": 20, "seeds": 3, "show_progress": True}
    found = compare("mine.py:build", baseline, out="counted", **asked)
    assert (found.plan.steps, found.plan.seeds, found.plan.minutes) == (20, 3, None)
    assert found.verdicts["equal steps"] == "yes"
    reported = [r for r in read_records(Path("counted/records.jsonl")) if r["role"] == "reported"]
    assert len(reported) == 3 * len(found.plan.entries)
    assert {r["run"]["training"]["steps"] for r in reported} == {20}
    assert compare("mine.py:build", baseline, out="counted", **asked).card == found.card
    with pytest.raises(ValueError, match=r"steps of counted/plan.json is 20; expected 21"):
        compare("mine.py:build", baseline, out="counted", **asked | {"steps": 21})


@pytest.mark.parametrize(
    "change",
    [
        {"minutes": 0.01},
        {"seq_len": 15},
        {"optimizer": "moun"},
        {"tokens": "words"},
        {"minutes": 1.0, "steps": 30},
        {"steps": 3, "minutes": None},
        {"seeds": 6, "steps": 30, "minutes": None},
    ],
)
def test_what_is_refused_leaves_no_folder(small, monkeypatch, change):
    with pytest.raises(ValueError, match=f"{next(iter(change))} is .*; expected"):
        compare("mine.py:build", baseline, out="refused", **small | change)
    assert not Path("refused").exists()


def test_a_text_of_any_script_is_judged_and_one_of_too_many_characters_is_refused(recorded):
    Path("greek.txt").write_text("η γρήγορη αλεπού πηδάει πάνω από τον τεμπέλη σκύλο. " * 1000)
    assert (
        "Text: greek.txt." in compare("mine.py:build", baseline, out="greek", **recorded | {"corpus": "greek.txt"}).card
    )
    Path("many.txt").write_text("".join(map(chr, range(0x10000, 0x10000 + 100_000))))
    with pytest.raises(
        ValueError, match=r"different characters of 'many.txt' is 100000; expected at most 16,384; as tokens='bytes'"
    ):
        compare("mine.py:build", baseline, out="many", **recorded | {"corpus": "many.txt"})
    as_bytes = compare("mine.py:build", baseline, out="bytes", **recorded | {"corpus": "greek.txt", "tokens": "bytes"})
    assert "Text: greek.txt, as bytes." in as_bytes.card
    assert as_bytes.plan.tokens == "bytes"
