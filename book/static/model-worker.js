/**
 * One model and the text that it has read: the page asks, this answers, beside the page, which never freezes.
 *
 * {load: {config, vocabulary, weights}}              → {config}; weights as bytes, or as base64
 * {read: text}                                       → {pieces}: of each character how surprising it was, in nats
 * {write: {ms, limit, temperature, top_k, seed}}     → {pieces, tokens, ms, restarted}: what fits into so many ms
 * {look: {place, temperature, top_k}}                → {expected, reads}: at a character, what was foretold and read
 * {map: {index, head}}                               → {shades}: one of the reads at every character, [n * n]
 * whatever goes wrong                                → {error}
 *
 * A piece is a character; of a model that reads bytes, all that make one, whose surprises add up.
 */
function model_worker(library, port) {
"use strict";
const { Cache, Vocabulary, build_model, bytes_of, draw, generator, likeliest, read_safetensors, require, softmax } = library;
let model, vocabulary, cache, pieces, foretold, tokens, first, predictions, seen, random, seed, decoder, unfinished;

const hex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");

/** Read some tokens, and keep the `predictions` after each of them, and what each layer saw. */
function read(added) {
  const n = model.vocab_size, logits = model.forward(added, cache);
  for (let t = 0; t < added.length; t++) predictions.push(logits.subarray(t * n, (t + 1) * n));
  tokens.push(...added);
}

/** Begin with these tokens; `first` is the first piece whose tokens are in the cache. */
function restart(all, from) {
  [first, tokens, predictions, seen] = [from, [], [], new Map()];
  cache = new Cache((layer, what, position, values) => {
    const key = `${layer.name} ${what}`, { key_step = 1, n_heads = 1, step } = layer;
    if (!seen.has(key)) seen.set(key, { what, name: layer.name, heads: n_heads, span: key_step * step, rows: [] });
    seen.get(key).rows.push([position * step, values.slice()]);
  });
  read(all);
}

/** How surprising a token is after the logits: -log p, in nats. */
function surprise(logits, token) {
  return -Math.log(Math.max(softmax(Float64Array.from(logits))[token], 1e-300));
}

function show(token) {
  const c = vocabulary.characters[token];
  return vocabulary.bytes && (token < 32 || token > 126) ? `\\x${hex([token])}` : c;
}

/** What a head of a layer read at a piece: a number for each piece, or those of a gate. */
function read_by({ rows, what, heads, span }, h, place) {
  const end = pieces[place].end - 1, shades = new Float32Array(pieces.length);  // the token at which one looks
  let values = new Float32Array(0), piece = first;
  for (const row of rows) if (row[0] <= end) values = row[1];
  if (what === "gate") return values;
  for (let t = 0, n = values.length / heads; t <= end; t++) {
    while (pieces[piece].end <= t) piece++;
    const key = Math.ceil(t / span);  // the window that token t is in
    if (key < n) shades[piece] += values[h * n + key];
  }
  return shades;
}

const answers = {
  async load({ config, vocabulary: found, weights }) {
    const words = new Vocabulary(found), n = words.characters.length;
    require(config && typeof config === "object", "config.json", config, "an object with the arguments of build_model");
    const loaded = build_model(config, read_safetensors(typeof weights === "string" ? bytes_of(weights) : weights));
    require(n === loaded.vocab_size, "the number of characters in vocabulary.json", n,
      `${loaded.vocab_size}, as the model has`);
    const wanted = config.vocabulary_sha256;
    if (wanted && globalThis.crypto?.subtle) {  // which a page without https lacks
      const text = new TextEncoder().encode(words.characters.join(""));
      const digest = hex(await crypto.subtle.digest("SHA-256", text));
      require(digest === wanted, "the sha256 of vocabulary.json", digest, `${wanted}, as the model has`);
    }
    [model, vocabulary, pieces] = [loaded, words, null];
    return { config: model.config };
  },
  read(text) {
    const characters = Array.from(text), all = characters.map((c) => vocabulary.encode(c));
    require(characters.length > 0, "the text", text, "at least one character");
    model.check_tokens(all.flat(), new Cache());  // before the last text is forgotten
    restart(all.flat(), 0);
    let t = 0;
    foretold = [];  // the logits that a piece was drawn from, also when the model has forgotten them
    pieces = characters.map((c, i) => {
      let nats = i === 0 ? null : 0;  // nothing foretells the first character
      foretold.push(predictions[t - 1]);
      for (const token of all[i]) {
        if (i > 0) nats += surprise(predictions[t - 1], token);
        t++;
      }
      return { text: c, surprise: nats, end: t };
    });
    [random, unfinished, decoder] = [null, 0, new TextDecoder()];
    return { pieces };
  },
  write({ ms, limit, temperature, top_k, seed: asked }) {
    require(pieces, "the text", "", "at least one character");
    if (!random || seed !== asked) [random, seed] = [generator(asked), asked];
    const start = performance.now(), before = pieces.length;
    let written = 0, restarted = false;
    do {
      if (tokens.length === model.max_seq_len) {  // the context is full: read its second half again
        const half = tokens.slice(-Math.max(1, model.max_seq_len >> 1)), lost = tokens.length - half.length;
        for (const piece of pieces) piece.end -= lost;
        restart(half, Math.max(0, pieces.findIndex((piece) => piece.end > 0)));
        restarted = true;
      }
      const logits = predictions.at(-1), token = draw(logits, temperature, top_k, random);
      unfinished += surprise(logits, token);
      read([token]);
      written++;
      const bytes = Uint8Array.of(token), text = vocabulary.bytes ? decoder.decode(bytes, { stream: true }) : show(token);
      if (text) {
        foretold.push(logits);
        pieces.push({ text, surprise: unfinished, end: tokens.length });
        unfinished = 0;
      }
    } while (written < limit && performance.now() - start < ms);
    return { pieces: pieces.slice(before), tokens: written, ms: performance.now() - start, restarted };
  },
  /** After the last character there is a prediction, and nothing that was read. */
  look({ place, temperature = 1, top_k = model.vocab_size }) {
    const logits = place < pieces.length ? foretold[place] : predictions.at(-1);
    const [likely, p] = logits ? likeliest(logits, temperature, top_k) : [[], []];
    const answer = { expected: likely.slice(0, 10).map((token, i) => [show(token), p[i]]), reads: [] };
    if (place >= pieces.length || place < first) return answer;
    answer.reads = Array.from(seen.values(), (layer) => {
      const { name, what, span, heads } = layer, n = what === "attention" ? heads : 1;
      return { name, what, span, heads: Array.from({ length: n }, (_, h) => read_by(layer, h, place)) };
    });
    return answer;
  },
  map({ index, head }) {
    const layer = [...seen.values()][index], n = pieces.length, shades = new Float32Array(n * n);
    for (let place = first; place < n; place++) {
      for (let h = 0; h < layer.heads; h++) {
        if (head === null || h === head) read_by(layer, h, place).forEach((x, i) => (shades[place * n + i] += x));
      }
    }
    return { shades };
  },
};

port.onmessage = async ({ data: [question, value], ports: [asker] }) => {
  try {
    asker.postMessage(await answers[question](value));
  } catch (error) {
    asker.postMessage({ error: error.message });
  }
};
}
