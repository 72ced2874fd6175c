"""What a GPU makes of the package, in at most 45 minutes: tests, layers, a recipe, utilization, decoding and size.

python benchmarks/gpu.py [SECTION ...]

Each section writes rows to benchmarks/results/gpu.json as it measures them, so that a run that is cut off keeps what
it had; a section whose time is over stops after its row and says that it is not complete. Sections:

- tests: those of tests/ that run on any device, on this one;
- layers: forward and backward of each layer against its plain form, in float32 and under bfloat16 autocast;
- recipe: character-level Tiny Shakespeare as nanoGPT trains it, with the baseline and with Primer EZ. The text comes
  from the folder in EFFICIENT_TRANSFORMERS_DATA, or is downloaded;
- utilization: the share of the device's speed, as a large matrix product shows it, that a training step reaches;
- decoding: tokens per second, with a growing cache, and compiled with a static one;
- size: the study over size of experiments/README.md, with wider models and larger batches: how many times fewer steps
  reach the baseline's loss. The text is enwik8 in subwords, downloaded or from the same folder; without it, the source
  code of that study, which is too short for the widest models. No run reads more than the text has.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from plain import pairs
from timing import medians
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from efficient_transformers import (
    Cache,
    Corpus,
    LanguageModel,
    Metrics,
    TrainingConfig,
    build_model,
    load_corpus,
    train,
)
from efficient_transformers.layers.decoding import StaticCache
from efficient_transformers.layers.family import parameter_count
from efficient_transformers.models import FAMILIES, find_family
from efficient_transformers.studies.factors import factor
from efficient_transformers.studies.protocol import SEEDS, TUNING_SEED, Entry, next_rates
from efficient_transformers.training.evaluation import BLOCK, score
from efficient_transformers.training.loop import parameter_groups

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "gpu.json"
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured: the defaults are for 45 minutes of a large GPU, with room for each section's last row."""

    device: str = "cuda"
    seconds: dict[str, float] = field(
        default_factory=lambda: {
            "tests": 80,
            "layers": 60,
            "recipe": 130,
            "utilization": 140,
            "decoding": 50,
            "size": 2100,
        }
    )
    names: tuple[str, ...] = tuple(FAMILIES)
    backend: str = "inductor"
    repeats: int = 20
    d_head: int = 64
    vocab_size: int = 256
    tests: tuple[str, ...] = ("tests/package/test_devices.py", "tests/package/test_compilation.py")
    layer: tuple[int, int, int] = (8, 1024, 768)  # batch, length, channels
    matmul: int = 8192
    models: tuple[tuple[int, int], ...] = ((10_000_000, 6), (100_000_000, 8))  # parameters and layers
    step: tuple[int, int] = (16, 1024)  # batch and length
    decode: tuple[int, int, int] = (8, 64, 256)  # batch, prompt and new tokens
    texts: tuple[str, ...] = ("enwik8", "source-code")  # of the study over size: the first that can be had
    subwords: int = 1024
    widths: tuple[tuple[int, int], ...] = ((256, 4000), (512, 8000))  # and the baseline's steps
    sequences: tuple[int, int] = (16, 256)  # batch and length
    blocks: int = 400
    corpus: str = "tiny-shakespeare"
    recipe: dict[str, Any] = field(
        default_factory=lambda: {"d_model": 384, "n_layers": 6, "n_heads": 6, "max_seq_len": 256, "dropout": 0.2}
    )
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            steps=5000,
            batch_size=64,
            seq_len=256,
            learning_rate=1e-3,
            warmup_steps=100,
            eval_every=250,
            eval_batches=20,
        )
    )


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def waited(function: Callable[[], object], device: str) -> Callable[[], None]:
    """The function, and then all that it started on the device."""

    def run() -> None:
        function()
        wait(device)

    return run


def low_precision(device: str, enabled: bool = True) -> torch.autocast:
    return torch.autocast(device, dtype=torch.bfloat16, enabled=enabled)


# Tests


def tests(plan: Plan) -> Iterator[Row]:
    """The tests whose name has the device in it, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-k", plan.device, f"--junitxml={report}", *plan.tests]
        try:
            subprocess.run(command, cwd=ROOT, timeout=plan.seconds["tests"], check=False)
        except subprocess.TimeoutExpired:
            yield {"tests": plan.tests, "finished": False}
            return
        suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None, "pytest writes one"
    bad = [case.get("name") for case in suite if case.find("failure") is not None or case.find("error") is not None]
    counts = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    yield {**counts, "finished": True, "failed": bad}


# Layers against their plain forms


def layers(plan: Plan) -> Iterator[Row]:
    B, T, D = plan.layer
    for name, (ours, plain, lengths) in pairs(D, D // plan.d_head, T).items():
        inputs = [torch.randn(B, n, D, device=plan.device, requires_grad=True) for n in lengths]
        modules = {"ours": ours.to(plan.device), "plain": plain.to(plan.device)}
        for low in (False, True):
            steps = {how: layer_step(module, inputs, plan.device, low) for how, module in modules.items()}
            outputs = [step() for step in steps.values()]
            difference = ((outputs[0] - outputs[1]).abs().max() / outputs[1].abs().max()).item()
            assert difference < (0.05 if low else 1e-4), f"{name} differs from its plain form by {difference}"
            took = medians({how: waited(step, plan.device) for how, step in steps.items()}, plan.repeats)
            yield {
                "layer": name,
                "precision": "bfloat16 autocast" if low else "float32",
                "milliseconds": took["ours"] * 1e3,
                "plain_milliseconds": took["plain"] * 1e3,
                "ratio": took["ours"] / took["plain"],
                "difference": difference,
            }


def layer_step(module: nn.Module, inputs: list[Tensor], device: str, low: bool) -> Callable[[], Tensor]:
    """Forward and backward."""

    def step() -> Tensor:
        module.zero_grad()
        with low_precision(device, enabled=low):
            y = module(*inputs)
        y.float().sum().backward()
        return y.detach().float()

    return step


# nanoGPT's recipe


def recipe(plan: Plan) -> Iterator[Row]:
    """Steps, batch, rates, decay, clipping and precision are nanoGPT's; it differs in what its own row says."""
    yield {
        "nanogpt_best_validation_loss": 1.4697,  # its README
        "differences": "nanoGPT also drops attention weights, learns positions, uses GELU, compiles its model, and "
        "evaluates on random batches; ours are spread evenly over the validation text",
    }
    corpus = load_corpus(plan.corpus)
    for name in ("transformer", "primer-ez"):
        torch.manual_seed(plan.training.seed)
        model = build_model(name, vocab_size=len(corpus.vocabulary), **plan.recipe)
        stop_at(model, time.monotonic() + plan.seconds["recipe"] / 2)
        metrics, finished = Metrics(), True
        try:
            train(model, corpus, plan.training, callback=metrics.append)
        except TimeoutError:
            finished = False
        yield {
            "model": name,
            "parameters": parameter_count(model),
            "finished": finished,
            "steps": metrics[-1]["step"],
            "seconds": metrics[-1]["seconds"],
            "best_validation_loss": min(record["validation_loss"] for record in metrics),
            "curve": [[record["step"], record["validation_loss"]] for record in metrics],
        }


def stop_at(model: nn.Module, deadline: float) -> None:
    """Let the model's first call after the deadline, in seconds of the monotonic clock, raise TimeoutError."""

    def check(module: nn.Module, inputs: object) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError("the time for this run is over")

    model.register_forward_pre_hook(check)


# Utilization of a training step


def sized(name: str, d_model: int, n_layers: int, length: int, plan: Plan) -> LanguageModel:
    """A model with the depth of ``n_layers`` layers of the baseline."""
    depth = n_layers * find_family(name)[1].default_layers // find_family("transformer")[1].default_layers
    heads = d_model // plan.d_head
    sizes = {"d_model": d_model, "n_layers": depth, "n_heads": heads, "max_seq_len": length}
    return build_model(name, vocab_size=plan.vocab_size, **sizes)


def fitting_width(name: str, parameters: int, n_layers: int, plan: Plan) -> int:
    """The multiple of the heads' channels whose model comes closest to so many parameters."""
    counts: dict[int, int] = {}
    with torch.device("meta"):
        while not counts or max(counts.values()) < parameters:
            d_model = (len(counts) + 1) * plan.d_head
            counts[d_model] = parameter_count(sized(name, d_model, n_layers, plan.step[1], plan))
    return min(counts, key=lambda d_model: abs(counts[d_model] - parameters))


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def training_step(model: nn.Module, network: nn.Module, tokens: Tensor, device: str) -> Callable[[], None]:
    """A whole step of ``model``, called as ``network``, which may be compiled."""
    optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=0.1), 1e-4)

    def step() -> None:
        with low_precision(device):
            loss = loss_of(network, tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def step_flops(name: str, d_model: int, n_layers: int, plan: Plan) -> int:
    """Floating-point operations of the products in forward and backward, which takes two for each of forward.

    Masked products count whole, as they are computed without a kernel that skips. Nothing is run.
    """
    B, T = plan.step
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        sized(name, d_model, n_layers, T, plan)(torch.zeros(B, T, dtype=torch.int64))
    return 3 * counter.get_total_flops()


def matmul_flops(plan: Plan) -> float:
    """Floating-point operations per second of a large bfloat16 product on this device: what is possible."""
    n = plan.matmul
    a, b = torch.randn(2, n, n, device=plan.device, dtype=torch.bfloat16)
    return 2 * n**3 / medians({"matmul": waited(lambda: a @ b, plan.device)}, plan.repeats)["matmul"]


def utilization(plan: Plan) -> Iterator[Row]:
    peak = matmul_flops(plan)
    yield {"matmul_flops_per_second": peak, "size": plan.matmul}
    B, T = plan.step
    tokens = torch.randint(plan.vocab_size, (B, T + 1), device=plan.device)
    for parameters, n_layers in plan.models:
        for name in plan.names:
            d_model = fitting_width(name, parameters, n_layers, plan)
            flops = step_flops(name, d_model, n_layers, plan)
            model = sized(name, d_model, n_layers, T, plan).to(plan.device)
            torch.compiler.reset()
            compiled = torch.compile(model, fullgraph=True, backend=plan.backend)
            for network in (model, compiled):
                step = waited(training_step(model, network, tokens, plan.device), plan.device)
                seconds = medians({"step": step}, plan.repeats, warm_up=3)["step"]
                yield {
                    "model": name,
                    "parameters": parameter_count(model),
                    "d_model": d_model,
                    "layers": n_layers,
                    "compiled": network is compiled,
                    "milliseconds": seconds * 1e3,
                    "tokens_per_second": B * T / seconds,
                    "flops_per_token": flops / (B * T),
                    "utilization": flops / seconds / peak,
                }


# Decoding


def decoding(plan: Plan) -> Iterator[Row]:
    parameters, n_layers = plan.models[0]
    for name in plan.names:
        d_model = fitting_width(name, parameters, n_layers, plan)
        model = sized(name, d_model, n_layers, sum(plan.decode) + WARM_UP, plan).to(plan.device, torch.bfloat16).eval()
        torch.compiler.reset()
        compiled = torch.compile(model, fullgraph=True, dynamic=False, backend=plan.backend)
        for network, static in ((model, False), (compiled, True)):
            yield {
                "model": name,
                "parameters": parameter_count(model),
                "cache": "static, compiled" if static else "growing",
                "batch": plan.decode[0],
                "tokens_per_second": tokens_per_second(model, network, static, plan),
            }


WARM_UP = 8  # tokens, in which each kind of step comes


@torch.no_grad()
def tokens_per_second(model: LanguageModel, network: nn.Module, static: bool, plan: Plan) -> float:
    """The likeliest tokens, one after the other, after a prompt and a few tokens of warm-up."""
    batch, prompt, new = plan.decode
    cache = StaticCache(batch, model.max_seq_len) if static else Cache(batch)
    token = torch.randint(plan.vocab_size, (batch, prompt), device=plan.device)
    token = model(token, cache)[:, -1:].argmax(-1)
    begin = 0.0
    for i in range(WARM_UP + new):
        if i == WARM_UP:
            wait(plan.device)
            begin = time.perf_counter()
        token = network(token, cache)[:, -1:].argmax(-1)
    wait(plan.device)
    return batch * new / (time.perf_counter() - begin)


# The study over size

SIZED: dict[str, tuple[str, dict[str, Any]]] = {
    "Baseline": ("transformer", {}),
    "Primer": ("primer", {}),
    "SwiGLU and convolutions": ("primer-ez", {"activation": "swiglu"}),
}


def size(plan: Plan) -> Iterator[Row]:
    """For each width, rates at a quarter of the steps, then two seeds of each budget, then the factors."""
    corpus = first_text(plan)
    yield {"text": corpus.name, "tokens": len(corpus.train), "subwords": len(corpus.vocabulary)}
    for width, steps in plan.widths:
        reads = steps * plan.sequences[0] * plan.sequences[1]
        if reads > len(corpus.train):
            yield {"width": width, "steps": steps, "not_run": f"{reads:,} tokens are more than {corpus.name} has"}
            continue
        losses: dict[str, dict[int, dict[int, float]]] = {name: {} for name in SIZED}
        seconds: dict[str, list[float]] = {name: [] for name in SIZED}
        for name in SIZED:
            tries: dict[float, float] = {}
            while rates := next_rates(budget(name, width, steps // 4, plan), tries):
                for rate in rates:
                    row = sized_run(name, width, steps // 4, rate, TUNING_SEED, corpus, plan)
                    tries[rate] = row["validation_loss"]
                    yield row
            best = min(tries, key=tries.__getitem__)
            for each in (steps,) if name == "Baseline" else (steps // 4, steps // 2, steps):
                for seed in SEEDS[:2]:
                    row = sized_run(name, width, each, best, seed, corpus, plan)
                    losses[name].setdefault(each, {})[seed] = row["test_loss"]
                    seconds[name].append(row["seconds"] / each)
                    yield row
            if name == "Baseline":
                continue
            found = factor(losses["Baseline"], losses[name])
            if found is None:
                yield {"width": width, "model": name, "factor": None, "why": "the baseline's loss lies beyond its runs"}
                continue
            ratio = min(seconds[name]) / min(seconds["Baseline"])
            low, high = found.interval()
            in_time = found.in_time(ratio).value
            yield {"width": width, "model": name, "factor": found.value, "low": low, "high": high, "in_time": in_time}


def first_text(plan: Plan) -> Corpus:
    """The first of the texts that can be had here."""
    for name in plan.texts[:-1]:
        try:
            return load_corpus(name, subwords=plan.subwords)
        except OSError as error:
            print(f"  {error}; {plan.texts[-1]} instead", flush=True)
    return load_corpus(plan.texts[-1], subwords=plan.subwords)


def budget(name: str, width: int, steps: int, plan: Plan) -> Entry:
    """A model at a width and a number of steps, as the protocol has it."""
    model, options = SIZED[name]
    batch_size, seq_len = plan.sequences
    options = {"d_model": width, "n_layers": 4, "max_seq_len": seq_len} | options
    rates = (5e-4, 1e-3, 2e-3)
    return Entry(
        name=name, model=model, steps=steps, options=options, seq_len=seq_len, batch_size=batch_size, rates=rates
    )


def sized_run(name: str, width: int, steps: int, rate: float, seed: int, corpus: Corpus, plan: Plan) -> Row:
    """Train and score one; the test text is read by seeds that choose no rate."""
    entry = budget(name, width, steps, plan)
    torch.manual_seed(seed)
    model = build_model(entry.model, vocab_size=len(corpus.vocabulary), **entry.options)
    metrics = Metrics()
    config = TrainingConfig(**entry.training, learning_rate=rate, seed=seed)
    row: Row = {"width": width, "model": name, "steps": steps, "rate": rate, "seed": seed}
    try:
        train(model, corpus, config, callback=metrics.append, show_progress=False)
    except FloatingPointError:
        if seed != TUNING_SEED:
            raise
        return row | {"validation_loss": math.inf}
    part, tokens = ("validation", corpus.validation) if seed == TUNING_SEED else ("test", held_out(corpus))
    found = score(model, tokens, seq_len=entry.seq_len, at_least=plan.blocks * BLOCK)
    return row | {"seconds": metrics[-1]["seconds"], f"{part}_loss": found.loss}


def held_out(corpus: Corpus) -> Tensor:
    """The test text."""
    assert corpus.test is not None, "texts of this study have one"
    return corpus.test


# The record


SECTIONS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "tests": tests,
    "layers": layers,
    "recipe": recipe,
    "utilization": utilization,
    "decoding": decoding,
    "size": size,
}


def machine(device: str) -> dict[str, Any]:
    """What the numbers depend on."""
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version()}
    return {"device": device, "name": name, **versions}


def write(file: Path, record: dict[str, Any]) -> None:
    """All or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, file)


def measure(names: list[str], plan: Plan, file: Path) -> bool:
    """Run sections, write their rows as they come; return whether all ended without an error.

    Sections that an earlier run recorded on the same machine stay, unless they are measured again.
    """
    record: dict[str, Any] = {
        "machine": machine(plan.device),
        "plan": json.loads(json.dumps(asdict(plan))),
        "sections": {},
    }
    if file.is_file():
        earlier = json.loads(file.read_text(encoding="utf-8"))
        if (earlier["machine"], earlier["plan"]) == (record["machine"], record["plan"]):
            record["sections"] = earlier["sections"]
    for name in names:
        section: dict[str, Any] = {"complete": False, "error": None, "seconds": 0.0, "rows": []}
        record["sections"][name] = section
        measure_section(name, plan, section, lambda: write(file, record))
    return all(record["sections"][name]["error"] is None for name in names)


def measure_section(name: str, plan: Plan, section: dict[str, Any], save: Callable[[], None]) -> None:
    """One section, until it ends, its time is over, or it fails, which the others are not to suffer from."""
    print(f"{name}: at most {plan.seconds[name]:.0f} seconds", flush=True)
    begin = time.monotonic()
    try:
        for row in SECTIONS[name](plan):
            section["rows"].append(row)
            section["seconds"] = time.monotonic() - begin
            save()
            print(f"  {section['seconds']:5.0f} s  {line(row)}", flush=True)
            if section["seconds"] > plan.seconds[name]:
                break
        else:
            section["complete"] = True
    except Exception as error:
        section["error"] = f"{type(error).__name__}: {error}"
        print(f"  failed: {section['error']}", flush=True)
    section["seconds"] = time.monotonic() - begin
    save()


def line(row: Row) -> str:
    """A row's numbers, without its lists."""
    shown = {key: value for key, value in row.items() if not isinstance(value, list | tuple)}
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="*", help=f"of {', '.join(SECTIONS)}; all, if none is given")
    chosen = parser.parse_args().section or list(SECTIONS)
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a GPU: PyTorch finds no CUDA here, so nothing was measured.")
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32
    torch.manual_seed(0)
    sys.exit(0 if measure(chosen, Plan(), RESULTS) else 1)


if __name__ == "__main__":
    main()
