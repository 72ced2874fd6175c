// The page What would it cost?: its fields, the table and the picture.
(() => {
"use strict";
const BASELINE = "transformer";
const NUMBER = /^-?\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,2})?$/; // a field complains of any other text, to the console
const COLUMNS = ["parameters", "multiply_adds", "activation_bytes", "cache_bytes"];
const SVG = "http://www.w3.org/2000/svg";
const counted = (n) => n.toLocaleString("en-US");

/** Three digits and a unit. */
function rounded(value, what) {
  const units = what.endsWith("bytes") ? ["B", "kB", "MB", "GB", "TB", "PB"] : ["", "k", "M", "G", "T", "P"];
  let short = Number(value.toPrecision(3)), power = 0;
  for (; short >= 1000 && power < units.length - 1; power++) short /= 1000;
  return `${power ? short.toPrecision(3) : short}${units[0] ? " " : ""}${units[power]}`;
}
const share = (ratio) => ratio < 10 ? ratio.toFixed(2) : counted(Math.round(ratio));

/** Places of words at least so far from each other, each group around the middle of where its words belong. */
function apart(places, least, bottom) {
  const order = [...places.keys()].sort((i, j) => places[i] - places[j]), groups = [];
  for (const i of order) {
    groups.push({ words: [i], first: places[i] }); // where its first word stands
    for (let [above, below] = groups.slice(-2); below && below.first < above.first + least * above.words.length; [above, below] = groups.slice(-2)) {
      const [n, m] = [above.words.length, below.words.length];
      groups.splice(-2, 2, { words: [...above.words, ...below.words], first: (n * above.first + m * (below.first - least * n)) / (n + m) });
    }
  }
  const moved = [...places];
  for (const { words, first } of groups) words.forEach((i, n) => { moved[i] = Math.min(first, bottom - least * (words.length - 1)) + least * n; });
  return moved;
}

class Page {
  constructor(root) {
    this.root = root;
    this.said = root.querySelector(".said");
    this.drawing = root.querySelector(".drawing");
    this.fields = Object.fromEntries([...root.querySelectorAll(".field input")].map((input) => [input.name, input]));
    this.rows = Object.fromEntries([...root.querySelectorAll("tr[data-model]")].map((row) => [row.dataset.model, row]));
    const cell = (what) => `<td data-what="${what}"><data></data> <small></small></td>`;
    for (const row of Object.values(this.rows)) row.insertAdjacentHTML("beforeend", COLUMNS.map(cell).join(""));
    this.titles = Object.fromEntries(Object.entries(this.rows).map(([name, row]) => [name, row.querySelector("label").textContent.trim()]));
    root.reset(); // a browser may have kept what was typed before
    this.first = new URLSearchParams(new FormData(root));
    root.addEventListener("input", () => this.change());
    for (const button of root.querySelectorAll("[data-start]")) {
      button.addEventListener("click", () => { // other sizes; the reader's model and picture stay
        const kept = [["model", this.chosen], ["shows", root.elements.shows.value]];
        this.open(new URLSearchParams([...new URLSearchParams(button.dataset.start), ...kept]));
        this.change();
      });
    }
    addEventListener("hashchange", () => this.open(location.hash.slice(1)));
    new ResizeObserver(() => this.draw()).observe(this.drawing);
    this.open(""); // where an address asks for what does not fit, these are the last that did
    this.open(location.hash.slice(1));
  }

  get chosen() { return this.root.elements.model.value; }

  /** Set what an address asks for, and the rest as at first. */
  open(text) {
    this.root.reset();
    for (const [name, value] of new URLSearchParams(text)) {
      if (!this.first.has(name)) continue;
      const field = this.root.elements[name];
      field.value = field.type !== "number" || NUMBER.test(value) ? value : "";
      if (field.selectedIndex === -1) field.value = this.first.get(name);
    }
    this.compute();
  }

  /** What a reader set is computed, and the address keeps it. */
  change() {
    this.compute();
    const changed = new URLSearchParams([...new FormData(this.root)].filter(([name, text]) => text !== this.first.get(name)));
    history.replaceState(null, "", changed.size ? `#${changed}` : location.pathname + location.search);
  }

  /** The sizes in the fields, where they fit; for a field that does not, a sentence. */
  compute() {
    const { hierarchy: stacks, ...numbers } = this.fields, size = {}, wrong = {}, hierarchy = stacks.value.trim();
    for (const [name, input] of Object.entries(numbers)) {
      const n = size[name] = input.valueAsNumber, most = Number(input.max);
      if (name === "F" && input.value === "" && !input.validity.badInput) continue;
      const is = input.value === "" ? "This is not a number" : `This is ${input.value}`;
      if (!Number.isInteger(n) || n < 1 || n > most) wrong[name] = `${is}; expected a whole number from 1 to ${counted(most)}.`;
    }
    const { D, H, F, L, V } = size;
    if (!wrong.D && !wrong.H) {
      if (D % H) wrong.D = `${counted(D)} channels do not divide among ${counted(H)} heads; expected a multiple of ${counted(H)}.`;
      else if (D / H % 2) wrong.H = `${counted(D)} channels among ${counted(H)} heads are ${counted(D / H)} each; expected an even number each, for rotary positions.`;
    }
    if (!wrong.F && F % 2 === 1) wrong.F = `This is ${F}; expected an even number, which gMLP’s gate splits.`;
    try {
      if (hierarchy) cost_model.parse_hierarchy(hierarchy);
    } catch (error) {
      wrong.hierarchy = error.message;
    }
    const sizes = { d_model: D, n_heads: H, n_layers: L, vocab_size: V, d_ff: F || 4 * D, hierarchy, resampling: this.root.elements.resampling.value };
    const bad = Object.keys(wrong).length > 0;
    for (const [name, input] of Object.entries(this.fields)) {
      this.root.querySelector(`#wrong-${name}`).textContent = wrong[name] ?? "";
      if (name in wrong) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    this.root.classList.toggle("stale", bad);
    if (bad) {
      this.said.textContent = "One of the sizes does not fit; below are the last that did.";
      return;
    }
    [this.T, this.at] = [size.T, sizes];
    this.fields.hierarchy.placeholder = cost_model.default_hierarchy(sizes.n_layers);
    const names = Object.keys(this.rows);
    this.costs = Object.fromEntries(names.map((name) => [name, cost_model(name, this.at, this.T)]));
    for (const name of names) {
      this.rows[name].classList.toggle("chosen", name === this.chosen);
      for (const cell of this.rows[name].querySelectorAll("td")) {
        const what = cell.dataset.what, value = this.costs[name][what], data = cell.querySelector("data");
        data.value = value;
        data.textContent = rounded(value, what);
        cell.querySelector("small").textContent = `× ${share(value / this.costs[BASELINE][what])}`;
      }
    }
    this.say();
    this.draw();
  }

  say() {
    const ours = this.costs[this.chosen], theirs = this.costs[BASELINE], layers = this.at.n_layers;
    const parts = this.chosen.includes("mlp") ? `${counted(2 * layers)} blocks`
      : this.chosen === "hourglass" ? this.at.hierarchy || cost_model.default_hierarchy(layers) : `${counted(layers)} ${layers === 1 ? "layer" : "layers"}`;
    const what = `${this.titles[this.chosen]} (${parts}) at ${counted(this.T)} tokens`;
    const [parameters, work, kept, cache] = COLUMNS.map((column) => share(ours[column] / theirs[column]));
    this.said.textContent = this.chosen === BASELINE
      ? `${what}: the baseline, which all others are compared with.`
      : `${what}: ${work} times the baseline’s multiply-adds, ${parameters} times its parameters, ${kept} times its memory in training, ${cache} times its cache.`;
  }

  /** One quantity of all models against the length, on logarithmic axes, drawn for the width that there is. */
  draw() {
    const width = this.drawing.clientWidth;
    if (!this.costs || !width) return;
    const what = this.root.elements.shows.value, height = 340, left = 52, right = width - 92, top = 12, bottom = height - 34;
    const first = Math.min(16, this.T), last = Math.max(65536, this.T), steps = 48;
    const lengths = Array.from({ length: steps + 1 }, (_, i) => Math.round(first * (last / first) ** (i / steps)));
    const lines = Object.keys(this.rows).map((name) => [name, lengths.map((T) => cost_model(name, this.at, T)[what])]);
    const values = lines.flatMap(([, line]) => line), low = Math.min(...values) / 1.3, high = Math.max(...values) * 1.3;
    const x = (T) => left + (right - left) * Math.log(T / first) / Math.log(last / first);
    const y = (value) => bottom - (bottom - top) * Math.log(value / low) / Math.log(high / low);
    const svg = document.createElementNS(SVG, "svg");
    const add = (tag, attributes, text = "") => {
      const element = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      element.textContent = text;
      svg.append(element);
    };
    const here = Object.entries(this.costs).map(([name, cost]) => `${this.titles[name]} ${rounded(cost[what], what)}`);
    const title = this.root.elements.shows.selectedOptions[0].text;
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, role: "img" })) svg.setAttribute(name, value);
    svg.setAttribute("aria-label", `${title} against the tokens, from ${counted(first)} to ${counted(last)}. At ${counted(this.T)}: ${here.join(", ")}.`);
    const wide = right - left > 320;
    for (let power = Math.ceil(Math.log2(first)); 2 ** power <= last; power += wide ? 2 : 4) {
      add("text", { x: x(2 ** power), y: bottom + 18, "text-anchor": "middle", class: "tick" }, counted(2 ** power));
    }
    const decades = [1, 2, 5].flatMap((digit) => Array.from({ length: 22 }, (_, power) => digit * 10 ** power)).filter((n) => n > low && n < high).sort((a, b) => a - b);
    const ticks = high / low > 1000 ? decades.filter((n) => Number.isInteger(Number(Math.log10(n).toFixed(9)))) : decades;
    const every = Math.ceil(ticks.length / 10); // where a cache grows by nine powers of ten, every other one is named
    for (const value of ticks.filter((_, i) => i % every === 0)) {
      add("path", { d: `M${left} ${y(value)}H${right}`, class: "grid" });
      add("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "tick" }, rounded(value, what).replace(/\.0+/, ""));
    }
    add("path", { d: `M${x(this.T)} ${top}V${bottom}`, class: "here" });
    const rank = (name) => name === this.chosen ? 2 : name === BASELINE ? 1 : 0;
    const kind = (name) => ["other", "baseline", "chosen"][rank(name)];
    const places = apart(lines.map(([, line]) => y(line.at(-1))), 15, bottom);
    const order = [...lines.keys()].sort((i, j) => rank(lines[i][0]) - rank(lines[j][0]));
    for (const i of order) {
      const [name, line] = lines[i];
      add("path", { d: `M${lengths.map((T, n) => `${x(T).toFixed(1)} ${y(line[n]).toFixed(1)}`).join("L")}`, class: `line ${kind(name)}` });
      add("circle", { cx: x(this.T), cy: y(this.costs[name][what]), r: rank(name) ? 5 : 3, class: `dot ${kind(name)}` });
      add("text", { x: right + 6, y: places[i] + 4, class: `name ${kind(name)}` }, this.titles[name]);
    }
    add("text", { x: (left + right) / 2, y: height - 2, "text-anchor": "middle", class: "tick" }, "tokens");
    svg.addEventListener("click", (event) => {
      const at = (event.clientX - svg.getBoundingClientRect().left - left) / (right - left);
      if (at < 0 || at > 1) return;
      this.fields.T.value = 2 ** Math.round(Math.log2(first * (last / first) ** at));
      this.change();
    });
    this.drawing.replaceChildren(svg);
  }
}

new Page(document.getElementById("what-would-it-cost-here"));
})();
