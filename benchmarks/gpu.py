"""What a GPU makes of the package, in at most 30 minutes: tests, notebooks, layers and training steps.

python benchmarks/gpu.py [SECTION ...]

Each section writes rows to benchmarks/results/gpu.json as it measures them, so that a run that is cut off keeps what
it had; a section whose time is over stops after its row and says that it is not complete. Sections:

- tests runs those of tests/ that run on any device, on this one, and names those that fail;
- notebooks executes all of notebooks/, whose models train on the GPU, and names the cells that fail: an output that
  is compared, and has other numbers on a GPU, is among them;
- layers times forward and backward of each layer beside its plain form, and beside the same layers of labml and
  PyTorch, in float32 and under bfloat16 autocast. Where two are the same function, their outputs must agree;
- step times a whole training step, from the forward pass to AdamW, of four models beside nanoGPT, compiled and not,
  under bfloat16 autocast, in the sizes of nanoGPT's recipe for Tiny Shakespeare, without dropout. The environment
  variable NANOGPT names a checkout of nanoGPT; without it ours are timed alone.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import peers
import torch
import torch.nn.functional as F
from plain import pairs
from timing import medians
from torch import Tensor, nn

from efficient_transformers import build_model
from efficient_transformers.layers.family import parameter_count
from efficient_transformers.models.language_model import find_family
from efficient_transformers.support.files import write_text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "gpu.json"
SECONDS = {"tests": 240, "notebooks": 900, "layers": 180, "step": 300}  # at most, with room for each one's last row
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured."""

    device: str = "cuda"
    seconds: dict[str, float] = field(default_factory=lambda: dict(SECONDS))
    backend: str = "inductor"
    repeats: int = 20
    tests: tuple[str, ...] = ("tests/package/test_devices.py", "tests/package/test_compilation.py")
    processes: int = min(os.cpu_count() or 1, 8)
    layer: tuple[int, int, int, int] = (8, 1024, 768, 12)  # batch, length, channels and heads
    models: tuple[str, ...] = ("transformer", "primer-ez", "hourglass", "gmlp")
    step: tuple[int, int] = (64, 256)  # batch and length
    size: tuple[int, int, int] = (6, 6, 384)  # layers, heads and channels
    vocab_size: int = 65


def tests(plan: Plan) -> Iterator[Row]:
    yield pytest_row(["-k", plan.device, *plan.tests], plan.seconds["tests"])


def notebooks(plan: Plan) -> Iterator[Row]:
    together = ["-n", str(plan.processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    yield pytest_row(["--nbval", *together, "notebooks"], plan.seconds["notebooks"])


def pytest_row(arguments: list[str], seconds: float) -> Row:
    """What pytest, in a process of its own, counts and calls failed."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        try:
            subprocess.run(command, cwd=ROOT, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return {"finished": False, "seconds": time.monotonic() - begin}
        (suite,) = ElementTree.parse(report).getroot()
    bad = [case for case in suite if case.find("failure") is not None or case.find("error") is not None]
    counts = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    failed = [f"{case.get('classname')}::{case.get('name')}" for case in bad]
    return {**counts, "finished": True, "failed": failed, "seconds": time.monotonic() - begin}


def layers(plan: Plan) -> Iterator[Row]:
    B, T, D, H = plan.layer
    for name, (ours, plain, lengths) in pairs(D, H, T).items():
        inputs = [torch.randn(B, n, D, device=plan.device, requires_grad=True) for n in lengths]
        yield from beside(name, {"ours": ours, "plain": plain}, inputs, True, plan)
    try:
        made = peers.layers(T)
    except ModuleNotFoundError as error:
        yield {"peers": f"not installed, `make gpu` does that: {error}"}
        return
    x = torch.randn(B, T, peers.D, device=plan.device, requires_grad=True)
    for name, modules in made.items():
        chosen = {who: module for who, module in modules.items() if who in ("ours", "labml", "torch")}
        yield from beside(name, chosen, [x], name != "Hourglass", plan)  # theirs end their sequences in another way


def beside(name: str, modules: dict[str, nn.Module], inputs: list[Tensor], same: bool, plan: Plan) -> Iterator[Row]:
    """Our module, which comes first, in turn with others."""
    for low in (False, True):
        calls = {who: partial(layer_step, m.to(plan.device), inputs, plan.device, low) for who, m in modules.items()}
        outputs = {who: call() for who, call in calls.items()}
        took = medians(calls, plan.repeats)
        for who in list(modules)[1:]:
            off = ((outputs["ours"] - outputs[who]).abs().max() / outputs[who].abs().max()).item()
            assert not same or off < (0.05 if low else 1e-4), f"{name} differs from its {who} form by {off}"
            row: Row = {"layer": name, "beside": who, "precision": "bfloat16 autocast" if low else "float32"}
            row |= {"milliseconds": took["ours"] * 1e3, "their_milliseconds": took[who] * 1e3}
            yield row | {"ratio": took["ours"] / took[who], "difference": off if same else None}


def layer_step(module: nn.Module, inputs: list[Tensor], device: str, low: bool) -> Tensor:
    """Forward and backward."""
    module.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16, enabled=low):
        y = module(*inputs)
    y.float().sum().backward()
    return y.detach().float()


def step(plan: Plan) -> Iterator[Row]:
    """All models in turn as they are, then all in turn compiled."""
    models = {name: build(name, plan) for name in plan.models}
    if "NANOGPT" in os.environ:
        sys.path.append(os.environ["NANOGPT"])
        models["nanoGPT"] = build("nanoGPT", plan)
    else:
        yield {"nanoGPT": "not measured: the environment variable NANOGPT names no checkout of it"}
    x, y = torch.randint(plan.vocab_size, (2, *plan.step), device=plan.device)
    for compiled in (False, True):
        torch.compiler.reset()
        steps = {}
        for name, model in models.items():
            network = torch.compile(model, backend=plan.backend, dynamic=False) if compiled else model
            optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
            steps[name] = partial(training_step, network, optimizer, x, y, name == "nanoGPT")
        took = medians(steps, plan.repeats, warm_up=3)
        for name, seconds in took.items():
            row: Row = {"model": name, "parameters": parameter_count(models[name]), "compiled": compiled}
            row |= {"milliseconds": seconds * 1e3, "tokens_per_second": x.numel() / seconds}
            yield row | {"ratio_to_nanoGPT": seconds / took["nanoGPT"] if "nanoGPT" in took else None}


def build(name: str, plan: Plan) -> nn.Module:
    """nanoGPT or one of ours, with two blocks for each layer where its family has that many."""
    n_layers, n_heads, d_model = plan.size
    if name == "nanoGPT":
        from model import GPT, GPTConfig

        sizes = {"n_layer": n_layers, "n_head": n_heads, "n_embd": d_model, "block_size": plan.step[1]}
        return GPT(GPTConfig(vocab_size=plan.vocab_size, dropout=0.0, bias=False, **sizes)).to(plan.device)
    depth = n_layers * find_family(name)[1].default_layers // find_family("transformer")[1].default_layers
    sizes = {"n_layers": depth, "n_heads": n_heads, "d_model": d_model, "max_seq_len": plan.step[1]}
    return build_model(name, vocab_size=plan.vocab_size, **sizes).to(plan.device)


def training_step(network: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, theirs: bool) -> None:
    """nanoGPT computes the loss in its own call, so that where it is compiled, its loss is too."""
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        loss = network(x, y)[1] if theirs else F.cross_entropy(network(x).flatten(0, 1), y.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


SECTIONS = {"tests": tests, "notebooks": notebooks, "layers": layers, "step": step}


def measure(names: list[str], plan: Plan, file: Path) -> bool:
    """Run sections, write their rows as they come; return whether all ended without an error.

    Sections that an earlier run recorded on the same machine stay, unless they are measured again.
    """
    processor = torch.cuda.get_device_name() if plan.device == "cuda" else platform.processor() or platform.machine()
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    machine = {"device": plan.device, "name": processor, **versions}
    record = {"machine": machine, "plan": json.loads(json.dumps(asdict(plan))), "sections": {}}
    if file.is_file():
        earlier = json.loads(file.read_text(encoding="utf-8"))
        if (earlier["machine"], earlier["plan"]) == (record["machine"], record["plan"]):
            record = earlier
    for name in names:
        section = record["sections"][name] = {"complete": False, "error": None, "seconds": 0.0, "rows": []}
        print(f"{name}: at most {plan.seconds[name]:.0f} seconds", flush=True)
        begin = time.monotonic()
        for said in progress(name, plan, section):
            section["seconds"] = time.monotonic() - begin
            write_text(file, json.dumps(record, indent=2) + "\n")
            print(f"  {section['seconds']:5.0f} s  {said}", flush=True)
            if section["seconds"] > plan.seconds[name]:
                break
    return all(record["sections"][name]["error"] is None for name in names)


def progress(name: str, plan: Plan, section: Row) -> Iterator[object]:
    """Each row of a section, and how it ended; the other sections are not to suffer from one that fails."""
    try:
        for row in SECTIONS[name](plan):
            section["rows"].append(row)
            yield row
        section["complete"] = True
    except Exception as error:
        section["error"] = f"{type(error).__name__}: {error}"
    yield "complete" if section["complete"] else f"failed: {section['error']}"


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
