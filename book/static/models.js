/**
 * The models of the book in plain JavaScript: what the package computes, for one text, in a reader's browser.
 *
 * What is notable:
 * - classes, functions and their order are the package's, and a text may come in pieces of any length, with a cache;
 * - a matrix [T, D] is a Float32Array, row after row; sums are doubles, more exact than PyTorch's;
 * - inner loops count: `for (const v of x)` and `x.map(f)` take four times as long;
 * - all is one function, so that a worker can be made from its text, also where the page was opened from a disk.
 *
 *     const { Cache, build_model, read_safetensors } = efficient_transformers();
 *     const model = build_model(config, read_safetensors(buffer)), cache = new Cache();
 *     const logits = model.forward(tokens, cache);  // [T * vocab_size]
 */
function efficient_transformers() {
"use strict";

// ---- checks.py

const MOST_BACK = 4096;  // tokens: a layer keeps what it looks back to

/** Throw unless `condition` holds: the argument, its value, what was expected. */
function require(condition, argument, value, expected) {
  if (condition) return;
  const shown = typeof value === "string" ? `“${value}”` : String(JSON.stringify(value));
  throw new Error(`${argument} is ${shown.length > 200 ? `${shown.slice(0, 200)}…` : shown}; expected ${expected}`);
}

function require_int(argument, value, least) {
  require(Number.isInteger(value) && value >= least, argument, value, `an int of at least ${least}`);
}

function require_known(argument, value, known) {
  require(known.includes(value), argument, value, `one of ${known.map((name) => `“${name}”`).join(", ")}`);
}

// ---- what PyTorch brings along

/** The product with a transposed matrix, [T, n] and [m, n] to [T, m], four rows at once. */
function product(x, matrix, n) {
  const m = matrix.length / n, T = x.length / n, y = new Float32Array(T * m);
  for (let t = 0; t < T; t++) {
    const from = t * n, to = t * m;
    let row = 0;
    for (; row + 3 < m; row += 4) {
      let a = 0, b = 0, c = 0, d = 0;
      for (let i = 0, p = row * n; i < n; i++, p++) {
        const v = x[from + i];
        a += matrix[p] * v;
        b += matrix[p + n] * v;
        c += matrix[p + 2 * n] * v;
        d += matrix[p + 3 * n] * v;
      }
      y[to + row] = a;
      y[to + row + 1] = b;
      y[to + row + 2] = c;
      y[to + row + 3] = d;
    }
    for (; row < m; row++) {
      let a = 0;
      for (let i = 0; i < n; i++) a += matrix[row * n + i] * x[from + i];
      y[to + row] = a;
    }
  }
  return y;
}

/** f(x[i], i) for each i. */
function map(x, f) {
  const y = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) y[i] = f(x[i], i);
  return y;
}

const add = (x, y) => map(x, (value, i) => value + y[i]);
const multiply = (x, y) => map(x, (value, i) => value * y[i]);

/** Σ_s weights[s] · vectors[s, c] for n channels c from `first` on; a vector has `width`. */
function mixture(weights, vectors, width, first, n) {
  const S = weights.length, sums = new Float64Array(n);
  let s = 0;
  for (; s + 3 < S; s += 4) {
    const a = weights[s], b = weights[s + 1], c = weights[s + 2], d = weights[s + 3];
    for (let i = 0, p = s * width + first; i < n; i++, p++) {
      sums[i] += a * vectors[p] + b * vectors[p + width] + c * vectors[p + 2 * width] + d * vectors[p + 3 * width];
    }
  }
  for (; s < S; s++) {
    for (let i = 0, p = s * width + first; i < n; i++, p++) sums[i] += weights[s] * vectors[p];
  }
  return sums;
}

/** exp(x / temperature), divided by its sum, in place. */
function softmax(x, temperature = 1) {
  let largest = -Infinity, sum = 0;
  for (let i = 0; i < x.length; i++) if (x[i] > largest) largest = x[i];
  for (let i = 0; i < x.length; i++) sum += x[i] = Math.exp((x[i] - largest) / temperature);  // no overflow
  for (let i = 0; i < x.length; i++) x[i] /= sum;
  return x;
}

/** The error function, 2/√π · e^(-x²) · Σ 2^n x^(2n+1) / (1·3·…·(2n+1)). */
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x, sum = x;
  for (let n = 3; Math.abs(term) > 1e-10; n += 2) sum += term *= (2 * x * x) / n;
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

const relu = (x) => (x > 0 ? x : 0);
const squared_relu = (x) => (x > 0 ? x * x : 0);
const gelu = (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2));
const silu = (x) => x / (1 + Math.exp(-x));

// A module that remembers nothing is a function, made from its weights.

function Linear(weights, d_in, d_out) {
  const weight = weights.take("weight", d_out, d_in);
  return (x) => product(x, weight, d_in);
}

function LayerNorm(weights, d_model, eps = 1e-5) {
  const weight = weights.take("weight", d_model), bias = weights.take("bias", d_model);
  return (x) => {
    const y = new Float32Array(x.length);
    for (let start = 0; start < x.length; start += d_model) {
      let mean = 0, variance = 0;
      for (let i = 0; i < d_model; i++) mean += x[start + i] / d_model;
      for (let i = 0; i < d_model; i++) variance += (x[start + i] - mean) ** 2 / d_model;
      const scale = 1 / Math.sqrt(variance + eps);
      for (let i = 0; i < d_model; i++) y[start + i] = (x[start + i] - mean) * scale * weight[i] + bias[i];
    }
    return y;
  };
}

/** The weights of a module and of its parts, by PyTorch's names. */
class Weights {
  /** `step` is by how many tokens of the text two neighboring inputs of the module are apart. */
  constructor(tensors, name = "", step = 1) {
    Object.assign(this, { tensors, name, step });
  }
  of(part, factor = 1) {
    return new Weights(this.tensors, this.name ? `${this.name}.${part}` : String(part), this.step * factor);
  }
  take(name, ...shape) {
    const key = this.of(name).name, tensor = this.tensors.get(key);
    require(tensor, `the tensor ${key}`, null, "to be in model.safetensors, for the model in config.json");
    require(String(tensor.shape) === String(shape), `the shape of ${key}`, tensor.shape, `[${shape}]`);
    tensor.taken = true;
    return tensor.data;
  }
}

// ---- cache.py

/** What a model must remember to go on reading. A layer is its own key. */
class Cache {
  /** `watch(layer, what, position, values)` is told attention weights and gates as they arise. */
  constructor(watch = null) {
    Object.assign(this, { watch, tokens_read: 0, memory: new Map() });
  }
  of(layer) {
    if (!this.memory.has(layer)) this.memory.set(layer, { length: 0, phase: 0, buffers: [], window: null });
    return this.memory.get(layer);
  }
  /** The number of positions that `layer` has appended or counted. */
  length(layer) {
    return this.of(layer).length;
  }
  /** Count n more positions of `layer`; return how many there were before. */
  advance(layer, n) {
    const mine = this.of(layer);
    mine.length += n;
    return mine.length - n;
  }
  /** Count n more positions modulo `period`; return where in its period `layer` was before. */
  phase(layer, n, period) {
    const mine = this.of(layer), start = mine.phase;
    mine.phase = (start + n) % period;
    return start;
  }
  /** Append the rows of each matrix, of this width; return all rows so far, with room behind them. */
  append(layer, width, ...added) {
    const start = this.advance(layer, added[0].length / width) * width, { buffers } = this.of(layer);
    added.forEach((x, i) => {
      const old = buffers[i] ?? [];
      if (old.length < start + x.length) {
        buffers[i] = new Float32Array(Math.max(2 * old.length, start + x.length, 16 * width));
        buffers[i].set(old);
      }
      buffers[i].set(x, start);
    });
    return buffers;
  }
  /** Put the last n inputs of `layer`, zeros first, before x. */
  with_past(layer, x, n, width) {
    const mine = this.of(layer), joined = new Float32Array(n * width + x.length);
    if (mine.window) joined.set(mine.window);
    joined.set(x, n * width);
    mine.window = joined.slice(x.length);
    return joined;
  }
}

// ---- attention.py

/** Rotary positions: turn neighboring channels of each head; row i is at start + step * i. */
function rotate(x, d_model, n_heads, start, step = 1) {
  const y = new Float32Array(x.length), K = d_model / n_heads, T = x.length / d_model;
  for (let i = 0; i < T; i++) {
    for (let c = 0; c < K; c += 2) {
      const theta = Math.fround(10000 ** Math.fround(-c / K));  // rounded where PyTorch rounds
      const angle = Math.fround((start + step * i) * theta), cos = Math.cos(angle), sin = Math.sin(angle);
      for (let p = i * d_model + c; p < (i + 1) * d_model; p += K) {
        y[p] = x[p] * cos - x[p + 1] * sin;
        y[p + 1] = x[p] * sin + x[p + 1] * cos;
      }
    }
  }
  return y;
}

/** What all attentions share: softmax(QKᵀ/√K) V W_O in each head, where a query sees the keys up to its position. */
class Attention {
  constructor(weights, { d_model, n_heads, rotary = true, query_step = 1, key_step = 1, width = d_model, d_out }) {
    Object.assign(this, { n_heads, rotary, query_step, key_step, width, name: weights.name, step: weights.step });
    for (const name of ["query", "key", "value"]) this[name] = Linear(weights.of(name), d_model, width);
    this.output = Linear(weights.of("output"), width, d_out ?? d_model);
  }
  /** Rotate queries from position `start` on, keys after `seen` others. */
  turn(q, k, start, seen) {
    if (!this.rotary) return [q, k];
    const { width, n_heads, query_step, key_step } = this;
    return [rotate(q, width, n_heads, start, query_step), rotate(k, width, n_heads, seen * key_step, key_step)];
  }
  attend(q, k, v, start, cache) {
    const { width, n_heads, query_step, key_step } = this, K = width / n_heads, y = new Float32Array(q.length);
    const [keys, values] = cache.append(this, width, k, v), m = cache.length(this);
    for (let i = 0, row = 0; row < q.length; i++, row += width) {
      const position = start + query_step * i, n = Math.min(m, Math.floor(position / key_step) + 1);  // visible keys
      const weights = new Float32Array(n_heads * n);
      for (let h = 0; h < n_heads; h++) {
        const head = weights.subarray(h * n, (h + 1) * n);
        for (let s = 0; s < n; s++) {
          let score = 0;
          for (let c = 0, a = row + h * K, b = s * width + h * K; c < K; c++, a++, b++) score += q[a] * keys[b];
          head[s] = score / Math.sqrt(K);
        }
        y.set(mixture(softmax(head), values, width, h * K, K), row + h * K);
      }
      cache.watch?.(this, "attention", position, weights);  // [n_heads * n]
    }
    return this.output(y);
  }
}

class MultiHeadAttention extends Attention {
  project(x, cache) {
    return [this.query(x), this.key(x), this.value(x)];
  }
  forward(x, cache) {
    const start = cache.length(this), [q, k, v] = this.project(x, cache);
    return this.attend(...this.turn(q, k, start, start), v, start, cache);
  }
}

// ---- transformer.py

/** The position-wise network W₂ f(W₁ x). */
class FeedForward {
  constructor(weights, d_model, d_ff, activation) {
    this.up = Linear(weights.of("up"), d_model, d_ff);
    this.activation = activation;
    this.down = Linear(weights.of("down"), d_ff, d_model);
  }
  forward(x) {
    return this.down(map(this.up(x), this.activation));
  }
}

/** A pre-norm layer: h = x + A(LN(x)), then y = h + F(LN(h)). */
class TransformerLayer {
  constructor(weights, attention, feed_forward, d_model, eps) {
    Object.assign(this, { attention, feed_forward });
    this.norm1 = LayerNorm(weights.of("norm1"), d_model, eps);
    this.norm2 = LayerNorm(weights.of("norm2"), d_model, eps);
  }
  forward(x, cache) {
    x = add(x, this.attention.forward(this.norm1(x), cache));
    return add(x, this.feed_forward.forward(this.norm2(x)));
  }
}

class LearnedPositions {
  constructor(weights, d_model, max_seq_len) {
    this.d_model = d_model;
    this.weight = weights.take("weight", max_seq_len, d_model);
  }
  forward(x, cache) {
    const start = cache.advance(this, x.length / this.d_model);
    return add(x, this.weight.subarray(start * this.d_model));
  }
}

class Stack {
  constructor(layers) {
    this.layers = layers;
  }
  forward(x, cache) {
    for (const layer of this.layers) x = layer.forward(x, cache);
    return x;
  }
}

// ---- convolution.py

/** y[t, c] = b[c] + Σ_j w[c, j] · x[t - dilation · j, c]; weight[..., j] is of the token dilation · j steps back. */
class CausalDepthwiseConv {
  constructor(weights, d_model, n_heads, { kernel_size, sharing, dilation = 1, bias = false }) {
    const heads = sharing === "none" ? n_heads : 1, channels = sharing === "all" ? 1 : d_model / n_heads;
    Object.assign(this, { d_model, kernel_size, dilation, kernels: heads * channels });
    this.weight = weights.take("weight", heads, channels, kernel_size);
    this.bias = bias ? weights.take("bias", heads, channels, 1) : new Float32Array(this.kernels);
  }
  forward(x, cache) {
    const { d_model, kernel_size: W, dilation, kernels, weight, bias } = this, past = (W - 1) * dilation;
    const long = cache.with_past(this, x, past, d_model), y = new Float32Array(x.length);
    for (let i = 0; i < x.length; i++) {
      const kernel = (i % d_model) % kernels;  // so heads, or heads and channels, share their kernels
      let sum = bias[kernel];
      for (let j = 0; j < W; j++) sum += weight[kernel * W + j] * long[i + (past - dilation * j) * d_model];
      y[i] = sum;
    }
    return y;
  }
}

// ---- primer.py

/** Attention whose queries, keys and values pass through a causal depthwise convolution. */
class MultiDConvHeadAttention extends MultiHeadAttention {
  constructor(weights, d_model, n_heads, { convolve, ...options }) {
    super(weights, { d_model, n_heads });
    for (const name of convolve) {
      this[`conv_${name}`] = new CausalDepthwiseConv(weights.of(`conv_${name}`), d_model, n_heads, options);
    }
  }
  project(x, cache) {
    return super.project(x).map((z, i) => this[`conv_${"qkv"[i]}`]?.forward(z, cache) ?? z);
  }
}

/** The position-wise network W₂ (f(W₃ x) ⊙ W₁ x); SwiGLU when f is SiLU. */
class GatedFeedForward extends FeedForward {
  constructor(weights, d_model, d_ff, activation) {
    super(weights, d_model, d_ff, activation);
    this.gate = Linear(weights.of("gate"), d_model, d_ff);
  }
  forward(x) {
    return this.down(multiply(map(this.gate(x), this.activation), this.up(x)));
  }
}

/** Attention whose queries are made from its keys: K = conv(x W_K), then Q = K W_Q. */
class SharedQueryKeyAttention extends MultiDConvHeadAttention {
  constructor(weights, d_model, n_heads, options) {
    super(weights, d_model, n_heads, { convolve: "kv", ...options });
  }
  project(x, cache) {
    const k = this.conv_k.forward(this.key(x), cache);
    return [this.query(k), k, this.conv_v.forward(this.value(x), cache)];
  }
}

/** Primer's placement of norms: h = x + A(N(x)) as before, but then y = h + N(F(h)); N is LayerNorm with its own ε. */
class PrimerLayer extends TransformerLayer {
  constructor(weights, attention, feed_forward, d_model) {
    super(weights, attention, feed_forward, d_model, 1e-6);
  }
  forward(x, cache) {
    x = add(x, this.attention.forward(this.norm1(x), cache));
    return add(x, this.norm2(this.feed_forward.forward(x)));
  }
}

const ACTIVATIONS = {
  "squared-relu": (weights, d_model, d_ff) => new FeedForward(weights, d_model, d_ff, squared_relu),
  relu: (weights, d_model, d_ff) => new FeedForward(weights, d_model, d_ff, relu),
  gelu: (weights, d_model, d_ff) => new FeedForward(weights, d_model, d_ff, gelu),
  swiglu: (weights, d_model, d_ff) => new GatedFeedForward(weights, d_model, Math.round((2 * d_ff) / 3), silu),
};

// ---- resampling.py

/** Window j holds the tokens jk - k + 1 to jk, with zeros before the first token: complete when token jk is read. */
class Shortening {
  constructor(weights, d_model, factor) {
    Object.assign(this, { d_model, factor });
  }
  /** The windows that end in x, one after the other: [n, k * d_model]. */
  windows(x, cache) {
    const { d_model, factor: k } = this, phase = cache.phase(this, x.length / d_model, k);
    const skip = (k - phase) % k;  // tokens until the next window ends
    x = cache.with_past(this, x, k - 1, d_model);  // the package's ShiftRight
    const n = Math.max(0, Math.floor((x.length / d_model - skip) / k));
    return x.subarray(skip * d_model, (skip + n * k) * d_model);
  }
}

class AvgPoolShortening extends Shortening {
  forward(x, cache) {
    const { d_model, factor: k } = this, windows = this.windows(x, cache), y = new Float32Array(windows.length / k);
    for (let i = 0; i < windows.length; i++) {
      y[Math.floor(i / (k * d_model)) * d_model + (i % d_model)] += windows[i] / k;
    }
    return y;
  }
}

class LinearPoolingShortening extends Shortening {
  constructor(weights, d_model, factor) {
    super(weights, d_model, factor);
    this.project = Linear(weights.of("project"), factor * d_model, d_model);
  }
  forward(x, cache) {
    return this.project(this.windows(x, cache));
  }
}

/** Each token gets the shortened vector of its window added: y[t] = x[t] + short[⌊t/k⌋]. */
class NaiveUpSampling {
  constructor(weights, d_model, factor) {
    Object.assign(this, { d_model, factor });
  }
  /** k vectors from each. */
  expand(short) {
    const { d_model: D, factor: k } = this, y = new Float32Array(k * short.length);
    for (let i = 0; i < y.length; i++) y[i] = short[Math.floor(i / (k * D)) * D + (i % D)];
    return y;
  }
  forward(x, short, cache) {
    const { d_model, factor: k } = this, phase = cache.phase(this, x.length / d_model, k);
    const skip = k - ((k - phase) % k);
    const long = cache.with_past(this, this.expand(short), k, d_model);  // those of the last window come first
    return add(x, long.subarray(skip * d_model));
  }
}

/** NaiveUpSampling, but each shortened vector becomes k different ones. */
class LinearUpSampling extends NaiveUpSampling {
  constructor(weights, d_model, factor) {
    super(weights, d_model, factor);
    this.expand = Linear(weights.of("project"), d_model, factor * d_model);
  }
}

/** Attention between two sequences; positions count tokens of the longer one. */
class CrossAttention extends Attention {
  forward(x, memory, cache) {
    const seen = cache.length(this);  // keys are counted when they are appended, queries by their projection
    const start = this.query_step * cache.advance(this.query, x.length / this.width);
    const [q, k] = this.turn(this.query(x), this.key(memory), start, seen);
    return this.attend(q, k, this.value(memory), start, cache);
  }
}

/** Attention-based resampling: h = u + A(LN(u), m), then y = h + F(LN(h)). */
class Resampling {
  constructor(weights, { d_model, n_heads, d_ff }, query_step, key_step) {
    this.attention = new CrossAttention(weights.of("attention"), { d_model, n_heads, query_step, key_step });
    this.feed_forward = new FeedForward(weights.of("feed_forward"), d_model, d_ff, relu);
    this.norm1 = LayerNorm(weights.of("norm1"), d_model);
    this.norm2 = LayerNorm(weights.of("norm2"), d_model);
  }
  resample(u, memory, cache) {
    const h = add(u, this.attention.forward(this.norm1(u), memory, cache));
    return add(h, this.feed_forward.forward(this.norm2(h)));
  }
}

/** Pool, then let the result look at all tokens so far. */
class AttentionBasedShortening extends Resampling {
  constructor(weights, sizes, pool) {
    super(weights, sizes, pool.factor, 1);
    this.pool = pool;
  }
  forward(x, cache) {
    return this.resample(this.pool.forward(x, cache), x, cache);
  }
}

/** Up-sample, then attend to all shortened vectors so far. */
class AttentionBasedUpSampling extends Resampling {
  constructor(weights, sizes, expand) {
    super(weights, sizes, 1, expand.factor);
    this.expand = expand;
  }
  forward(x, short, cache) {
    return this.resample(this.expand.forward(x, short, cache), short, cache);
  }
}

// ---- hourglass.py

/** Layers on all tokens, a body on the shortened sequence, layers on all tokens. */
class Hourglass {
  constructor(weights, d_model, parts) {
    Object.assign(this, parts);
    this.norm_before = LayerNorm(weights.of("norm_before"), d_model);
    this.norm_inside = LayerNorm(weights.of("norm_inside"), d_model);
  }
  forward(x, cache) {
    x = this.norm_before(this.before.forward(x, cache));
    let short = this.shorten.forward(x, cache);  // the windows that became complete
    if (short.length > 0) short = this.norm_inside(this.inside.forward(short, cache));
    return this.after.forward(this.up_sample.forward(x, short, cache), cache);
  }
}

/** "2@1 4@2 8@6 4@2 2@1" as layers and factors of each level, from the outside: [[2, 4, 8], [2, 3]]. */
function parse_hierarchy(hierarchy) {
  const stacks = String(hierarchy).split(" "), good = stacks.length % 2 && stacks.length > 1;
  const levels = stacks.slice(0, (stacks.length + 1) / 2).map((stack) => stack.split("@").map(Number));
  const factors = levels.slice(1).map(([, total], i) => total / levels[i][1]);
  const whole = levels.every(([n]) => Number.isInteger(n)) && factors.every((k) => Number.isInteger(k) && k > 0);
  const palindrome = String(stacks) === String([...stacks].reverse());
  require(good && whole && palindrome && levels[0][1] === 1, "hierarchy", hierarchy, "one such as “2@1 6@3 2@1”");
  for (const k of factors) require(k <= MOST_BACK, "a factor of the hierarchy", k, `at most ${MOST_BACK} tokens`);
  return [levels.map(([n]) => n), factors];
}

function build_hourglass(weights, config, [n, ...inner_n], [k, ...inner_factors], layer) {
  const { d_model, shortening, up_sampling, pooling, expansion } = config;
  const stack = (part, count) => new Stack(Array.from({ length: count }, (_, i) => layer(part.of(i))));
  const shorten = (part, kind) =>
    kind === "attention" ? new AttentionBasedShortening(part, config, shorten(part.of("pool"), pooling))
      : new (kind === "linear" ? LinearPoolingShortening : AvgPoolShortening)(part, d_model, k);
  const up_sample = (part, kind) =>
    kind === "attention" ? new AttentionBasedUpSampling(part, config, up_sample(part.of("expand"), expansion))
      : new (kind === "linear" ? LinearUpSampling : NaiveUpSampling)(part, d_model, k);
  const inside = weights.of("inside", k);
  return new Hourglass(weights, d_model, {
    before: stack(weights.of("before"), n),
    shorten: shorten(weights.of("shorten"), shortening),
    inside: inner_factors.length ? build_hourglass(inside, config, inner_n, inner_factors, layer)
      : stack(inside, inner_n[0]),
    up_sample: up_sample(weights.of("up_sample"), up_sampling),
    after: stack(weights.of("after"), n),
  });
}

// ---- gmlp.py

/** The gate that mixes tokens: s(Z) = Z₁ ⊙ f(Z₂) with f(Z) = W LN(Z) + b, where W acts along the sequence. */
class SpatialGatingUnit {
  constructor(weights, d_ffn, n, { gate, weight }) {
    Object.assign(this, { n, kind: gate, d_out: gate === "split" ? d_ffn / 2 : d_ffn });
    Object.assign(this, { name: weights.name, step: weights.step, weight, triangle: weights.tensors.has(weights.of("weight.tril").name) });
    this.norm = LayerNorm(weights.of("norm"), this.d_out);
    this.W = this.triangle ? weights.take("weight.tril", (n * (n + 1)) / 2)  // a model that ships
      : weight === "dense" ? weights.take("weight", n, n) : weights.take("weight", n).slice().reverse();
    this.bias = weights.take("bias", n);
  }
  /** Row t of the matrix, up to the diagonal: [t + 1]. */
  row(t) {
    const { W, n } = this;
    if (this.triangle) return W.subarray((t * (t + 1)) / 2, ((t + 1) * (t + 2)) / 2);
    return this.weight === "dense" ? W.subarray(t * n, t * n + t + 1) : W.subarray(n - 1 - t);
  }
  forward(z, cache, attended) {
    const { d_out, kind } = this, split = kind === "split", width = split ? 2 * d_out : d_out;
    const half = (offset) => {  // of each row of z, from this channel on
      const part = new Float32Array((z.length / width) * d_out);
      for (let from = offset, to = 0; to < part.length; from += width, to += d_out) {
        part.set(z.subarray(from, from + d_out), to);
      }
      return part;
    };
    const passed = half(0), mixed = this.norm(split ? half(d_out) : passed), f = new Float32Array(mixed.length);
    const start = cache.length(this), [past] = cache.append(this, d_out, mixed);
    for (let t = start, from = 0; from < f.length; t++, from += d_out) {
      const sums = mixture(this.row(t), past, d_out, 0, d_out);
      for (let c = 0; c < d_out; c++) f[from + c] = sums[c] + this.bias[t] + (attended ? attended[from + c] : 0);
      cache.watch?.(this, "row", t, this.row(t));
      cache.watch?.(this, "gate", t, f.subarray(from, from + d_out));
    }
    return kind === "linear" ? f : kind === "additive" ? add(passed, f) : multiply(passed, f);
  }
}

/** Attention with a single small head, without positions. */
class TinyAttention extends MultiHeadAttention {
  constructor(weights, d_model, d_out, d_attention) {
    super(weights, { d_model, n_heads: 1, rotary: false, width: d_attention, d_out });
  }
}

/** A residual block: y = x + W₂ s(GELU(W₁ LN(x))). */
class GMLPBlock {
  constructor(weights, { d_model, d_ff, max_seq_len, d_attention, ...options }) {
    const gate = (this.gate = new SpatialGatingUnit(weights.of("gate"), d_ff, max_seq_len, options));
    this.norm = LayerNorm(weights.of("norm"), d_model);
    this.up = Linear(weights.of("up"), d_model, d_ff);
    this.down = Linear(weights.of("down"), gate.d_out, d_model);
    this.attention = d_attention === null ? null
      : new TinyAttention(weights.of("attention"), d_model, gate.d_out, d_attention);
  }
  forward(x, cache) {
    const normed = this.norm(x), attended = this.attention?.forward(normed, cache);
    const z = map(this.up(normed), gelu);
    return add(x, this.down(this.gate.forward(z, cache, attended)));
  }
}

// ---- models.py

/** Of each family: its options with their defaults, and how a layer is made. */
const FAMILIES = {
  transformer: {
    options: { rotary: true },
    make_layer: (weights, { d_model, n_heads, d_ff, rotary }) => new TransformerLayer(weights,
      new MultiHeadAttention(weights.of("attention"), { d_model, n_heads, rotary }),
      new FeedForward(weights.of("feed_forward"), d_model, d_ff, relu), d_model),
  },
  "primer-ez": {
    options: {
      activation: "squared-relu", convolve: "qkv", kernel_size: 3, sharing: "heads", dilation: 1, bias: false,
      init: "official",
    },
    make_layer: (weights, { d_model, n_heads, d_ff, activation, ...options }) => new TransformerLayer(weights,
      new MultiDConvHeadAttention(weights.of("attention"), d_model, n_heads, options),
      ACTIVATIONS[activation](weights.of("feed_forward"), d_model, d_ff), d_model),
  },
  primer: {
    options: { kernel_size: 3, sharing: "none" },
    make_layer: (weights, { d_model, n_heads, d_ff, ...options }) => new PrimerLayer(weights,
      new SharedQueryKeyAttention(weights.of("attention"), d_model, n_heads, options),
      new FeedForward(weights.of("feed_forward"), d_model, d_ff, squared_relu), d_model),
  },
  hourglass: {
    options: {
      hierarchy: null, shortening: "average", up_sampling: "naive", pooling: "average", expansion: "naive",
      layer: "transformer",
    },
    make_body(weights, config) {
      const { layer, d_model, n_heads, d_ff } = config, { options, make_layer } = FAMILIES[layer];
      const make = (part) => make_layer(part, { ...options, d_model, n_heads, d_ff });
      return build_hourglass(weights, config, ...parse_hierarchy(config.hierarchy), make);
    },
  },
  gmlp: {
    options: {
      gate: "split", weight: "toeplitz", start: "open", fft: false, d_attention: null, positions: false,
    },
    make_layer: (weights, config) => new GMLPBlock(weights, config),
  },
};

const SIZES = ["vocab_size", "d_model", "n_layers", "n_heads", "d_ff", "max_seq_len"];
const KNOWN = {
  activation: Object.keys(ACTIVATIONS), convolve: ["", "q", "k", "v", "qk", "qv", "kv", "qkv"],
  sharing: ["heads", "none", "all"], shortening: ["average", "linear", "attention"],
  up_sampling: ["naive", "linear", "attention"], pooling: ["average", "linear"], expansion: ["naive", "linear"],
  layer: ["transformer", "primer-ez"], gate: ["split", "whole", "additive", "linear"], weight: ["dense", "toeplitz"],
  start: ["open", "shut"],
};

/** Tokens to logits: embedding, body, LayerNorm, and the embedding matrix once more. */
class LanguageModel {
  constructor(weights, body, config) {
    const { vocab_size, d_model, max_seq_len } = config;
    Object.assign(this, { body, config, vocab_size, d_model, max_seq_len });
    this.embedding = weights.of("embedding").take("weight", vocab_size, d_model);
    this.norm = LayerNorm(weights.of("norm"), d_model);
  }
  /** The logits after each of the tokens, [T * vocab_size]. */
  forward(tokens, cache = new Cache()) {
    this.check_tokens(tokens, cache);
    cache.tokens_read += tokens.length;
    const D = this.d_model, x = new Float32Array(tokens.length * D);
    tokens.forEach((token, t) => x.set(this.embedding.subarray(token * D, (token + 1) * D), t * D));
    return product(this.norm(this.body.forward(x, cache)), this.embedding, D);
  }
  check_tokens(tokens, cache) {
    const n = this.vocab_size, T = cache.tokens_read + tokens.length, most = this.max_seq_len;
    require(tokens.length > 0, "the text", "", "at least one character");
    require(T <= most, "the length of the text", T, `at most ${most} characters, the context of this model`);
    const worst = tokens.find((token) => !(Number.isInteger(token) && token >= 0 && token < n));
    require(worst === undefined, "a token", worst, `0 to ${n - 1}, the vocabulary`);
  }
}

/** The model that config.json describes, if the weights are its own. */
function build_model(config, tensors) {
  const { format = 1, vocabulary_sha256, trained_seq_len, name, dropout, ...given } = config;
  require(format === 3, "the format of config.json", format, "3; save the model again");
  require_known("the model's name", name, Object.keys(FAMILIES));
  const { options, make_layer, make_body } = FAMILIES[name], settled = { ...options, ...given };
  for (const option of Object.keys(given)) require_known("an option", option, [...SIZES, ...Object.keys(options)]);
  for (const size of SIZES) require_int(size, settled[size], 1);
  for (const size of ["kernel_size", "dilation"]) if (size in settled) require_int(size, settled[size], 1);
  require((settled.dilation ?? 1) <= MOST_BACK, "dilation", settled.dilation, `at most ${MOST_BACK} tokens`);
  for (const option of Object.keys(options)) {
    if (option in KNOWN) require_known(option, settled[option], KNOWN[option]);
  }
  const { d_model, n_layers, n_heads, max_seq_len, positions } = settled, weights = new Weights(tensors);
  require(d_model % n_heads === 0, "d_model", d_model, `a multiple of n_heads=${n_heads}`);
  require(n_layers <= tensors.size, "n_layers", n_layers, `at most ${tensors.size}, the number of tensors`);
  const body = weights.of("body"), first = positions ? 1 : 0;
  const layers = () => new Stack(Array.from({ length: n_layers + first }, (_, i) => i < first
    ? new LearnedPositions(body.of(i), d_model, max_seq_len) : make_layer(body.of(i), settled)));
  const model = new LanguageModel(weights, make_body ? make_body(body, settled) : layers(), { name, ...settled });
  const rest = [...tensors.keys()].filter((key) => !tensors.get(key).taken);
  require(rest.length === 0, "the rest of model.safetensors", rest, "nothing, for the model in config.json");
  return model;
}

// ---- saving.py

/** float16 to float32: its bits at a float32's places are the number times 2^-112, if it is finite. */
function from_float16(halves) {
  const floats = new Float32Array(halves.length), bits = new Uint32Array(floats.buffer);
  for (let i = 0; i < halves.length; i++) bits[i] = ((halves[i] & 0x8000) << 16) | ((halves[i] & 0x7fff) << 13);
  for (let i = 0; i < halves.length; i++) floats[i] *= 2 ** 112;
  return floats;
}

function bytes_of(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

/** The tensors of a safetensors file: length of the header, header, numbers. */
function read_safetensors(buffer) {
  const bad = (why) => new Error(`model.safetensors does not hold weights: ${why}; expected a safetensors file`);
  if (buffer.byteLength < 8) throw bad(`it has ${buffer.byteLength} bytes`);
  const start = 8 + Number(new DataView(buffer).getBigUint64(0, true)), tensors = new Map();
  if (start > buffer.byteLength) throw bad("it ends before its header does");
  let header;
  try {
    header = Object.entries(JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, start - 8))));
  } catch {
    throw bad("its header is not JSON");
  }
  for (const [name, { dtype, shape, data_offsets }] of header) {
    if (name === "__metadata__") continue;
    require_known(`the type of ${name}`, dtype, ["F16", "F32"]);
    const [from, to] = data_offsets, n = shape.reduce((a, b) => a * b, 1);
    if (start + to > buffer.byteLength || to - from !== n * (dtype === "F16" ? 2 : 4)) throw bad(`${name} is cut off`);
    const data = buffer.slice(start + from, start + to);
    tensors.set(name, { shape, data: dtype === "F16" ? from_float16(new Uint16Array(data)) : new Float32Array(data) });
  }
  return tensors;
}

// ---- generation.py

/** Random numbers from 0 to 1 (mulberry32), not PyTorch's. */
function generator(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The `top_k` likeliest tokens, and their share of softmax(logits / temperature); at 0 the likeliest alone. */
function likeliest(logits, temperature, top_k) {
  const all = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a]), tau = Math.max(temperature, 1e-38);
  const tokens = all.slice(0, temperature < tau ? 1 : top_k);
  return [tokens, softmax(Float64Array.from(tokens, (token) => logits[token]), tau)];
}

/** One of them. */
function draw(logits, temperature, top_k, random = Math.random) {
  const [tokens, p] = likeliest(logits, temperature, top_k);
  let rest = random(), i = 0;
  while (i < p.length - 1 && (rest -= p[i]) >= 0) i++;
  return tokens[i];
}

// ---- tokens.py

/** The characters of a corpus in code-point order, a character's token being its place; or all 256 bytes. */
class Vocabulary {
  /** `found` is what vocabulary.json holds: {"characters": "…"} or {"tokens": "bytes"}. */
  constructor(found) {
    this.bytes = found?.tokens === "bytes";
    const good = this.bytes || typeof found?.characters === "string";
    require(good, "vocabulary.json", found, "an object with characters or bytes");
    this.characters = this.bytes ? Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)) : [...found.characters];
    this.tokens = new Map(this.characters.map((c, token) => [c, token]));
  }
  /** The tokens of one character. */
  encode(character) {
    if (this.bytes) return [...new TextEncoder().encode(character)];
    const known = `one of this model's ${this.characters.length} characters: ${this.characters.join("").trim()}`;
    require(this.tokens.has(character), "a character", character, known);
    return [this.tokens.get(character)];
  }
}

return { Cache, Vocabulary, build_model, bytes_of, draw, gelu, generator, likeliest, read_safetensors, require, softmax };
}
