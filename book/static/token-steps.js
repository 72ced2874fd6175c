/**
 * One token, all the way: the numbers of a character in a model, step by step, and of each the sum that made it.
 *
 * What is notable:
 * - a number is what a module of models.js took or gave, told by forward hooks; scores alone are computed here, since
 *   nothing keeps them;
 * - a number is explained as f(scale · Σ terms), where a term is [what it is, ...its factors];
 * - a row is a token's, or in the layers inside an hourglass a window's.
 */
const token_steps = (() => {
"use strict";
const { spoken, glyph } = model_parts;
const { Cache, Vocabulary, build_model, bytes_of, gelu, likeliest, read_safetensors } = efficient_transformers();
const TOP = 5;  // characters that may come

/** A number as it is written here: no minus before a zero. */
const shown = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);
const product = (factors) => factors.reduce((y, x) => y * x, 1);
const array = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const largest_size = (values) => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

/** A number as f(scale · Σ terms), and how it came about in words. */
function sum(how, terms, { scale = 1, scaled = "", then = (x) => x, named = "" } = {}) {
  return { how, terms, scaled, named, value: then(scale * total(terms.map(([, ...factors]) => product(factors)))) };
}

// ---- what happened in a model

/**
 * Have hook(name, inputs, output) called after each module of a model, by PyTorch's names; after `attend` of an
 * attention too, whose inputs are what is compared.
 */
function register_forward_hooks(module, hook, name = "") {
  const hooked = (f, said) => (...inputs) => {
    const output = f.apply(module, inputs);
    hook(said, inputs, output);
    return output;
  };
  const parts = module.layers ?? module;
  for (const [part, inner] of Object.entries(parts)) {
    const path = name ? `${name}.${part}` : part;
    if (typeof inner?.forward === "function") register_forward_hooks(inner, hook, path);
    else if (typeof inner === "function" && part !== "activation") parts[part] = hooked(inner, path);  // not of numbers
  }
  for (const method of ["forward", "attend"]) {
    if (name && module[method]) module[method] = hooked(module[method], method === "forward" ? name : `${name}.attend`);
  }
}

/** A model that ships, and what each of its modules took and gave when it read a text. */
class Traced {
  constructor({ config, vocabulary, weights }) {
    this.tensors = read_safetensors(bytes_of(weights));
    this.model = build_model(config, this.tensors);
    this.vocabulary = new Vocabulary(vocabulary);
    register_forward_hooks(this.model, (name, inputs, output) => this.calls.set(name, { inputs, output }));
  }
  /** All its layers, each with its stack, its place there, and the part of an hourglass that the stack is. */
  get layers() {
    const { body } = this.model, parts = body.before ? ["before", "inside", "after"] : [""];
    return parts.flatMap((part) => (body[part] ?? body).layers.map((_, i) => (
      { stack: part ? `body.${part}` : "body", part, i })));
  }
  read(text) {
    const characters = [...text], tokens = characters.flatMap((c) => this.vocabulary.encode(c));
    Object.assign(this, { characters, calls: new Map(), watched: new Map() });
    this.logits = this.model.forward(tokens, new Cache((layer, what, position, values) =>
      this.watched.set(`${layer.name} ${what} ${position}`, values.slice())));
  }
  /** Row i of what a module gave, or took, with this many channels. */
  gave(name, i, width) {
    return this.calls.get(name).output.subarray(i * width, (i + 1) * width);
  }
  took(name, i, width, input = 0) {
    return this.calls.get(name).inputs[input].subarray(i * width, (i + 1) * width);
  }
  /** Attention weights, a gate, or a row of its matrix, of row i. */
  saw(name, what, i) {
    return this.watched.get(`${name} ${what} ${i}`);
  }
  weight(name) {
    return this.tensors.get(`${name}.weight`);
  }
}

// ---- its numbers, step by step

/** The steps of one token through one layer of a traced model. */
class Steps {
  constructor(traced, { place, layer, head }) {
    const { config } = traced.model, { stack, part, i } = traced.layers[layer], name = `${stack}.${i}`;
    Object.assign(this, { traced, place, head, part, steps: [] });
    [this.D, this.K] = [config.d_model, config.d_model / config.n_heads];
    this.factor = traced.model.body.shorten?.factor ?? 1;
    this.window = Math.floor(place / this.factor);  // the last one that the token may read
    this.i = part === "inside" ? this.window : place;  // the row in the layer
    this.embedding();
    if (config.name === "hourglass") this.waist();
    this.stream(stack, i);
    if (config.name === "gmlp") this.gated_block(name);
    else this.transformer_layer(name);
    this.end();
  }
  /** Numbers that a step shows; make_sum(i) is how number i came about, what(i) what it is. */
  add(step, label, values, make_sum, more = {}) {
    this.steps.push({ step, label, values, make_sum, what: (i) => `${label}, channel ${i}`, ...more });
  }
  /** What stands at row s of the layer: a character, or a window of them. */
  named(s) {
    if (this.part !== "inside") return this.character(s);
    return this.tokens_of(s).map((t) => this.character(t)).join("");
  }
  placed(s) {
    return `“${this.named(s)}”, ${s === this.i ? "itself" : `${this.i - s} back`}`;
  }
  character(t) {
    return t < 0 ? "·" : glyph(this.traced.characters[t]);
  }
  /** The tokens of a window, those before the text included. */
  tokens_of(window) {
    return array(this.factor, (i) => (window - 1) * this.factor + 1 + i);
  }

  // Sums that many steps share.

  linear(name, i, more = {}) {
    const { data, shape: [, n] } = this.traced.weight(name), x = this.traced.took(name, i, n);
    return (c) => sum(`${n} products: each channel of the input × a learned weight`,
      array(n, (d) => [`channel ${d}`, x[d], data[c * n + d]]), more);
  }
  norm(step, name, i, label) {
    const { traced } = this, weight = traced.weight(name).data, bias = traced.tensors.get(`${name}.bias`).data, n = weight.length;
    const x = traced.took(name, i, n), mean = total(x) / n;
    const deviation = Math.sqrt(total(x.map((value) => (value - mean) ** 2)) / n + 1e-5);  // with LayerNorm's ε
    const how = "the distance from the mean / the standard deviation × a learned scale, plus a learned shift";
    this.add(step, label, traced.gave(name, i, n), (c) =>
      sum(how, [["scaled", x[c] - mean, 1 / deviation, weight[c]], ["shifted", bias[c]]]));
  }
  /** A vector as the sum of others: [words, vector] each. */
  added(step, label, values, parts) {
    this.add(step, label, values, (c) => sum("what was added up to here", parts.map(([words, x]) => [words, x[c]])));
  }

  // The steps, in their order.

  embedding() {
    const { traced, place, D } = this, values = traced.took("body", place, D), c = spoken(traced.characters[place]);
    this.add("embedding", "E", values, (i) => sum("a learned number", [[`for ${c}`, values[i]]]));
  }
  /** From the long text to the short one, and back. */
  waist() {
    const { traced, place, window, factor: k, D } = this, x = (t) => traced.took("body.shorten", t, D);
    this.norm("long-norm", "body.norm_before", place, "LN(x)");
    const tokens = this.tokens_of(window).filter((t) => t >= 0);
    this.add("shorten", "S(x)", traced.gave("body.shorten", window, D), (c) => sum(
      "the mean of a window; before the text are zeros",
      tokens.map((t) => [`${this.character(t)}, t = ${t}`, x(t)[c]]), { scale: 1 / k, scaled: `/ ${k}` }));
    this.norm("short-norm", "body.norm_inside", window, "x′");
    this.added("up-sample", "U(x, x′)", traced.took("body.after", place, D), [
      ["x, what entered the shortening", x(place)],
      [`x′ of window ${window}`, traced.gave("body.norm_inside", window, D)],
    ]);
  }
  /** What enters the layer: what entered its stack, and what each layer before it added. */
  stream(stack, layer) {
    const { traced, i, D } = this, parts = [[{
      "": "embedding", before: "embedding", inside: "the shortened vector", after: "what up-sampling gave",
    }[this.part], traced.took(`${stack}.0`, i, D)]];
    const branches = { attention: "attention", feed_forward: "feed-forward", down: "gated branch" };
    for (let l = 0; l < layer; l++) {
      for (const [branch, words] of Object.entries(branches)) {
        const name = `${stack}.${l}.${branch}`;
        if (traced.calls.has(name)) parts.push([`layer ${l + 1}, ${words}`, traced.gave(name, i, D)]);
      }
    }
    this.added("stream", "x", traced.took(`${stack}.${layer}`, i, D), parts);
  }
  transformer_layer(layer) {
    const { traced, i, D } = this, attention = `${layer}.attention`, feed_forward = `${layer}.feed_forward`;
    const x = traced.took(layer, i, D), h = traced.took(`${layer}.norm2`, i, D);
    this.norm("norm", `${layer}.norm1`, i, "LN(x)");
    this.attention(attention);
    const found = traced.gave(attention, i, D), added = traced.gave(feed_forward, i, D);
    this.add("attention", "Attention", found, this.linear(`${attention}.output`, i));
    this.added("residual", "h", h, [["x, the stream", x], ["what attention found", found]]);
    this.norm("second-norm", `${layer}.norm2`, i, "LN(h)");
    const squared = traced.model.config.activation === "squared-relu", named = squared ? "ReLU, squared" : "ReLU";
    const then = (z) => Math.max(z, 0) ** (squared ? 2 : 1);
    this.add(squared ? "squared-hidden" : "hidden", "hidden", traced.took(`${feed_forward}.down`, i, traced.model.config.d_ff),
      this.linear(`${feed_forward}.up`, i, { then, named }));
    this.add("feed-forward", "FFN", added, this.linear(`${feed_forward}.down`, i));
    this.added("output", "y", traced.gave(layer, i, D), [["h", h], ["what the network found", added]]);
  }
  /** One head, from its projections to its answer. */
  attention(name) {
    const { traced, i, D, K, head } = this, n = i + 1, first = head * K;
    const of_head = (x) => x.subarray(first, first + K), here = (make_sum) => (c) => make_sum(first + c);
    const compared = (s, input) => of_head(traced.took(`${name}.attend`, s, D, input));  // 0: query, 1: key, 2: value
    const parts = ["query", "key", "value"].map((part) => `${name}.${part}`), letters = [..."qkv"];
    parts.forEach((part, z) =>
      this.add("project", letters[z], of_head(traced.gave(part, i, D)), here(this.linear(part, i))));
    const convolved = letters.map((letter, z) => {
      const conv = `${name}.conv_${letter}`;
      if (!traced.calls.has(conv)) return of_head(traced.gave(parts[z], i, D));
      const values = of_head(traced.gave(conv, i, D));
      this.add("convolve", `${letter}, convolved`, values, here(this.convolution(conv)));
      return values;
    });
    for (const z of [0, 1]) this.add("turn", `${letters[z]}, turned`, compared(i, z), this.rotation(convolved[z]));
    const q = compared(i, 0), root = Math.sqrt(K), bars = array(n, (s) => this.named(s));
    const products = (s) => array(K, (c) => [`channel ${c}`, q[c], compared(s, 1)[c]]);
    const score = (s) => sum(`${K} products: query × key`, products(s), { scale: 1 / root, scaled: `/ √${K}` });
    const scores = Float32Array.from(array(n, (s) => score(s).value)), largest = Math.max(...scores);
    this.add("scores", "q · k / √K", scores, score, { bars, what: (s) => `Score for ${this.placed(s)}` });
    const weights = traced.saw(name, "attention", i).subarray(head * n, (head + 1) * n);
    const powers = scores.map((x) => Math.exp(x - largest)), all = total(powers);
    this.add("weights", "a", weights, (s) => sum(`a share of all, after exp; the largest score is ${shown(largest, 3)}`,
      [["exp(score − largest)", powers[s]]], { scale: 1 / all, scaled: `/ ${shown(all, 3)}, the sum of all ${n}` }),
    { bars, what: (s) => `Weight of ${this.placed(s)}` });
    this.add("head", "y", of_head(traced.took(`${name}.output`, i, D)), (c) => sum("weight × value, of each token so far",
      array(n, (s) => [this.named(s), weights[s], compared(s, 2)[c]])));
  }
  convolution(name) {
    const { traced, i, D } = this, { data, shape: [heads, channels, W] } = traced.weight(name);
    return (c) => sum("the kernel × the channel’s own last values", array(Math.min(W, i + 1), (j) => [
      j ? `${this.named(i - j)}, ${j} back` : this.named(i),
      data[(c % (heads * channels)) * W + j], traced.took(name, i - j, D)[c]]));
  }
  rotation(x) {
    return (c) => {
      const odd = c % 2, pair = c - odd, angle = this.i * 10000 ** (-pair / this.K), of = shown(angle, 2);
      return sum("two channels, turned as a pair", odd
        ? [[`channel ${pair} × sin ${of}`, x[pair], Math.sin(angle)], [`channel ${c} × cos ${of}`, x[c], Math.cos(angle)]]
        : [[`channel ${c} × cos ${of}`, x[c], Math.cos(angle)],
          [`channel ${c + 1} × −sin ${of}`, x[c + 1], -Math.sin(angle)]]);
    };
  }
  gated_block(block) {
    const { traced, i, D } = this, gate = `${block}.gate`, F = traced.model.config.d_ff, half = F / 2;
    this.norm("norm", `${block}.norm`, i, "LN(x)");
    const z = traced.took(gate, i, F), widened = this.linear(`${block}.up`, i, { then: gelu, named: "GELU" });
    this.add("halves", "Z₁", z.subarray(0, half), widened);
    this.add("halves", "Z₂", z.subarray(half), (c) => widened(half + c));
    this.norm("gate-norm", `${gate}.norm`, i, "LN(Z₂)");
    const [row, f] = ["row", "gate"].map((what) => traced.saw(gate, what, i));
    const bars = array(i + 1, (s) => this.named(s));
    this.add("row", "W", row, (s) => sum("a learned number", [[`for a distance of ${i - s}`, row[s]]]),
      { bars, what: (s) => `Weight of ${this.placed(s)}` });
    this.add("gate", "f", f, (c) => sum("the row of W × the channel, of each token so far, plus a bias", [
      ...bars.map((named, s) => [named, row[s], traced.gave(`${gate}.norm`, s, half)[c]]),
      ["bias here", traced.tensors.get(`${gate}.bias`).data[i]]]));
    this.add("gated", "Z₁ ⊙ f", traced.gave(gate, i, half), (c) =>
      sum("one product: what passes × its gate", [["Z₁ × f", z[c], f[c]]]));
    const found = traced.gave(`${block}.down`, i, D);
    this.add("down", "found", found, this.linear(`${block}.down`, i));
    this.added("output", "y", traced.gave(block, i, D),
      [["x, the stream", traced.took(block, i, D)], ["what the gated branch found", found]]);
  }
  end() {
    const { traced, place, D } = this, V = traced.model.vocab_size, { characters } = traced.vocabulary;
    this.norm("last-norm", "norm", place, "LN(y)");
    const last = traced.gave("norm", place, D), E = traced.weight("embedding").data;
    const logits = traced.logits.subarray(place * V, (place + 1) * V), [order, p] = likeliest(logits, 1, V);
    const top = order.slice(0, TOP);
    this.add("logits", "logits", Float32Array.from(top, (token) => logits[token]), (n) => sum(
      `${D} products: the last vector × the character’s embedding`,
      array(D, (c) => [`channel ${c}`, last[c], E[top[n] * D + c]])),
    { list: top.map((token, n) => [characters[token], p[n]]), what: (n) => `Logit of ${spoken(characters[top[n]])}` });
  }
}

return { Steps, Traced, array, largest_size, product, shown, total };
})();
