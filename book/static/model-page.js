/**
 * The pages on which models write and read: menus, texts, tints. What is computed comes from models.js, beside the
 * page, through model-worker.js; weights come when a reader asks for them, from this site or from the reader's disk.
 */
(() => {
"use strict";
const { make, labelled, spoken, glyph, percent, as_sentence, fetch_shipped } = model_parts;
const LIMIT = 1000;  // characters that one run writes
const MANY = 4096;  // characters that are shown, whatever was pasted
const SLICE = 30;  // milliseconds of writing between two looks at the page
const MOST = 6;  // nats of surprise that have the full tint: one in 400
const [PLUS, MINUS] = [[245, 158, 11], [86, 180, 233]];  // of a map, on which nothing is written
const OWN = "own", FILES = ["model.safetensors", "config.json", "vocabulary.json"];

// ---- small things

const button = (text, onclick) => make("button", { type: "button", class: "models-button", onclick }, text);
const number = (x) => x.toFixed(2).replace("-", "−");
const nats = (x) => `${x.toFixed(2)} nats`;
const mean = (pieces) => {
  const known = pieces.filter((piece) => piece.surprise !== null);
  return known.reduce((sum, piece) => sum + piece.surprise, 0) / Math.max(1, known.length);
};
const shade = ({ surprise }) => (surprise === null ? null : surprise / MOST);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** A slider that says its value. */
function slider(text, attributes, say) {
  const said = make("output"), input = make("input", { type: "range", ...attributes });
  input.say = () => {
    said.textContent = say(Number(input.value));
    input.setAttribute("aria-valuetext", said.textContent);
  };
  input.addEventListener("input", input.say);
  input.say();
  return [input, labelled(text, input, said)];
}

// ---- a model in a worker of its own

class Reader {
  constructor() {
    const text = `(${model_worker})((${efficient_transformers})(), self);`;
    this.worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  }
  /** The answer comes through a channel of its own. */
  ask(what, value) {
    return new Promise((resolve, reject) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data));
      this.worker.onerror = () => reject(new Error("This browser starts no worker here, in which a model would run."));
      this.worker.postMessage([what, value], [port2]);
    });
  }
}

// ---- where models come from

/** The files of a drop, or of a dropped folder. */
async function dropped(transfer) {
  const folder = [...transfer.items].map((item) => item.webkitGetAsEntry()).find((entry) => entry?.isDirectory);
  if (!folder) return [...transfer.files];
  const entries = await new Promise((...settle) => folder.createReader().readEntries(...settle));
  return Promise.all(entries.filter((entry) => entry.isFile).map((file) => new Promise((...settle) => file.file(...settle))));
}

/** What the reader's files hold, or an error that says which one is missing. */
async function read_files(files) {
  const found = Object.fromEntries(files.map((file) => [file.name, file]));
  const missing = FILES.filter((name) => !found[name]), shown = Object.keys(found).slice(0, 6).join(", ") || "nothing";
  if (missing.length) {
    throw new Error(`You gave ${shown}. Missing: ${missing.join(", ")}. A model is a folder with ${FILES.join(", ")}.`);
  }
  const [weights, config, vocabulary] = FILES.map((name) => found[name]), json = async (file) => {
    try {
      return JSON.parse(await file.text());
    } catch {
      throw new Error(`${file.name} is not JSON. Save the model again, and give all three files.`);
    }
  };
  return { config: await json(config), vocabulary: await json(vocabulary), weights: await weights.arrayBuffer() };
}

/** A menu of models, and the one that was chosen. */
class Slot {
  constructor(app, label, chosen, ...options) {
    Object.assign(this, { app, reader: null, loaded: null, given: null });
    const shipped = app.root.querySelector("template").content.cloneNode(true);
    this.select = make("select", {}, ...options, shipped, new Option("a model of your own …", OWN));
    if ([...this.select.options].some((option) => option.value === chosen)) this.select.value = chosen;
    const pick = (files) => this.take(files), input = (attributes) => make("input", {
      type: "file", multiple: true, ...attributes, onchange: async ({ target }) => {
        await pick([...target.files]);
        target.value = "";  // so that the same files, saved again, are noticed
      },
    });
    this.box = make("div", { class: "models-drop" },
      make("p", {}, "Drop a model’s folder here, or choose its three files. They stay on this machine: nothing is sent."),
      labelled("Its folder", input({ webkitdirectory: true })), labelled("Or its files", input({})));
    this.box.ondragover = (event) => event.preventDefault();
    this.box.ondrop = (event) => {
      event.preventDefault();
      pick(dropped(event.dataTransfer));
    };
    const show = () => (this.box.hidden = this.select.value !== OWN);
    this.select.onchange = () => {
      show();
      app.changed();
    };
    show();
    this.element = make("div", { class: "models-slot" }, labelled(label, this.select), this.box);
  }
  get chosen() {
    return this.select.value;
  }
  get title() {
    if (this.chosen === OWN) return `your ${this.given?.config?.name ?? "model"}`;
    return this.select.selectedOptions[0].text.replace(/ \([^)]*\)$/, "");
  }
  /** How many characters it reads, where that is known before it is loaded. */
  get context() {
    return Number(this.chosen === OWN ? this.given?.config?.max_seq_len : this.select.selectedOptions[0].dataset.context) || Infinity;
  }
  /** The reader's own files: loaded at once, so that what is wrong with them is said at once. */
  take(files) {
    this.app.changed();  // who writes stops, since the worker forgets the text with the model
    return this.app.act(async () => {
      this.given = this.loaded = null;
      try {
        this.given = await read_files(await files);
        await this.ready();
      } catch (error) {
        this.given = null;
        throw error;
      }
      this.app.changed();  // now its name is known
      const { name, n_layers, d_model, max_seq_len } = this.config;
      this.app.status.textContent = `Your ${name} is here: ${n_layers} layers, ${d_model} channels, it reads ${max_seq_len} characters.`;
    });
  }
  /** Load what was chosen, unless that was done; throw what is wrong with it. */
  async ready() {
    const name = this.chosen;
    if (this.loaded === name) return;
    if (name === OWN && !this.given) throw new Error("Drop your model’s folder first, or choose its three files.");
    this.loaded = null;
    this.app.status.textContent = `Loading ${this.title} …`;
    this.reader ??= new Reader();
    const model = name === OWN ? this.given : await fetch_shipped(this.app.root.dataset.weights, name);
    this.config = (await this.reader.ask("load", model)).config;
    this.known = new Set(model.vocabulary.characters);  // of bytes, none: then it reads every character
    this.loaded = name;
    this.app.status.textContent = "";
  }
}

// ---- what is seen

/** A text whose characters are tinted; a click on one, or the arrow keys of its slider, choose a place in it. */
class Text {
  constructor(label, choose) {
    this.element = make("div", { class: "models-text", role: "group", tabindex: 0, "aria-label": label });
    this.element.onclick = (event) => {
      const place = [...this.element.children].indexOf(event.target);
      if (place >= 0) choose(place);
    };
  }
  /** More characters; of each, a shade from -1 to 1, or null. */
  add(pieces, shade, from = Infinity) {
    const start = this.element.childElementCount;
    this.element.append(...pieces.map((piece, i) => {
      const span = make("span", { class: piece.text === "\n" ? "newline" : false }, piece.text);
      if (start + i >= from) span.classList.add("written");
      return this.tint(span, shade(piece, start + i));
    }));
  }
  tint(span, shade) {
    span.style.setProperty("--shade", shade === null ? 0 : Math.min(1, Math.abs(shade)).toFixed(3));
    span.classList.toggle("other", shade < 0);
    return span;
  }
  mark(place) {
    this.element.querySelector(".chosen")?.classList.remove("chosen");
    this.element.children[place]?.classList.add("chosen");
  }
}

/** The likeliest characters as bars; `actual` is the one that came. */
class Bars {
  constructor() {
    this.title = make("p", { class: "models-caption" });
    this.rows = make("div", { class: "models-bars", role: "img", "aria-label": "nothing yet" });
    this.element = make("div", {}, this.title, this.rows);
  }
  show(title, expected, actual = null) {
    this.title.textContent = title;
    this.rows.replaceChildren(...Array.from({ length: 10 }, (_, i) => {
      const [c, p] = expected[i] ?? ["", 0], bar = make("i");
      bar.style.width = `${100 * p}%`;
      return make("div", { class: c && c === actual ? "actual" : false },
        make("b", {}, glyph(c)), make("span", {}, ...(c ? [bar] : [])), make("small", {}, c ? percent(p) : ""));
    }));
    const said = expected.slice(0, 5).map(([c, p]) => `${spoken(c)} ${percent(p)}`).join(", ");
    this.rows.setAttribute("aria-label", said || "nothing");
  }
}

function legend() {
  return make("p", { class: "models-legend" }, "expected ", make("i", { "aria-hidden": "true" }),
    ` surprising. The full tint begins at ${MOST} nats, one chance in 400.`);
}

/** What a character's surprise means, as a sentence. */
function sentence(piece, place, expected) {
  if (piece.surprise === null) return `${spoken(piece.text)} is the first character: nothing came before it.`;
  const best = expected[0], said = `Character ${place + 1}, ${spoken(piece.text)}: `;
  const chance = `it had a chance of ${percent(Math.exp(-piece.surprise))}, a surprise of ${nats(piece.surprise)}`;
  if (!best || best[0] === piece.text) return `${said}${chance}${best ? ", and was the likeliest" : ""}.`;
  return `${said}${chance}; the likeliest was ${spoken(best[0])} with ${percent(best[1])}.`;
}

/** What both pages have: two menus, a line for what happens, one for what went wrong; one action after the other. */
class App {
  constructor(root, label) {
    this.root = root;
    this.asked = new URLSearchParams(location.hash.slice(1));
    this.status = make("p", { class: "models-status", role: "status" });
    this.error = make("p", { class: "models-error", role: "alert" });
    this.slots = [
      new Slot(this, "Model", this.asked.get("a") || "primer-ez"),
      new Slot(this, "Beside it", this.asked.get("b") ?? "", new Option("none", "")),
    ];
    this.menus = make("div", { class: "models-row menus" }, ...this.slots.map((slot) => slot.element));
    this.input = make("textarea", { rows: 2, spellcheck: "false" });
    this.input.value = this.asked.get("text") ?? root.dataset.text;
    this.count = make("output");
    this.line = labelled(label, this.input, this.count);
    this.input.addEventListener("input", () => this.measure());
    this.measure();
    this.turn = Promise.resolve();
  }
  /** As many characters as all chosen models read. */
  get context() {
    return Math.min(...this.used.map((slot) => slot.context));
  }
  measure() {
    const length = [...this.input.value].length, most = this.context;
    this.count.textContent = most < Infinity ? `${length.toLocaleString("en")} of ${most}` : "";
    this.count.classList.toggle("too-many", length > most);
  }
  get used() {
    return this.slots.filter((slot) => slot.chosen);
  }
  /** A link that brings this back. */
  link(text = this.input.value) {
    const [a, b] = this.slots.map((slot) => (slot.chosen === OWN ? "" : slot.chosen));
    return `#${new URLSearchParams({ a, b, text })}`;
  }
  fail(error) {
    this.error.textContent = as_sentence(error.message);
    this.status.textContent = "";
    const { unknown } = error;
    if (!unknown) return;
    this.error.append(" ", button(`Leave out ${unknown.slice(0, 5).join(" ")}${unknown.length > 5 ? " …" : ""} and ${this.verb}`, () => {
      this.input.value = [...this.input.value].filter((c) => !unknown.includes(c)).join("");
      this.input.dispatchEvent(new Event("input"));
      this.again();
    }));
  }
  act(action) {
    this.error.textContent = "";
    this.turn = this.turn.then(action).catch((error) => this.fail(error));
    return this.turn;
  }
  /** Another model was chosen: what is shown is not its work. */
  changed() {
    this.measure();
    this.act(() => this.forget());
  }
  async prepare() {
    if (!this.input.value) throw new Error("The text is empty. Type at least one character.");
    for (const slot of this.used) {
      await slot.ready();
      const unknown = slot.known.size ? [...new Set(this.input.value)].filter((c) => !slot.known.has(c)) : [];
      const few = `${unknown.slice(0, 5).map(spoken).join(", ")} ${unknown.length === 1 ? "is" : "are"}`;
      const said = `${few} not among the ${slot.known.size} characters of ${slot.title}.`;
      if (unknown.length) throw Object.assign(new Error(said), { unknown });
    }
    history.replaceState(null, "", this.link());
  }
}

// ---- Write with it

class Writing {
  constructor(app, slot) {
    Object.assign(this, { app, slot, pieces: [], tokens: 0, ms: 0, from: 0 });
    this.rate = make("small", {}, "");
    const look = (place) => this.look(place).catch((error) => app.fail(error));
    this.text = new Text(`What ${slot.title} wrote`, look);
    const say = (place) => (place >= this.pieces.length ? "the next one" : `${place + 1} of ${this.pieces.length}`);
    [this.place, this.placer] = slider("Character", { min: 0, max: 0, value: 0 }, say);
    this.place.oninput = () => look(Number(this.place.value));
    [this.bars, this.said] = [new Bars(), make("p", { class: "models-said", role: "status" })];
    this.closer = make("a", { style: "visibility: hidden" }, "Read this closely");
    this.bars.show("the next character will be drawn from", []);
    this.element = make("div", { class: "models-panel" },
      make("p", { class: "models-name" }, make("strong", {}, slot.title), this.rate),
      make("div", { class: "models-split" },
        make("div", {}, this.text.element, this.placer, this.said, this.closer),
        this.bars.element));
    const read = [...app.input.value.slice(0, 2 * MANY)].slice(0, Math.min(MANY, app.context));
    this.text.add(read.map((text) => ({ text })), () => null);
  }
  async start(text) {
    this.pieces = [...(await this.slot.reader.ask("read", text)).pieces];
    [this.from, this.tokens, this.ms] = [this.pieces.length, 0, 0];
    this.text.element.replaceChildren();
    this.text.add(this.pieces, shade);
  }
  async write(limit, options) {
    const answer = await this.slot.reader.ask("write", { ms: SLICE, limit, ...options });
    this.tokens += answer.tokens;
    this.ms += answer.ms;
    this.pieces.push(...answer.pieces);
    this.text.add(answer.pieces, shade, this.from);
    this.text.element.scrollTop = this.text.element.scrollHeight;
    this.rate.textContent = `${Math.round((1000 * this.tokens) / this.ms).toLocaleString("en")} tokens per second`;
    if (answer.restarted) this.restarted = true;
    return answer.tokens;
  }
  /** Show what was expected at a place, by default after the last character. */
  async look(place = this.pieces.length, brief = false) {
    if (!this.pieces.length) return;  // nothing was read yet
    const { expected } = await this.slot.reader.ask("look", { place, ...this.app.options() });
    const piece = this.pieces[place];
    this.place.max = this.pieces.length;
    this.place.value = place;
    this.place.say();
    this.text.mark(place);
    this.bars.show(piece ? "expected at this character" : "the next character will be drawn from",
      expected, piece?.text);
    if (brief) return;
    this.said.textContent = piece ? sentence(piece, place, expected) : this.summary();
    const last = this.pieces.slice(-120).map(({ text }) => text).join("");
    this.closer.href = `read-with-it.html${App.prototype.link.call(this.app, last)}`;
    this.closer.style.visibility = this.slot.chosen === OWN ? "hidden" : "visible";
  }
  summary() {
    const written = this.pieces.slice(this.from);
    if (!written.length) return `Read ${this.from} characters, a surprise of ${nats(mean(this.pieces))} each.`;
    const half = Math.floor(this.slot.config.max_seq_len / 2);
    const full = this.restarted ? ` Whenever its context was full, it read its last ${half} tokens again.` : "";
    return `Wrote ${written.length} characters, a surprise of ${nats(mean(written))} each.${full}`;
  }
}

class WritePage extends App {
  constructor(root) {
    super(root, "Your text, which it continues");
    [this.verb, this.again] = ["run", () => this.run()];
    const of = (name, otherwise) => this.asked.get(name) ?? otherwise, ahead = () => this.refresh();
    [this.temperature, this.warmth] = slider("Temperature", { min: 0, max: 2, step: 0.05, value: of("t", 0.8) },
      (value) => (value === 0 ? "0, always the likeliest" : value.toFixed(2)));
    this.temperature.addEventListener("change", ahead);
    this.top_k = make("input", { type: "number", min: 1, step: 1, value: of("k", 20), onchange: ahead });
    this.seed = make("input", { type: "number", step: 1, value: of("seed", 1) });
    this.runner = button("Run", () => this.run());
    this.panels = make("div", { class: "models-panels" });
    const again = () => {
      this.running = false;
      this.act(() => this.restart());
    };
    root.append(this.menus, this.line,
      make("div", { class: "models-row" },
        this.warmth, labelled("Top-k", this.top_k), labelled("Seed", this.seed)),
      make("div", { class: "models-row" },
        button("Step", () => this.act(() => this.write(1))), this.runner, button("Start over", again)),
      this.status, this.error, this.panels, legend());
    this.input.addEventListener("input", () => this.changed());
    this.forget();
  }
  link() {
    const { temperature: t, top_k: k, seed } = this.options();
    return `${super.link()}&${new URLSearchParams({ t, k, seed })}`;
  }
  options() {
    const whole = (input, name, least) => {
      const value = Number(input.value);
      if (input.value.trim() && Number.isInteger(value) && value >= least) return value;
      const bound = least > -Infinity ? ` of at least ${least}` : "";
      throw new Error(`${name} is “${input.value}”. It must be a whole number${bound}.`);
    };
    return {
      temperature: Number(this.temperature.value),
      top_k: whole(this.top_k, "Top-k", 1),
      seed: whole(this.seed, "The seed", -Infinity),
    };
  }
  /** Another model or text. */
  changed() {
    this.running = false;
    super.changed();
  }
  forget() {
    this.stale = true;
    this.writings = this.used.map((slot) => new Writing(this, slot));
    this.panels.replaceChildren(...this.writings.map((writing) => writing.element));
    this.panels.classList.toggle("two", this.writings.length > 1);
  }
  refresh() {
    if (!this.running) this.act(() => Promise.all(this.writings.map((writing) => writing.look())));
  }
  async restart() {
    this.options();
    await this.prepare();
    this.forget();
    for (const writing of this.writings) {
      await writing.start(this.input.value);
      await writing.look();
    }
    this.stale = false;
  }
  async begin() {
    if (this.stale) await this.restart();
  }
  async write(limit, brief = false) {
    await this.begin();
    const options = this.options();
    const written = await Promise.all(this.writings.map((writing) => writing.write(limit, options)));
    await Promise.all(this.writings.map((writing) => writing.look(undefined, brief)));
    return Math.max(...written);
  }
  async run() {
    if (this.running) return void (this.running = false);
    this.running = true;
    this.runner.textContent = "Stop";
    await this.act(async () => {
      await this.begin();
      this.writings[0].text.element.scrollIntoView({ block: "nearest", behavior: calm.matches ? "auto" : "smooth" });
      for (let left = LIMIT; this.running && left > 0; ) {
        left -= await this.write(left, true);
        if (calm.matches) await new Promise((resolve) => setTimeout(resolve, 400));  // fewer changes, larger ones
      }
      for (const writing of this.writings) await writing.look();
    });
    this.running = false;
    this.runner.textContent = "Run";
  }
}

// ---- Read with it

/** "body.inside.2.attention", "attention" as a name for people. */
function title({ name, what, span }, config) {
  const words = name.replace(/^body\./, "").split("."), first = config.positions ? 1 : 0, parts = [];
  for (const word of words) {
    if (/^\d+$/.test(word)) parts.push(`layer ${Number(word) + 1 - first}`);
    else if (word === "shorten") parts.push("shortening");
    else if (word === "up_sample") parts.push("up-sampling");
    else if (word !== "attention" && word !== "gate") parts.push(word);
  }
  const kinds = { attention: "attention", row: "row of W", gate: "gate" };
  return `${parts.join(", ")}: ${kinds[what]}${span > 1 ? `, windows of ${span}` : ""}`;
}

/** What a model read at the chosen character, layer by layer and head by head. */
class Lamp {
  constructor(slot, pieces, choose) {
    Object.assign(this, { slot, pieces });
    this.select = make("select", { onchange: () => this.draw() });
    this.heads = make("select", { onchange: () => this.draw() });
    this.head = labelled("Head", this.heads);
    this.map = make("canvas", { class: "models-map", role: "img" });
    this.map.onclick = (event) => choose(Math.floor((event.offsetY / this.map.clientHeight) * pieces.length));
    this.map_said = make("p", { class: "models-caption" },
      "The whole text: a row for each character, a column for each that it could read. Touch a row.");
    this.text = new Text(`What ${slot.title} read`, choose);
    this.text.add(pieces, () => 0);
    this.values = make("div", { class: "models-values", role: "img" });
    [this.bars, this.said] = [new Bars(), make("p", { class: "models-said", role: "status" })];
    this.element = make("div", { class: "models-panel" },
      make("p", { class: "models-name" }, make("strong", {}, slot.title)),
      make("div", { class: "models-row" }, labelled("Layer", this.select), this.head),
      make("div", { class: "models-split" },
        make("div", {}, this.text.element, this.values, this.said, this.map, this.map_said), this.bars.element));
  }
  async look(place) {
    const { expected, reads } = await this.slot.reader.ask("look", { place });
    Object.assign(this, { place, reads });
    const kept = this.select.value;
    this.select.replaceChildren(...reads.map((read, i) => new Option(title(read, this.slot.config), i)));
    this.select.value = reads[kept] ? kept : "0";
    this.bars.show(place === 0 ? "nothing came before" : "expected at this character", expected, this.pieces[place].text);
    this.draw();
  }
  draw() {
    const index = Number(this.select.value), { what, heads, span } = this.reads[index], gate = what === "gate";
    const kept = this.heads.value, mean = new Option("mean of all", "");
    this.heads.replaceChildren(...(heads.length > 1 ? [mean] : []), ...heads.map((_, h) => new Option(h + 1, h)));
    if ([...this.heads.options].some((option) => option.value === kept)) this.heads.value = kept;
    this.head.hidden = heads.length === 1;
    this.text.element.hidden = this.map.hidden = this.map_said.hidden = gate;
    this.values.hidden = !gate;
    if (gate) return this.draw_values(heads[0]);
    const all = this.heads.value === "", chosen = all ? heads : [heads[Number(this.heads.value)]];
    const shades = this.pieces.map((_, i) => chosen.reduce((sum, head) => sum + head[i], 0) / chosen.length);
    const most = shades.reduce((m, x) => Math.max(m, Math.abs(x)), 0);
    const best = shades.findIndex((x) => Math.abs(x) === most);
    [...this.text.element.children].forEach((span, i) => this.text.tint(span, shades[i] / Math.max(most, 1e-9)));
    this.text.mark(this.place);
    const ends = span === 1 ? best : shades.findLastIndex((x, i) => x === shades[best] && i < best + span);
    const back = this.place - ends, far = `${back} ${back === 1 ? "character" : "characters"} back`;
    const inside = this.pieces.slice(best, ends + 1).map(({ text }) => glyph(text)).join("");
    const what_read = span > 1 ? `the window “${inside}”, which ends ${back ? far : "here"}`
      : `${spoken(this.pieces[best].text)}, ${back ? far : "itself"}`;
    const value = what === "attention" ? `an attention of ${percent(most)}` : `a weight of ${number(shades[best])}`;
    this.said.textContent = most === 0 ? "No window is complete here: there is nothing to read yet."
      : `At ${spoken(this.pieces[this.place].text)} it reads most of ${what_read}: ${value}.`;
    this.draw_map(index, all ? null : Number(this.heads.value));
  }
  /** One pixel for each pair of characters, in the colors of the text. */
  async draw_map(index, head) {
    const n = this.pieces.length, { shades } = await this.slot.reader.ask("map", { index, head });
    const image = new ImageData(n, n);
    for (let t = 0; t < n; t++) {
      let most = 1e-9;
      for (let s = 0; s < n; s++) most = Math.max(most, Math.abs(shades[t * n + s]));
      for (let s = 0, p = 4 * t * n; s < n; s++, p += 4) {
        const x = shades[t * n + s] / most, row = t === this.place ? 60 : 0;
        image.data.set([...(x < 0 ? MINUS : PLUS), Math.max(row, 255 * Math.abs(x))], p);
      }
    }
    [this.map.width, this.map.height] = [n, n];
    this.map.getContext("2d").putImageData(image, 0, 0);
    this.map.setAttribute("aria-label", `What each of ${n} characters reads, as a map; its row ${this.place + 1} is above.`);
  }
  /** A gate's numbers, one for each channel, counted in 24 bins. */
  draw_values(values) {
    const sorted = Array.from(values).sort((a, b) => a - b), [low, high] = [sorted[0], sorted.at(-1)];
    const counts = Array(24).fill(0);
    for (const value of values) counts[Math.min(23, Math.floor((24 * (value - low)) / Math.max(high - low, 1e-9)))]++;
    const most = Math.max(...counts), middle = sorted[sorted.length >> 1];
    this.values.replaceChildren(...counts.map((count) => {
      const bar = make("i");
      bar.style.height = `${(100 * count) / most}%`;
      return bar;
    }));
    const said = `The gate multiplies ${values.length} channels by ${number(low)} to ${number(high)}, in the middle ${
      number(middle)}; by 1, a channel would pass as it is.`;
    this.values.setAttribute("aria-label", said);
    this.said.textContent = said;
  }
}

class ReadPage extends App {
  constructor(root) {
    super(root, "Your line");
    [this.verb, this.again] = ["read", () => this.act(() => this.read())];
    const reader = button("Read it", () => {
      root.classList.add("reading");  // room for what comes, at once
      this.act(() => this.read());
    });
    this.rows = make("div", { class: "models-rows" });
    [this.place, this.placer] = slider("Character", { min: 1, max: 1, value: 1 },
      (place) => (this.pieces ? `${place} of ${this.pieces.length}, ${spoken(this.pieces[place - 1]?.text ?? "")}` : ""));
    this.place.oninput = () => this.act(() => this.look(Number(this.place.value) - 1));
    this.said = make("p", { class: "models-said", role: "status" });
    this.lamps = make("div", { class: "models-panels" });
    this.result = make("div", { hidden: true },
      this.rows, legend(), this.placer, this.said,
      make("p", { class: "models-heading" }, "Behind this character"), this.lamps);
    root.append(this.menus, this.line, make("div", { class: "models-row" }, reader), this.status, this.error, this.result);
    this.readings = [];
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      if (this.pieces) this.timer = setTimeout(() => this.act(() => this.read()), 400);
    });
  }
  /** Until asked again: another model may have to be loaded. */
  forget() {
    this.pieces = null;
    this.result.hidden = true;
  }
  async read() {
    await this.prepare();
    const text = this.input.value, old = this.pieces, slots = this.used;
    const answers = await Promise.all(slots.map((slot) => slot.reader.ask("read", text)));
    const pick = (place) => this.act(() => this.look(place));
    this.pieces = answers[0].pieces;
    this.readings = answers.map(({ pieces }, i) => {
      const row = new Text(`How surprising the text is to ${slots[i].title}`, pick);
      row.add(pieces, shade);
      return { pieces, row, lamp: new Lamp(slots[i], pieces, pick) };
    });
    const rows = this.readings.map(({ pieces, row }, i) => [
      make("p", { class: "models-name" }, make("strong", {}, slots[i].title),
        make("small", {}, `${nats(mean(pieces))} per character`)), row.element]);
    if (slots.length > 1) rows.push(this.difference(slots.map((slot) => slot.title)));
    this.rows.replaceChildren(...rows.flat());
    this.lamps.replaceChildren(...this.readings.map(({ lamp }) => lamp.element));
    this.lamps.classList.toggle("two", slots.length > 1);
    this.place.max = this.pieces.length;
    this.result.hidden = false;
    // At first, the place of the largest difference, or of the largest surprise.
    const [one, two] = this.readings.map(({ pieces }) => pieces.map(({ surprise }) => surprise ?? 0));
    const sizes = one.map((x, i) => (two ? Math.abs(two[i] - x) : x)), most = sizes.indexOf(Math.max(...sizes));
    await this.look(old ? Math.min(Number(this.place.value), this.pieces.length) - 1 : most);
  }
  /** Where the second model expected a character more than the first, or less. */
  difference([a, b]) {
    const [one, two] = this.readings.map(({ pieces }) => pieces), text = new Text("The difference", (place) =>
      this.act(() => this.look(place)));
    text.element.classList.add("differs");
    text.add(one, (piece, i) => (piece.surprise === null ? null : (two[i].surprise - piece.surprise) / (MOST / 2)));
    this.readings[0].difference = text;
    const key = make("small", {}, make("i", { class: "first" }), `${a} expected it more `, make("i", { class: "second" }),
      `${b} did`);
    return [make("p", { class: "models-name" }, make("strong", {}, "The difference"), key), text.element];
  }
  async look(place) {
    if (!this.pieces) return;  // a click on what was forgotten meanwhile
    this.place.value = place + 1;
    this.place.say();
    const said = [];
    for (const { row, lamp, difference, pieces } of this.readings) {
      row.mark(place);
      difference?.mark(place);
      await lamp.look(place);
      const { surprise } = pieces[place];
      if (surprise !== null) said.push(`${lamp.slot.title} gave it ${percent(Math.exp(-surprise))}, ${nats(surprise)}`);
    }
    const c = spoken(this.pieces[place].text);
    this.said.textContent = said.length ? `Character ${place + 1}, ${c}: ${said.join("; ")}.`
      : `${c} is the first character: nothing came before it.`;
  }
}

// ---- Two models on the first page

/** Goes on from what the build recorded: the same text, the same tints, then what comes. */
class Strip {
  constructor(root) {
    const { weights, seed, temperature, k } = root.dataset;
    Object.assign(this, { weights, status: root.querySelector(".models-status"), error: root.querySelector(".models-error") });
    this.options = { seed: Number(seed), temperature: Number(temperature), top_k: Number(k) };
    this.button = root.querySelector("button");
    this.panels = [...root.querySelectorAll(".models-panel")].map((panel) => {
      const recorded = panel.querySelector(".models-text"), text = new Text(recorded.getAttribute("aria-label"), () => {});
      return { name: panel.dataset.model, recorded, text, start: recorded.textContent };
    });
  }
  async ready() {
    if (this.panels[0].reader) return;
    this.status.textContent = "Loading both models …";
    const models = await Promise.all(this.panels.map(({ name }) => fetch_shipped(this.weights, name)));
    for (const [i, panel] of this.panels.entries()) {
      const reader = new Reader();
      await reader.ask("load", models[i]);
      const { pieces } = await reader.ask("read", panel.start);
      panel.text.add(pieces, shade);
      panel.recorded.replaceWith(panel.text.element);
      panel.reader = reader;
    }
  }
  async write(left) {
    const answers = await Promise.all(this.panels.map(({ reader }) =>
      reader.ask("write", { ms: SLICE, limit: left, ...this.options })));
    for (const [i, { text, start }] of this.panels.entries()) {
      text.add(answers[i].pieces, shade, start.length);
      text.element.scrollTop = text.element.scrollHeight;
    }
    return Math.max(...answers.map(({ tokens }) => tokens));
  }
  /** Until it is pressed again, or for as long as a run of the other page. */
  async press() {
    if (this.running) return void (this.running = false);
    this.running = true;
    [this.button.textContent, this.error.textContent] = ["Stop", ""];
    try {
      await this.ready();
      this.status.textContent = "They write in this browser; nothing is sent.";
      for (let left = LIMIT; this.running && left > 0; ) {
        left -= await this.write(left);
        if (calm.matches) await new Promise((resolve) => setTimeout(resolve, 400));
      }
    } catch (error) {
      App.prototype.fail.call(this, error);
    }
    this.running = false;
    this.button.textContent = "Write on";
  }
}

document.querySelectorAll("#two-write-here").forEach((root) => (root.app = new Strip(root)));
document.querySelectorAll("#write-with-it-here").forEach((root) => (root.app = new WritePage(root)));
document.querySelectorAll("#read-with-it-here").forEach((root) => (root.app = new ReadPage(root)));
})();
