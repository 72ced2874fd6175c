/**
 * One token, all the way: the numbers of one character in a model, and of each number the sum that made it.
 *
 * What is notable:
 * - every number is what a module of models.js took or gave, told by its forward hooks; only scores are not kept there;
 * - a sum is { value, terms, scale, then }: value = then(scale · Σ terms), where a term is [what it is, its factors];
 * - what is drawn looks as tools/site/one_token.py draws it, so that nothing moves when the model arrives.
 */
(() => {
"use strict";
const { make, labelled, spoken, glyph, percent, fetch_shipped } = model_parts;
const { Cache, Vocabulary, build_model, bytes_of, gelu, read_safetensors, register_forward_hooks, relu, softmax, squared_relu } =
  efficient_transformers();
const MOST = 24;  // characters
const LEVELS = 6;  // shades of a cell, on each side of 0
const LARGEST = () => (narrow.matches ? 3 : 5);  // terms that a sum shows; the others are one more
const TOP = 5;  // characters that may come
const narrow = matchMedia("(max-width: 767px)");

const shown = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);
const product = (factors) => factors.reduce((y, x) => y * x, 1);
const array = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const dot = (x, y) => total(array(x.length, (c) => x[c] * y[c]));

/** A number as f(scale · Σ terms), in words too. */
function sum(terms, { scale = 1, scaled = "", then = (x) => x, named = "" } = {}) {
  return { terms, scaled, named, scale, value: then(scale * total(terms.map(([, ...factors]) => product(factors)))) };
}

// ---- what happened in a model

/** A model that ships, and what each of its modules took and gave when it read a text. */
class Traced {
  constructor({ config, vocabulary, weights }) {
    this.tensors = read_safetensors(bytes_of(weights));
    this.model = build_model(config, this.tensors);
    this.vocabulary = new Vocabulary(vocabulary);
    register_forward_hooks(this.model, (name, inputs, output) => this.calls.set(name, { inputs, output }));
  }
  get config() {
    return this.model.config;
  }
  /** All its layers: module, words, and the part of an hourglass that they are in. */
  get layers() {
    const { body } = this.model, parts = body.before ? ["before", "inside", "after"] : [""];
    return parts.flatMap((part) => (body[part]?.layers ?? body.layers).map((_, i) => (
      { stack: part ? `body.${part}` : "body", part, i })));
  }
  read(text) {
    Object.assign(this, { calls: new Map(), watched: new Map(), characters: [...text] });
    this.tokens = this.characters.flatMap((c) => this.vocabulary.encode(c));
    this.logits = this.model.forward(this.tokens, new Cache((layer, what, position, values) =>
      this.watched.set(`${layer.name} ${what} ${position}`, values.slice())));
  }
  row(x, i, width) {
    return x.subarray(i * width, (i + 1) * width);
  }
  /** Row i of what a module gave, or took, with this many channels. */
  gave(name, i, width) {
    return this.row(this.calls.get(name).output, i, width);
  }
  took(name, i, width, input = 0) {
    return this.row(this.calls.get(name).inputs[input], i, width);
  }
  weight(name) {
    return this.tensors.get(`${name}.weight`);
  }
}

// ---- its numbers, step by step

/** The steps of one token through one layer of a traced model: [step, the numbers that are shown there]. */
class Steps {
  constructor(traced, { place, layer, head }) {
    const { config } = traced, chosen = traced.layers[layer];
    Object.assign(this, { traced, place, head, steps: [], D: config.d_model, K: config.d_model / config.n_heads });
    this.part = chosen.part;
    this.factor = traced.model.body.shorten?.factor ?? 1;
    this.window = Math.floor(place / this.factor);  // the last one that the token may read
    this.i = this.part === "inside" ? this.window : place;  // its row in the layer
    this.embedding();
    if (config.name === "hourglass") this.waist();
    this.stream(chosen);
    if (config.name === "gmlp") this.gated_block(`${chosen.stack}.${chosen.i}`);
    else this.transformer_layer(`${chosen.stack}.${chosen.i}`);
    this.end();
  }
  /** Numbers that a step shows; `make_sum(i)` is how number i came about. */
  add(step, label, values, make_sum, more = {}) {
    this.steps.push({ step, label, values, make_sum, what: (i) => `${label}, channel ${i}`, ...more });
  }
  /** What stands at row s of the layer: a character, or the end of a window. */
  named(s) {
    if (this.part !== "inside") return glyph(this.traced.characters[s]);
    return array(this.factor, (i) => s * this.factor - this.factor + 1 + i).map((t) => this.character(t)).join("");
  }
  /** The same, with how far back it is. */
  placed(s) {
    return `“${this.named(s)}”, ${s === this.i ? "itself" : `${this.i - s} back`}`;
  }
  character(t) {
    return t < 0 ? "·" : glyph(this.traced.characters[t]);
  }
  /** A number of a Linear: its inputs times a row of its weights. */
  linear(name, i, more = {}) {
    const { data, shape: [, n] } = this.traced.weight(name), x = this.traced.took(name, i, n);
    return (c) => sum(array(n, (d) => [`channel ${d}`, x[d], data[c * n + d]]), more);
  }
  norm(step, name, i, label, more) {
    const weight = this.traced.weight(name).data, bias = this.traced.tensors.get(`${name}.bias`).data, n = weight.length;
    const x = this.traced.took(name, i, n), mean = total([...x]) / n;
    const deviation = Math.sqrt(total(array(n, (c) => (x[c] - mean) ** 2)) / n + 1e-5);
    this.add(step, label, this.traced.gave(name, i, n), (c) => sum([
      ["centered, scaled", x[c] - mean, 1 / deviation, weight[c]],
      ["shifted", bias[c]],
    ]), more);
  }
  /** One vector plus others: [words, vector] each. */
  added(step, label, values, parts) {
    this.add(step, label, values, (c) => sum(parts.map(([words, x]) => [words, x[c]])));
  }
  embedding() {
    const { traced, place, D } = this, values = traced.took("body", place, D), c = spoken(traced.characters[place]);
    this.add("embedding", "E", values, (i) => sum([[`learned for ${c}`, values[i]]]));
  }
  /** What enters the layer: what entered its stack, and what each layer before it added. */
  stream({ stack, i }) {
    const { traced, D } = this, parts = [[{
      "": "embedding", before: "embedding", inside: "the shortened vector", after: "what up-sampling gave",
    }[this.part], traced.took(`${stack}.0`, this.i, D)]];
    for (let l = 0; l < i; l++) {
      for (const [branch, words] of [["attention", "attention"], ["feed_forward", "feed-forward"], ["down", "gated branch"]]) {
        if (traced.calls.has(`${stack}.${l}.${branch}`)) {
          parts.push([`layer ${l + 1}, ${words}`, traced.gave(`${stack}.${l}.${branch}`, this.i, D)]);
        }
      }
    }
    this.added("stream", "x", traced.took(`${stack}.${i}`, this.i, D), parts);
  }
  transformer_layer(layer) {
    const { traced, i, D, K, head } = this, attention = `${layer}.attention`, first = head * K;
    const of_head = (x) => x.subarray(first, first + K), here = (make_sum) => (c) => make_sum(first + c);
    this.norm("norm", `${layer}.norm1`, i, "LN(x)");
    const names = ["query", "key", "value"], letters = ["q", "k", "v"];
    names.forEach((name, n) => this.add("project", letters[n], of_head(traced.gave(`${attention}.${name}`, i, D)),
      here(this.linear(`${attention}.${name}`, i))));
    const convolved = letters.map((z, n) => {
      const conv = `${attention}.conv_${z}`;
      if (!traced.calls.has(conv)) return traced.gave(`${attention}.${names[n]}`, i, D);
      const { data, shape: [heads, channels, W] } = traced.weight(conv), values = traced.gave(conv, i, D);
      this.add("convolve", `${z}, convolved`, of_head(values), here((c) => sum(array(Math.min(W, i + 1), (j) => [
        `${this.named(i - j)}${j ? `, ${j} back` : ""}`, data[(c % (heads * channels)) * W + j],
        traced.took(conv, i - j, D)[c],
      ]))));
      return values;
    });
    for (const n of [0, 1]) {
      const x = of_head(convolved[n]), turned = of_head(traced.took(`${attention}.attend`, i, D, n));
      this.add("turn", `${letters[n]}, turned`, turned, (c) => {
        const angle = i * 10000 ** (-(c - (c % 2)) / K), other = c % 2 ? c - 1 : c + 1;
        return sum([[`channel ${c} × cos ${shown(angle, 2)}`, x[c], Math.cos(angle)],
          [`channel ${other} × ${c % 2 ? "" : "−"}sin ${shown(angle, 2)}`, x[other], (c % 2 ? 1 : -1) * Math.sin(angle)]]);
      });
    }
    const q = of_head(traced.took(`${attention}.attend`, i, D, 0)), n = i + 1;
    const key = (s) => of_head(traced.took(`${attention}.attend`, s, D, 1));
    const scores = Float32Array.from(array(n, (s) => dot(q, key(s)) / Math.sqrt(K))), largest = Math.max(...scores);
    const bars = { bars: array(n, (s) => this.named(s)) };
    this.add("scores", "q · k ÷ √K", scores, (s) => sum(array(K, (c) => [`channel ${c}`, q[c], key(s)[c]]),
      { scale: 1 / Math.sqrt(K), scaled: `÷ √${K}` }), { ...bars, what: (s) => `Score for ${this.placed(s)}` });
    const all = total([...scores].map((x) => Math.exp(x - largest)));
    const weights = traced.watched.get(`${attention} attention ${i}`).slice(head * n, (head + 1) * n);
    this.add("weights", "a", weights, (s) => sum([
      ["exp(score − largest)", Math.exp(scores[s] - largest)],
    ], { scale: 1 / all, scaled: `÷ ${shown(all, 3)}, the sum of all ${n}` }),
    { ...bars, what: (s) => `Weight of ${this.placed(s)}` });
    this.add("head", "y", of_head(traced.took(`${attention}.output`, i, D)), (c) => sum(array(n, (s) => [
      this.named(s), weights[s], of_head(traced.took(`${attention}.attend`, s, D, 2))[c]])));
    const x = traced.took(layer, i, D), found = traced.gave(attention, i, D), h = traced.took(`${layer}.norm2`, i, D);
    this.add("attention", "Attention", found, this.linear(`${attention}.output`, i));
    this.added("residual", "h", h, [["x, the stream", x], ["what attention found", found]]);
    this.norm("second-norm", `${layer}.norm2`, i, "LN(h)");
    const feed_forward = `${layer}.feed_forward`, squared = traced.config.activation === "squared-relu";
    const then = squared ? squared_relu : relu, named = squared ? "ReLU, squared" : "ReLU";
    this.add("hidden", "hidden", traced.took(`${feed_forward}.down`, i, traced.config.d_ff),
      this.linear(`${feed_forward}.up`, i, { then, named }));
    const added = traced.gave(feed_forward, i, D);
    this.add("feed-forward", "FFN", added, this.linear(`${feed_forward}.down`, i));
    this.added("output", "y", traced.gave(layer, i, D), [["h", h], ["what the network found", added]]);
  }
  gated_block(block) {
    const { traced, i, D } = this, gate = `${block}.gate`, F = traced.config.d_ff, half = F / 2;
    this.norm("norm", `${block}.norm`, i, "LN(x)");
    const z = traced.took(gate, i, F), widened = this.linear(`${block}.up`, i, { then: gelu, named: "GELU" });
    this.add("halves", "Z₁", z.subarray(0, half), widened);
    this.add("halves", "Z₂", z.subarray(half), (c) => widened(half + c));
    this.norm("gate-norm", `${gate}.norm`, i, "LN(Z₂)");
    const row = traced.watched.get(`${gate} row ${i}`), f = traced.watched.get(`${gate} gate ${i}`);
    const distance = (s) => (s === i ? "for the character itself" : `for a distance of ${i - s}`);
    this.add("row", "W", row, (s) => sum([[`learned ${distance(s)}`, row[s]]]),
      { bars: array(i + 1, (s) => this.named(s)), what: (s) => `Weight of ${this.placed(s)}` });
    const bias = traced.tensors.get(`${gate}.bias`).data[i];
    this.add("gate", "f", f, (c) => sum([...array(i + 1, (s) => [this.named(s), row[s], traced.gave(`${gate}.norm`, s, half)[c]]),
      ["bias here", bias]]));
    this.add("gated", "Z₁ ⊙ f", traced.gave(gate, i, half), (c) => sum([["what passes × its gate", z[c], f[c]]]));
    const x = traced.took(block, i, D), found = traced.gave(`${block}.down`, i, D);
    this.add("down", "found", found, this.linear(`${block}.down`, i));
    this.added("output", "y", traced.gave(block, i, D), [["x, the stream", x], ["what the gated branch found", found]]);
  }
  /** The shortening and the way back of an hourglass. */
  waist() {
    const { traced, place, window, factor: k, D } = this, fell = Math.ceil(place / k);
    this.norm("long-norm", "body.norm_before", place, "LN(x)");
    const x = (t) => traced.took("body.shorten", t, D);
    this.add("shorten", "S(x)", traced.gave("body.shorten", window, D), (c) => sum(
      array(k, (i) => window * k - i).filter((t) => t >= 0).map((t) => [`${this.character(t)}, t = ${t}`, x(t)[c]]),
      { scale: 1 / k, scaled: `÷ ${k}` }), { groups: { window, fell } });
    this.norm("short-norm", "body.norm_inside", window, "x′");
    const short = traced.gave("body.norm_inside", window, D);
    this.added("up-sample", "U(x, x′)", traced.took("body.after", place, D),
      [["x, what entered the shortening", x(place)], [`x′ of window ${window}`, short]]);
  }
  end() {
    const { traced, place, D } = this, V = traced.model.vocab_size, characters = traced.vocabulary.characters;
    this.norm("last-norm", "norm", place, "LN(y)");
    const last = traced.gave("norm", place, D), embedding = traced.weight("embedding").data;
    const logits = traced.row(traced.logits, place, V), p = softmax(Float64Array.from(logits));
    const top = [...logits.keys()].sort((a, b) => logits[b] - logits[a]).slice(0, TOP);
    this.add("logits", "logits", Float32Array.from(top, (token) => logits[token]), (n) => sum(
      array(D, (c) => [`channel ${c}`, last[c], embedding[top[n] * D + c]])),
    { list: top.map((token) => [characters[token], p[token]]), what: (n) => `Logit of ${spoken(characters[top[n]])}` });
  }
}

// ---- how numbers look

/** Cells as strokes of a few shades: of each level the places, row after row. */
function strip(values, columns) {
  const most = Math.max(...values.map(Math.abs), 1e-9), places = {}, rows = Math.ceil(values.length / columns);
  values.forEach((x, i) => {
    const level = Math.round((LEVELS * Math.abs(x)) / most), name = `${x < 0 ? "minus" : "plus"} level-${level}`;
    if (level) (places[name] ??= []).push(`M${i % columns} ${Math.floor(i / columns) + 0.5}h1`);
  });
  const paths = Object.entries(places).map(([name, moves]) => `<path class="${name}" d="${moves.join("")}"/>`).join("");
  const svg = `<svg viewBox="0 0 ${columns} ${rows}" preserveAspectRatio="none" aria-hidden="true">${paths}</svg>`;
  const cells = make("div", { class: "token-cells", style: `--rows: ${rows}` });
  cells.innerHTML = svg;
  return cells;
}

/** Bars over characters, up and down from 0. */
function bars(values, labels) {
  const top = Math.max(0, ...values), low = Math.max(0, ...values.map((x) => -x)), most = Math.max(top + low, 1e-9);
  const element = make("div", { class: "token-bars", style: `--columns: ${values.length}; --up: ${top / most}; --down: ${low / most}` });
  const best = values.map(Math.abs).reduce((m, x) => Math.max(m, x), 0);
  element.append(...array(values.length, (i) => {
    const x = values[i], bar = make("i", { class: x < 0 ? "minus" : "plus", style: `--size: ${Math.abs(x) / most}` });
    const number = Math.abs(x) === best ? make("small", {}, shown(x, 2)) : "";
    return make("span", {}, make("span", { class: "token-bar" }, bar, number), make("b", {}, labels[i]));
  }));
  return element;
}

/** Characters that may come, with logit and probability. */
function list(values, entries) {
  return make("div", { class: "token-list" }, ...entries.map(([c, p], i) => make("div", {},
    make("b", {}, glyph(c)), make("span", {}, make("i", { style: `--size: ${p}` })),
    make("small", {}, `${shown(values[i], 2)} · ${percent(p)}`))));
}

/** The largest numbers, below their cells, as far as there is room. */
function largest(values, columns) {
  const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])), taken = [];
  for (const i of order.slice(0, 12)) {
    const at = ((i % columns) + 0.5) / columns;
    if (taken.length < 3 && values[i] && taken.every(([, other]) => Math.abs(at - other) > 0.16)) taken.push([i, at]);
  }
  return make("div", { class: "token-largest", "aria-hidden": "true" }, ...taken.map(([i, at]) =>
    make("small", { style: `left: ${(100 * Math.min(0.95, Math.max(0.05, at))).toFixed(1)}%` }, shown(values[i], 2))));
}

/** The characters in their windows: those that the token reads, and those that it falls into. */
function groups(characters, place, k, { window, fell }) {
  const spans = array(Math.ceil((characters.length - 1) / k) + 1, (j) => make("span",
    { class: `${j === window ? "reads" : ""} ${j === fell ? "fell" : ""}` }, ...array(k, (i) => j * k - k + 1 + i)
      .filter((t) => t < characters.length).map((t) => make("b", { class: t === place ? "here" : false }, t < 0 ? "0" : glyph(characters[t])))));
  const ends = fell * k < characters.length ? `complete at t = ${fell * k}` : "which this text does not complete";
  const said = window === fell ? `It falls into window ${fell} and completes it, so it reads it too.`
    : `It falls into window ${fell}, ${ends}. Until then it reads window ${window}.`;
  return make("div", { class: "token-groups" }, make("div", {}, ...spans), make("small", {}, `${said} The shift puts ${k - 1} zeros before the text.`));
}

/** Some numbers of a step: one stop of the Tab key, arrow keys within it; a pointer over a number chooses it. */
class Numbers {
  constructor(page, spec) {
    const { label, values, bars: labels, list: entries } = spec, n = values.length;
    Object.assign(this, { page, spec, at: 0 });
    this.columns = labels ? n : entries ? 1 : n <= 32 ? n : n % 128 ? n / (narrow.matches ? 6 : 2) : narrow.matches ? 64 : 128;
    this.rows = Math.ceil(n / this.columns);
    this.mark = make("i", { class: "token-mark", hidden: true });
    const drawn = labels ? bars(values, labels) : entries ? list(values, entries) : strip(values, this.columns);
    drawn.append(this.mark);
    this.element = make("div", { class: "token-numbers", role: "slider", tabindex: 0, "aria-label": `${spec.step}: ${label}`,
      "aria-valuemin": 0, "aria-valuemax": n - 1 }, drawn);
    this.drawn = drawn;
    const small = labels || entries ? [] : [largest(values, this.columns)];
    this.row = make("div", { class: "token-row" }, make("span", { class: "token-label" }, label),
      make("div", {}, this.element, ...small));
    this.element.addEventListener("pointermove", (event) => this.page.held || this.show(this.under(event)));
    this.element.addEventListener("pointerdown", (event) => {
      const i = this.under(event), again = this.page.held && this.page.shows === this && this.at === i;
      this.page.held = !again;
      this.show(i);
    });
    this.element.addEventListener("focus", () => { if (this.element.matches(":focus-visible")) this.show(this.at); });
    this.element.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: entries ? -1 : 1, ArrowLeft: -1, ArrowDown: entries ? 1 : -1, PageUp: 16, PageDown: -16,
        Home: -n, End: n }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.show(this.at + step);
    });
    this.say();
  }
  /** The place of the number under a pointer. */
  under({ clientX, clientY }) {
    const box = this.drawn.getBoundingClientRect(), part = (x, n) => Math.max(0, Math.min(n - 1, Math.floor(x * n)));
    return part((clientX - box.left) / box.width, this.columns) + this.columns * part((clientY - box.top) / box.height, this.rows);
  }
  say() {
    const value = `${this.spec.what(this.at)}: ${shown(this.spec.values[this.at], 3)}`;
    this.element.setAttribute("aria-valuenow", this.at);
    this.element.setAttribute("aria-valuetext", value);
  }
  show(i) {
    this.at = Math.max(0, Math.min(this.spec.values.length - 1, i));
    const percentage = (x) => `${100 * x}%`;
    Object.assign(this.mark.style, { left: percentage((this.at % this.columns) / this.columns), width: percentage(1 / this.columns),
      top: percentage(Math.floor(this.at / this.columns) / this.rows), height: percentage(1 / this.rows) });
    this.say();
    this.page.show_sum(this);
  }
  /** Where the number is largest. */
  get most() {
    const sizes = [...this.spec.values].map(Math.abs);
    return sizes.indexOf(Math.max(...sizes));
  }
}

// ---- the page

class TokenPage {
  constructor(root) {
    const given = root.querySelector(".token-controls"), asked = new URLSearchParams(location.hash.slice(1));
    const { weights, text, place, layer, head } = given.dataset;
    Object.assign(this, { root, weights, traced: {}, held: false, turn: Promise.resolve() });
    this.steps = [...root.querySelectorAll(".token-step")];
    this.layer_steps = root.querySelector(".token-layer");
    this.state = { place: Number(asked.get("t") ?? place), layer: Number(asked.get("layer") ?? layer), head: Number(asked.get("head") ?? head) };
    this.model = make("select", {}, given.querySelector("template").content.cloneNode(true));
    this.model.value = asked.get("model") ?? given.dataset.model;
    if (!this.model.value) this.model.value = given.dataset.model;
    this.text = make("input", { type: "text", maxlength: MOST, spellcheck: "false", autocomplete: "off" });
    this.text.value = (asked.get("text") ?? text).slice(0, MOST);
    this.layer = make("select", {});
    this.head = make("select", {});
    this.headed = labelled("Head", this.head);
    this.places = make("fieldset", { class: "token-places" });
    this.status = make("p", { class: "models-status", role: "status" });
    this.error = make("p", { class: "models-error", role: "alert" });
    this.starter = make("button", { type: "button", class: "models-button" }, "Load the model and touch its numbers");
    this.sum = root.querySelector(".token-sum");
    this.model.onchange = () => {
      this.state.layer = this.state.head = 0;
      this.act();
    };
    this.starter.onclick = () => this.act();
    this.text.oninput = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.act(), 300);
    };
    this.layer.onchange = () => this.choose("layer", this.layer.value);
    this.head.onchange = () => this.choose("head", this.head.value);
    this.places.onchange = ({ target }) => this.choose("place", target.value);
    this.model_controls = make("div", { class: "models-row" }, labelled("Model", this.model), labelled("Text", this.text),
      labelled("Layer", this.layer), this.headed);
    given.append(this.model_controls, this.places, make("div", { class: "models-row" }, this.starter, this.status), this.error);
    root.querySelector(".token-steps").addEventListener("click", () => { if (!this.walk_shown) this.act(); });
    document.addEventListener("keydown", ({ key }) => { if (key === "Escape") this.held = false; });
    narrow.addEventListener("change", () => { if (this.walk_shown) this.act(); });
    this.fill_menus([...given.dataset.layers.split(",")], Number(given.dataset.heads));
    this.show_places([...this.text.value]);
    if (asked.size) this.act();
  }
  fill_menus(layers, heads) {
    this.layer.replaceChildren(...layers.map((words, i) => new Option(words, i)));
    this.head.replaceChildren(...array(heads, (i) => new Option(`${i + 1} of ${heads}`, i)));
    [this.layer.value, this.head.value] = [this.state.layer, this.state.head];
  }
  choose(name, value) {
    this.state[name] = Number(value);
    this.act();
  }
  /** One after the other; what goes wrong is said. */
  act() {
    this.turn = this.turn.then(() => this.walk()).catch((error) => {
      const said = error.message.replace(/^(the|a|an) /, (word) => word[0].toUpperCase() + word.slice(1));
      this.error.textContent = /[.?!…]$/.test(said) ? said : `${said}.`;
      this.status.textContent = "";
    });
    return this.turn;
  }
  async walk() {
    const name = this.model.value, text = this.text.value, { state } = this;
    this.error.textContent = "";
    if (!this.traced[name]) {
      this.status.textContent = `Loading ${this.model.selectedOptions[0].text} …`;
      this.traced[name] = new Traced(await fetch_shipped(this.weights, name));
      this.status.textContent = "";
    }
    const traced = this.traced[name];
    traced.read(text);
    const layers = traced.layers, { n_heads } = traced.config;
    state.place = Math.min(state.place, traced.characters.length - 1);
    state.layer = Math.min(state.layer, layers.length - 1);
    state.head = Math.min(state.head, n_heads - 1);
    this.fill_menus(layers.map(({ part, i }, l) => `${l + 1} of ${layers.length}${part ? `, ${part}` : ""}`), n_heads);
    this.headed.hidden = name === "gmlp";
    this.starter.hidden = true;
    this.show_places(traced.characters);
    this.draw(traced, name);
    const { place: t, layer, head } = state;
    history.replaceState(null, "", `#${new URLSearchParams({ model: name, text, t, layer, head })}`);
  }
  /** The text as radio buttons: one stop of the Tab key, a character each. */
  show_places(characters) {
    const focused = this.places.contains(document.activeElement);
    this.places.replaceChildren(make("legend", {}, "Token"), ...characters.map((c, t) => make("label", {},
      make("input", { type: "radio", name: "token-place", value: t, checked: t === this.state.place, "aria-label": `${spoken(c)}, t = ${t}` }),
      make("span", { "aria-hidden": "true" }, glyph(c)))));
    if (focused) this.places.querySelector("input:checked").focus();
  }
  draw(traced, name) {
    const walk = new Steps(traced, this.state), before = { step: this.shows?.spec.step, label: this.shows?.spec.label, at: this.shows?.at };
    this.walk_shown = walk;
    this.shows = null;
    const anchor = { inside: "short-norm", after: "last-norm", before: "long-norm", "": "last-norm" }[walk.part];
    this.root.querySelector(`.step-${anchor}`).before(this.layer_steps);
    const all = [];
    for (const element of this.steps) {
      const mine = walk.steps.filter(({ step }) => element.classList.contains(`step-${step}`));
      const others = [...element.classList].filter((of) => of.startsWith("for-"));
      element.hidden = !mine.length || (others.length > 0 && !others.includes(`for-${name}`));
      element.classList.remove("token-other");
      element.querySelector(".token-shown")?.remove();
      if (element.hidden) continue;
      const rows = mine.map((spec) => new Numbers(this, spec));
      const extra = mine.filter((spec) => spec.groups).map((spec) =>
        groups(traced.characters, this.state.place, walk.factor, spec.groups));
      element.append(make("div", { class: "token-shown" }, ...extra, ...rows.map(({ row }) => row)));
      all.push(...rows);
    }
    const { window, factor: k } = walk, { n_layers } = traced.config;
    const on = walk.part === "inside" ? `, on windows of ${k}: these are the numbers of window ${window}, “${walk.named(window)}”` : "";
    this.layer_steps.querySelector("p").textContent = `Layer ${this.state.layer + 1} of ${n_layers}${on}`;
    const first = all.find(({ spec }) => spec.step === before.step && spec.label === before.label)
      ?? all.find(({ spec }) => ["project", "halves"].includes(spec.step));
    this.held = false;
    first.show(before.at !== undefined && before.at < first.spec.values.length ? before.at : first.most);
  }
  /** How a number came about. */
  show_sum(numbers) {
    if (this.shows && this.shows !== numbers) this.shows.mark.hidden = true;
    numbers.mark.hidden = false;
    this.shows = numbers;
    const { spec, at } = numbers, found = spec.make_sum(at), value = spec.values[at];
    const terms = found.terms.map(([words, ...factors]) => ({ words, factors, product: product(factors) }));
    const order = terms.length <= LARGEST() + 1 ? terms
      : [...terms].sort((a, b) => Math.abs(b.product) - Math.abs(a.product)).slice(0, LARGEST());
    const left = terms.filter((term) => !order.includes(term)), rest = total(left.map((term) => term.product));
    const most = Math.max(...order.map((term) => Math.abs(term.product)), Math.abs(rest), 1e-9);
    const line = (words, factors, x) => make("tr", {}, make("th", { scope: "row" }, words),
      make("td", {}, factors.length > 1 ? factors.map((y) => shown(y, 3)).join(" × ") : ""), make("td", {}, shown(x, 3)),
      make("td", { "aria-hidden": "true" }, make("i", { class: x < 0 ? "minus" : "plus", style: `--size: ${Math.abs(x) / most}` })));
    const plain = found.scaled === "" && found.named === "", all = total(terms.map((term) => term.product));
    const result = shown(value, 3), steps = [shown(all, 3), found.scaled, found.named ? `, then ${found.named}` : ""];
    this.sum.replaceChildren(
      make("p", { class: "token-sum-title", role: "status" }, `${spec.what(at)}: `, make("strong", {}, result)),
      make("table", {}, make("tbody", {}, ...order.map(({ words, factors, product: x }) => line(words, factors, x)),
        ...(left.length ? [line(`${left.length} others`, [], rest)] : []))),
      make("p", { class: "token-sum-total" }, plain ? `Together ${result}.` : `Together ${steps.filter(Boolean).join(" ").replace(" ,", ",")}: ${result}.`));
    this.found = found;  // for whoever wants to add it up
  }
}

document.querySelectorAll(".token-walk").forEach((root) => (root.app = new TokenPage(root)));
})();
