/**
 * One token, all the way: what stands on the page, and what answers to a pointer, a finger and keys. The numbers are
 * those of token-steps.js; the first ones, those that tools/site/one_token.py recorded.
 */
(() => {
"use strict";
const { make, labelled, spoken, glyph, percent, as_sentence, fetch_shipped } = model_parts;
const { Steps, Traced, array, largest_size, product, shown, total } = token_steps;
const MOST = 24;  // characters
const SHADES = [0, 0.14, 0.3, 0.48, 0.66, 0.84, 1];  // of a cell, on each side of 0
const LARGEST = 4;  // terms that a sum shows; the others are one more
const narrow = matchMedia("(max-width: 767px)");
const sign = (x) => (x < 0 ? "minus" : "plus");

// ---- how numbers look

/** Cells as strokes of a few shades, row after row. */
function cells(values, columns) {
  const most = Math.max(largest_size(values), 1e-9), rows = Math.ceil(values.length / columns), moves = {};
  values.forEach((x, i) => {
    const shade = SHADES[Math.round(((SHADES.length - 1) * Math.abs(x)) / most)], look = `class="${sign(x)}" stroke-opacity="${shade}"`;
    if (shade) moves[look] = `${moves[look] ?? ""}M${i % columns} ${Math.floor(i / columns) + 0.5}h1`;
  });
  const paths = Object.entries(moves).map(([look, d]) => `<path ${look} d="${d}"/>`).join("");
  const element = make("div", { class: "token-cells", style: `--rows: ${rows}` });
  element.innerHTML =
    `<svg viewBox="0 0 ${columns} ${rows}" preserveAspectRatio="none" aria-hidden="true">${paths}</svg>`;
  return element;
}

/** How many cells stand in a row. */
function columns_for(n) {
  if (n <= 32) return n;
  if (n % 128 === 0) return narrow.matches ? 64 : 128;
  return n / (narrow.matches ? 6 : 2);  // the half of a gate
}

/** The largest numbers, below their cells, as far as there is room. */
function largest(values, columns) {
  const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 12), taken = [];
  for (const i of order) {
    const at = ((i % columns) + 0.5) / columns;
    if (taken.length < 3 && values[i] && taken.every((other) => Math.abs(at - other.at) > 0.16)) taken.push({ i, at });
  }
  return make("div", { class: "token-largest", "aria-hidden": "true" }, ...taken.map(({ i, at }) => make("small",
    { style: `left: ${(100 * Math.min(0.95, Math.max(0.05, at))).toFixed(1)}%` }, shown(values[i], 2))));
}

/** Bars over characters, up and down from 0. */
function bars(values, labels) {
  const up = Math.max(0, ...values), down = Math.max(0, ...values.map((x) => -x)), best = largest_size(values);
  const most = Math.max(up + down, 1e-9), sizes = `--up: ${up / most}; --down: ${down / most}`;
  return make("div", { class: "token-bars", style: `--columns: ${values.length}; ${sizes}` },
    ...array(values.length, (i) => {
      const bar = make("i", { class: sign(values[i]), style: `--size: ${Math.abs(values[i]) / most}` });
      const number = Math.abs(values[i]) === best ? [make("small", {}, shown(values[i], 2))] : [];
      return make("span", {}, make("span", { class: "token-bar" }, bar, ...number), make("b", {}, labels[i]));
    }));
}

/** Characters that may come, with logit and probability. */
function list(values, entries) {
  return make("div", { class: "token-list" }, ...entries.map(([c, p], i) => make("div", {},
    make("b", {}, glyph(c)), make("span", {}, make("i", { style: `--size: ${p}` })),
    make("small", {}, `${shown(values[i], 2)} · ${percent(p)}`))));
}

/** The characters in their windows: the one that the token reads, and the one that it falls into. */
function windows(walk) {
  const { traced: { characters }, factor: k, window, place } = walk;
  const fell = Math.ceil(place / k), n = Math.ceil((characters.length - 1) / k) + 1;
  const boxes = array(n, (j) => make("span", { class: `${j === window ? "reads" : ""} ${j === fell ? "fell" : ""}` },
    ...walk.tokens_of(j).filter((t) => t < characters.length).map((t) =>
      make("b", { class: t === place ? "here" : false }, t < 0 ? "0" : glyph(characters[t])))));
  const end = fell * k < characters.length ? `complete at t = ${fell * k}` : "which this text does not complete";
  const said = window === fell ? `It completes window ${fell}, and reads it.`
    : `It falls into window ${fell}, ${end}. Until then it reads window ${window}, which is tinted.`;
  return make("div", { class: "token-groups" }, make("div", {}, ...boxes),
    make("small", {}, `${said} The shift puts ${k - 1} zeros before the text.`));
}

/** Some numbers of a step: one stop of the Tab key, arrow keys within it; a pointer over a number chooses it. */
class Numbers {
  constructor(page, step, spec) {
    const { label, values, bars: labels, list: entries } = spec, n = values.length;
    Object.assign(this, { page, spec, at: 0, columns: labels ? n : entries ? 1 : columns_for(n) });
    this.rows = Math.ceil(n / this.columns);
    this.mark = make("i", { class: "token-mark", hidden: true });
    this.drawn = labels ? bars(values, labels) : entries ? list(values, entries) : cells(values, this.columns);
    this.drawn.append(this.mark);
    const slider = page.walked && { role: "slider", tabindex: 0, "aria-label": `${step}: ${label}`, "aria-valuemin": 0,
      "aria-valuemax": n - 1, "aria-orientation": entries ? "vertical" : "horizontal" };
    this.element = make("div", { class: "token-numbers", ...slider }, this.drawn);
    this.row = make("div", { class: "token-row" }, make("span", { class: "token-label" }, label),
      make("div", {}, this.element, ...(labels || entries ? [] : [largest(values, this.columns)])));
    if (!page.walked) return;
    const { element } = this, down = entries ? 1 : -1;  // a list counts from its top
    this.say();
    const far = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: down, ArrowUp: -down, PageUp: 16, PageDown: -16,
      Home: -Infinity, End: Infinity };
    element.addEventListener("pointermove", (event) => page.held || this.choose(this.under(event)));
    element.addEventListener("pointerdown", (event) => {
      const i = this.under(event);
      page.held = !(page.held && page.shows === this && this.at === i);  // a second press lets go
      this.choose(i);
    });
    element.addEventListener("focus", () => {
      if (element.matches(":focus-visible")) this.choose(this.at);
    });
    element.addEventListener("keydown", (event) => {
      if (!(event.key in far)) return;
      event.preventDefault();
      this.choose(this.at + far[event.key]);
    });
  }
  /** The place of the number under a pointer. */
  under({ clientX, clientY }) {
    const box = this.drawn.getBoundingClientRect();
    const part = (share, n) => Math.max(0, Math.min(n - 1, Math.floor(share * n)));
    return part((clientX - box.left) / box.width, this.columns)
      + this.columns * part((clientY - box.top) / box.height, this.rows);
  }
  say() {
    this.element.setAttribute("aria-valuenow", this.at);
    this.element.setAttribute("aria-valuetext", `${this.spec.what(this.at)}: ${shown(this.spec.values[this.at], 3)}`);
  }
  /** A reader's choice; from the first one on, the sum stays in sight. */
  choose(i) {
    this.page.root.classList.add("touched");
    this.show(i);
  }
  show(i) {
    this.at = Math.max(0, Math.min(this.spec.values.length - 1, i));
    const column = this.at % this.columns, row = Math.floor(this.at / this.columns);
    const share = (x, n) => `${(100 * x) / n}%`;
    Object.assign(this.mark.style, { left: share(column, this.columns), width: share(1, this.columns),
      top: share(row, this.rows), height: share(1, this.rows) });
    if (this.page.walked) this.say();
    this.page.show_sum(this);
  }
}

// ---- the page

class TokenPage {
  constructor(root) {
    const controls = root.querySelector(".token-controls"), { dataset } = controls;
    const asked = new URLSearchParams(location.hash.slice(1)), of = (name) => asked.get(name) ?? dataset[name];
    Object.assign(this, { root, weights: dataset.weights, traced: {}, held: false, turn: Promise.resolve() });
    this.state = { place: Number(of("place")), layer: Number(of("layer")), head: Number(of("head")) };
    this.steps = [...root.querySelectorAll(".token-step")];
    this.sum = root.querySelector(".token-sum");
    const choose = (name) => ({ target }) => {
      this.state[name] = Number(target.value);
      this.act();
    };
    const changed = () => {
      Object.assign(this.state, { layer: 0, head: 0 });
      this.act();
    };
    this.model = make("select", { onchange: changed }, controls.querySelector("template").content.cloneNode(true));
    this.model.value = of("model");
    if (!this.model.value) this.model.value = dataset.model;
    this.text = make("input", { type: "text", maxlength: MOST, spellcheck: "false", autocomplete: "off" });
    this.text.oninput = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.act(), 300);
    };
    this.text.value = of("text").slice(0, MOST);
    this.layer = make("select", { onchange: choose("layer") });
    this.head = make("select", { onchange: choose("head") });
    this.places = make("fieldset", { class: "token-places", onchange: choose("place") });
    this.starter = make("button", { type: "button", class: "models-button", onclick: () => this.act() },
      "Load the model and touch its numbers");
    this.status = make("p", { class: "models-status", role: "status" });
    this.error = make("p", { class: "models-error", role: "alert" });
    controls.append(
      make("div", { class: "models-row" }, labelled("Model", this.model), labelled("Text", this.text),
        labelled("Layer", this.layer), labelled("Head", this.head)),
      this.places, make("div", { class: "models-row" }, this.starter, this.status), this.error);
    this.fill_menus(dataset.layers.split(","), Number(dataset.heads));
    this.show_places([...this.text.value]);
    this.draw_recorded(JSON.parse(dataset.recorded));
    root.querySelector(".token-steps").addEventListener("click", () => {
      if (!this.walked) this.act();
    });
    document.addEventListener("keydown", ({ key }) => {
      if (key === "Escape") this.held = false;
    });
    if (asked.has("model")) this.act();
  }
  fill_menus(layers, heads) {
    this.layer.replaceChildren(...layers.map((words, i) => new Option(words, i)));
    this.head.replaceChildren(...array(heads, (i) => new Option(`${i + 1} of ${heads}`, i)));
    [this.layer.value, this.head.value] = [this.state.layer, this.state.head];
  }
  /** The text as radio buttons, which are one stop of the Tab key. */
  show_places(characters) {
    const focused = this.places.contains(document.activeElement);
    this.places.replaceChildren(make("legend", {}, "Token"), ...characters.map((c, t) => make("label", {},
      make("input", { type: "radio", name: "token-place", value: t, checked: t === this.state.place,
        "aria-label": `${spoken(c)}, t = ${t}` }),
      make("span", { "aria-hidden": "true" }, glyph(c)))));
    if (focused) this.places.querySelector("input:checked").focus();
  }
  /** One walk after the other; what goes wrong is said. */
  act() {
    this.error.textContent = "";
    this.turn = this.turn.then(() => this.walk()).catch((error) => {
      this.error.textContent = as_sentence(error.message);
      this.status.textContent = "";
    });
    return this.turn;
  }
  async walk() {
    const name = this.model.value, text = this.text.value, { state } = this;
    if (!this.traced[name]) {
      this.status.textContent = `Loading ${this.model.selectedOptions[0].text} …`;
      this.traced[name] = new Traced(await fetch_shipped(this.weights, name));
    }
    const traced = this.traced[name], { layers, model: { config: { n_heads } } } = traced;
    traced.read(text);
    const within = (i, n) => (Number.isInteger(i) && i >= 0 && i < n ? i : n - 1);  // an address may ask for anything
    state.place = within(state.place, traced.characters.length);
    state.layer = within(state.layer, layers.length);
    state.head = within(state.head, n_heads);
    this.fill_menus(layers.map(({ part }, l) => `${l + 1} of ${layers.length}${part && `, ${part}`}`), n_heads);
    this.head.parentElement.hidden = name === "gmlp";
    this.starter.hidden = true;
    this.status.textContent = "Touch a number, or move from one to the next with the arrow keys.";
    this.show_places(traced.characters);
    this.draw(new Steps(traced, state));
    history.replaceState(null, "", `#${new URLSearchParams({ model: name, text, ...state })}`);
  }
  /** The numbers of the first setting, until a model is loaded. */
  draw_recorded({ steps, factors }) {
    const terms = factors.map(([x, weight], i) => [`channel ${i}`, x, weight]), { length: n } = terms;
    const how = `${n} products: each channel of the input × a learned weight`;
    const of_query = { what: (i) => `q, channel ${i}`, make_sum: () => ({ how, terms, scaled: "", named: "" }) };
    this.fill(steps.map((spec) => ({ ...spec, bars: spec.bars?.map(glyph), ...of_query })));
  }
  draw(walk) {
    const layer = this.root.querySelector(".token-layer");
    this.walked = walk;
    const next = { "": "last-norm", before: "long-norm", inside: "short-norm", after: "last-norm" }[walk.part];
    this.root.querySelector(`.step-${next}`).before(layer);
    const on = `, on windows of ${walk.factor}: these are the numbers of window ${walk.i}, “${walk.named(walk.i)}”`;
    layer.querySelector("p").textContent =
      `Layer ${this.state.layer + 1} of ${walk.traced.layers.length}${walk.part === "inside" ? on : ""}`;
    this.fill(walk.steps);
    this.root.querySelector(".step-shorten .token-shown")?.prepend(windows(walk));
  }
  /** Each step with its numbers; a step without any is another model's. */
  fill(specs) {
    const before = this.shows, all = [];
    Object.assign(this, { shows: null, held: false });
    for (const element of this.steps) {
      const { classList } = element, mine = specs.filter(({ step }) => classList.contains(`step-${step}`));
      classList.toggle("token-other", mine.length === 0);
      element.querySelector(".token-shown")?.remove();
      if (mine.length === 0) continue;
      const rows = mine.map((spec) => new Numbers(this, element.querySelector("p").textContent, spec));
      element.append(make("div", { class: "token-shown" }, ...rows.map(({ row }) => row)));
      all.push(...rows);
    }
    const is_as_before = ({ spec }) => spec.step === before.spec.step && spec.label === before.spec.label;
    const same = before && all.find(is_as_before);
    const first = same ?? all.find(({ spec }) => ["project", "halves"].includes(spec.step));
    const { values } = first.spec;
    first.show(same ? before.at : values.findIndex((x) => Math.abs(x) === largest_size(values)));
  }
  /** How a number came about. */
  show_sum(numbers) {
    if (this.shows) this.shows.mark.hidden = true;
    numbers.mark.hidden = false;
    this.shows = numbers;
    const { spec, at } = numbers, { how, terms, scaled, named } = spec.make_sum(at);
    const found = terms.map(([words, ...factors]) => ({ words, factors, x: product(factors) }));
    const order = [...found].sort((a, b) => Math.abs(b.x) - Math.abs(a.x));
    const top = found.length <= LARGEST + 1 ? found : order.slice(0, LARGEST), others = order.slice(top.length);
    const most = Math.max(largest_size(top.map(({ x }) => x)), 1e-9);
    const line = (words, factors, x, ...bar) => make("tr", {}, make("th", { scope: "row" }, words),
      make("td", {}, factors.length > 1 ? factors.map((y) => shown(y, 3)).join(" × ") : ""),
      make("td", {}, shown(x, 3)), make("td", { "aria-hidden": "true" }, ...bar));
    const lines = top.map(({ words, factors, x }) =>
      line(words, factors, x, make("i", { class: sign(x), style: `--size: ${Math.abs(x) / most}` })));
    if (others.length) lines.push(line(`${others.length} others`, [], total(others.map(({ x }) => x))));
    const after = `${scaled && ` ${scaled}`}${named && `, then ${named}`}`;
    const result = shown(spec.values[at], 3), all = shown(total(found.map(({ x }) => x)), 3);
    this.sum.replaceChildren(
      make("p", { class: "token-sum-title", role: "status" }, `${spec.what(at)}: `, make("strong", {}, result)),
      make("p", { class: "token-sum-how" }, how),
      make("table", {}, make("tbody", {}, ...lines)),
      make("p", { class: "token-sum-total" }, after ? `Together ${all}${after}: ${result}` : `Together ${result}`));
  }
}

document.querySelectorAll(".token-walk").forEach((root) => (root.app = new TokenPage(root)));
})();
