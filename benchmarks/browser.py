"""The book in Chromium: how long a chapter keeps its reader waiting; how large and fast the models that ship are.

python -m benchmarks.browser      on a quiet machine; Chromium throttles pages, not workers, so that the slowed runs
                                  are those of a page's own thread

Blocking time is what each task of a page's thread takes beyond 50 ms, on a processor four times as slow; time
is that of the thread, so that a busy machine adds less. `make book` makes the pages.
"""

import base64
import gzip
import json
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

from efficient_transformers import pretrained_names
from efficient_transformers.models import pretrained, saving
from tools.make import browser

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "book" / "static"
WRITE = """
async function write({ config, weights }) {
  const { Cache, build_model, read_safetensors } = efficient_transformers(), start = performance.now();
  const bytes = Uint8Array.from(atob(weights), (c) => c.charCodeAt(0)).buffer;
  const model = build_model(config, read_safetensors(bytes)), load = performance.now() - start, rates = [];
  for (let run = 0; run < 4; run++) {
    const cache = new Cache(() => {}), start = performance.now();
    for (let t = 0; t < model.max_seq_len; t++) model.forward([(t * 7) % model.vocab_size], cache);
    rates.push((1000 * model.max_seq_len) / (performance.now() - start));
  }
  return { load, cold: rates[0], best: Math.max(...rates) };
}
"""
IN_WORKER = """model => new Promise(resolve => {
  const text = `${efficient_transformers};${write};onmessage = async ({ data }) => postMessage(await write(data));`;
  const worker = new Worker(URL.createObjectURL(new Blob([text])));
  worker.onmessage = ({ data }) => resolve(data);
  worker.postMessage(model);
})"""
TRACED = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
SLOWER, LONG = 4, 50  # times; milliseconds


def blocking(chromium: Browser, address: str) -> float:
    """Milliseconds of blocking of one page in an empty browser of a desktop's size."""
    tab = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
    chromium.start_tracing(page=tab, categories=TRACED)
    tab.goto(address, wait_until="load")
    tab.wait_for_timeout(1500)
    events = json.loads(chromium.stop_tracing())["traceEvents"]
    page = next(e for e in events if e["name"] == "ParseHTML" and address in str(e["args"]))
    thread = page["pid"], page["tid"]  # each task is traced twice, by its own name and by the scheduler's
    tasks = [e for e in events if e["name"] == "ThreadControllerImpl::RunTask" and (e["pid"], e["tid"]) == thread]
    assert tasks, "this browser has another name for its tasks"
    tab.context.close()
    return sum(max(0, SLOWER * e.get("tdur", 0) / 1000 - LONG) for e in tasks)


def chapters(chromium: Browser) -> None:
    site = ROOT / "_build" / "html"
    with browser.served(site, browser.CompressingHandler) as home:
        for page in sorted(site.glob("notebooks/0*.html")):
            found = median(blocking(chromium, f"{home}/notebooks/{page.name}") for _ in range(3))
            print(f"{page.stem}: blocked for {found:.0f} ms", flush=True)


def main() -> None:
    for scripts in (("models.js",), ("models.js", "model-worker.js"), ("model-parts.js", "model-page.js")):
        size = len(gzip.compress(b"".join((STATIC / name).read_bytes() for name in scripts)))
        print(f"{' and '.join(scripts)}: {size / 1000:.1f} kB compressed")
    with sync_playwright() as playwright:
        chromium = browser.launch(playwright)
        chapters(chromium)
        for name in pretrained_names():
            folder = pretrained.SHIPPED / name
            weights = (folder / saving.WEIGHTS).read_bytes()
            config = json.loads((folder / saving.CONFIG).read_bytes())
            model = {"config": config, "weights": base64.b64encode(weights).decode()}
            travels = gzip.compress(model["weights"].encode())
            print(f"{name}: {len(weights) / 1e6:.2f} MB, {len(travels) / 1e6:.2f} as it travels")
            for where, slower in (("worker", 1), ("page", 1), ("page", 6)):
                tab = chromium.new_page()
                tab.add_script_tag(path=STATIC / "models.js")
                tab.add_script_tag(content=WRITE)
                tab.context.new_cdp_session(tab).send("Emulation.setCPUThrottlingRate", {"rate": slower})
                found = tab.evaluate(IN_WORKER if where == "worker" else "write", model)
                rates = f"{found['cold']:5.0f} tokens/s at first, {found['best']:5.0f} at best"
                print(f"  {where}, {slower}x: loaded in {found['load']:4.0f} ms, {rates}", flush=True)
                tab.close()
        chromium.close()


if __name__ == "__main__":
    main()
