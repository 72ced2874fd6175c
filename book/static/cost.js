// What a model of the book costs, in closed form: src/efficient_transformers/models/cost.py once more, for the pages.
// A test compares the two. Sizes are d_model, n_heads, n_layers, d_ff, vocab_size; T is the length of the sequence.
const cost_model = (() => {
"use strict";
const KERNEL = 3; // tokens that a convolution of Primer's mixes
const FLOAT = 4; // bytes
const BLOCKS = { gmlp: {}, "dense-gmlp": { dense: true }, amlp: { attention: 64 } }; // what each has of its own; attention in channels

// A part's cost: multiply-adds and numbers kept for the backward pass, per token; parameters and numbers in the cache.
const FIELDS = ["multiply_adds", "activations", "parameters", "cached"];
const sum = (...parts) => Object.fromEntries(FIELDS.map((f) => [f, parts.reduce((total, part) => total + (part[f] ?? 0), 0)]));
const times = (n, part) => Object.fromEntries(FIELDS.map((f) => [f, n * part[f]]));
/** A part that runs for a share of the tokens. */
const sometimes = (share, part) => ({ ...part, multiply_adds: share * part.multiply_adds, activations: share * part.activations });

// What a family changes in a layer: the matrices of its network and their hidden channels, the numbers that autograd
// keeps for each of these and for each channel, its convolutions and their kernels.
const BASELINE = { matrices: 2, hidden: (F) => F, kept_hidden: 1, kept_more: 0, convolutions: 0, kernels: () => 0 };
const LAYERS = {
  transformer: BASELINE,
  swiglu: { ...BASELINE, matrices: 3, hidden: (F) => Math.round(2 * F / 3), kept_hidden: 4 },
  "primer-ez": { ...BASELINE, kept_hidden: 2, convolutions: 3, kernels: (D, H) => D / H },
  primer: { ...BASELINE, kept_hidden: 2, kept_more: 3, convolutions: 2, kernels: (D) => D },
};

function layer_cost({ d_model: D, n_heads: H, d_ff }, T, kind) {
  const { matrices, hidden, kept_hidden, kept_more, convolutions, kernels } = LAYERS[kind];
  const F = hidden(d_ff), M = 4 * D * D + matrices * D * F;
  return {
    multiply_adds: M + (KERNEL * convolutions + 2 * T) * D,
    activations: (8 + kept_more) * D + kept_hidden * F + convolutions * (1 + (KERNEL - 1) / T) * D,
    parameters: M + 4 * D + KERNEL * convolutions * kernels(D, H),
    cached: 2 * T * D + (KERNEL - 1) * convolutions * D,
  };
}

/** A block of gMLP with a split gate; of a dense causal matrix, the lower triangle can change what comes out. */
function block_cost({ d_model: D, d_ff: F }, T, { dense = false, attention: A = 0 }) {
  const half = F / 2, M = D * F + half * D + A * (3 * D + half);
  return {
    multiply_adds: M + T * half + 2 * T * A,
    activations: 2 * D + 2 * F + 3 * half + 4 * A,
    parameters: M + 2 * D + 2 * half + (dense ? T * (T + 1) / 2 : T) + T,
    cached: T * half + 2 * T * A,
  };
}

function hourglass_cost(sizes, T, { n_layers: [n, ...n_inside], factors: [k, ...factors_inside], resampling }) {
  const D = sizes.d_model, windows = Math.floor((T - 1) / k) + 1, share = windows / T;
  const inside = factors_inside.length
    ? hourglass_cost(sizes, windows, { n_layers: n_inside, factors: factors_inside, resampling })
    : times(n_inside[0], layer_cost(sizes, windows, "transformer"));
  const norms = { activations: D * (1 + share), parameters: 4 * D }, shifts = { cached: (2 * k - 1) * D };
  return sum(times(2 * n, layer_cost(sizes, T, "transformer")), sometimes(share, inside), norms, shifts,
    resampling_cost(sizes, T, k, share, 1, resampling), resampling_cost(sizes, T, k, 1, share, resampling));
}

/** A shortening, where windows ask tokens, or an up-sampling, where tokens ask windows: how many of each there are per token. */
function resampling_cost({ d_model: D, d_ff: F }, T, k, asking, asked, resampling) {
  const share = Math.min(asking, asked), square = D * D;
  if (resampling === "simplest") return {};
  if (resampling === "linear") return { multiply_adds: share * k * square, activations: asked * D, parameters: k * square };
  const keys = 2 * square, rest = 2 * square + 2 * D * F; // keys and values; queries, results and the network
  return {
    multiply_adds: asked * keys + asking * rest + 2 * share * T * D,
    activations: asked * 3 * D + asking * (6 * D + F),
    parameters: keys + rest + 4 * D,
    cached: 2 * asked * T * D,
  };
}

/** The hierarchy of build_model's hourglass of so many layers. */
function default_hierarchy(n_layers) {
  const outside = Math.min(1, Math.floor(n_layers / 2));
  return `${outside}@1 ${n_layers - 2 * outside}@4 ${outside}@1`;
}

/** The paper's notation as layers and factors of each level; an Error with a sentence where it is none. */
function parse_hierarchy(hierarchy) {
  const refuse = (what, expected) => { throw new Error(`${what}; expected ${expected}.`); };
  const stacks = hierarchy.trim().split(/\s+/), levels = [];
  for (const stack of stacks) {
    const [, layers, factor] = stack.match(/^(\d{1,4})@(\d{1,6})$/) ?? refuse(`“${stack}” is no stack`, "layers@factor, such as 2@4");
    if (!Number(factor)) refuse(`The factor of ${stack} is 0`, "at least 1");
    levels.push([Number(layers), Number(factor)]);
  }
  if (stacks.join() !== [...stacks].reverse().join() || stacks.length % 2 === 0) refuse(`“${hierarchy.trim()}” does not read the same from its end`, "a way in and the same way out, such as 1@1 2@4 1@1");
  levels.length = (levels.length + 1) / 2;
  const totals = levels.map(([, factor]) => factor);
  if (totals[0] !== 1 || totals.length < 2) refuse(`“${hierarchy.trim()}” has no stack around another`, "a first stack @1 and another one inside");
  const factors = totals.slice(1).map((inner, i) => inner % totals[i] ? refuse(`Factor ${inner} is no multiple of ${totals[i]}`, "one of the factor around it") : inner / totals[i]);
  return { n_layers: levels.map(([layers]) => layers), factors };
}

/** A model's parameters, multiply-adds per token, and bytes of one sequence: kept for the backward pass, and in a cache. */
function cost_model(name, sizes, T) {
  const n = sizes.n_layers, levels = parse_hierarchy(sizes.hierarchy || default_hierarchy(n));
  const body = name === "hourglass" ? hourglass_cost(sizes, T, { ...levels, resampling: sizes.resampling })
    : name in BLOCKS ? times(2 * n, block_cost(sizes, T, BLOCKS[name])) : times(n, layer_cost(sizes, T, name)); // two blocks a layer
  const matrix = sizes.d_model * sizes.vocab_size; // embedding and output are one
  return {
    parameters: body.parameters + matrix + 2 * sizes.d_model,
    multiply_adds: body.multiply_adds + matrix,
    activation_bytes: FLOAT * body.activations * T,
    cache_bytes: FLOAT * body.cached,
  };
}

return Object.assign(cost_model, { parse_hierarchy, default_hierarchy });
})();
