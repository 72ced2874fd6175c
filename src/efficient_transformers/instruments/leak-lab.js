/* Leak Lab: which inputs does an output depend on? Four mechanisms, their mistakes, and what each remembers.

What is notable:
- `reads` is the whole theory: for each mechanism, the tokens that one output reads; pictures and sentences follow from
  it, and so does what the tests compare with the leak maps of the package's layers;
- one script for every page and for notebooks: it finds the elements with the class "leak-lab" and fills them.
*/
"use strict";
var LeakLab = (() => {
  const TEXT = "Once more unto the breach", T = 24;

  // Each mechanism: its sliders [label, smallest, largest, first value], and what output t reads of T tokens.
  const MECHANISMS = {
    attention: {
      name: "Attention",
      sliders: { a: ["tokens ahead that the mask lets through", 0, 6, 1] },
      reads: ({ a }, t) => range(0, t + a),
      memory: (_, t) => `the keys and values of ${plural(t + 1, "token")}`,
      right: () => "at 0 the mask is causal",
      isRight: ({ a }) => a === 0,
    },
    convolution: {
      name: "Convolution",
      sliders: { w: ["width W", 1, 7, 3], d: ["dilation", 1, 3, 1], s: ["padding on the left", 0, 18, 1] },
      reads: ({ w, d, s }, t) => range(0, w - 1).map(j => t - s + j * d),
      memory: ({ w, d }) => `its last ${plural((w - 1) * d, "input")}`,
      right: ({ w, d }) => `(W − 1) · dilation = ${(w - 1) * d} is the padding that is causal and loses nothing`,
      isRight: ({ w, d, s }) => s === (w - 1) * d,
    },
    hourglass: {
      name: "Hourglass",
      sliders: { k: ["factor k", 2, 8, 4], s: ["shift s", 0, 8, 2] },
      reads: ({ k, s }, t) => [...range(0, k - 1).map(i => Math.floor(t / k) * k - s + i), t],
      memory: ({ k }, t) => `${plural(Math.min(t, k - 1), "token")} of the window to come, and the result of the last`
        + ` one; the inner layers ${t % k ? `wait for token ${(Math.floor(t / k) + 1) * k}` : "run now"}`,
      right: ({ k }) => `k − 1 = ${k - 1} is the smallest shift that is honest`,
      isRight: ({ k, s }) => s === k - 1,
    },
    gmlp: {
      name: "gMLP",
      sliders: { a: ["diagonals above the main one that W keeps", 0, 6, 1] },
      reads: ({ a }, t) => range(0, t + a),
      memory: (_, t) => `${plural(t + 1, "normalized row")} of the gate's input`,
      right: () => "at 0 the matrix is triangular",
      isRight: ({ a }) => a === 0,
    },
  };

  const range = (a, b) => Array.from({ length: Math.max(0, b - a + 1) }, (_, i) => a + i);
  const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const shown = c => (c === " " ? "␣" : c);

  /** The tokens that output t reads, ascending, none outside the text. */
  function reads(mechanism, values, t, length = T) {
    const found = MECHANISMS[mechanism].reads(values, t).filter(s => s >= 0 && s < length);
    return [...new Set(found)].sort((a, b) => a - b);
  }

  /** What one setting shows, as a sentence. */
  function sentence(mechanism, values, t) {
    const m = MECHANISMS[mechanism], seen = reads(mechanism, values, t), ahead = seen.filter(s => s > t).length;
    const leaks = range(0, T - 1).filter(u => reads(mechanism, values, u).some(s => s > u)).length;
    const what = seen.length ? `reads ${plural(seen.length, "token")}, ${spans(seen)}` : "reads nothing";
    const verdict = ahead ? `${ahead} of them in its future` : "none of them in its future";
    const stale = m.isRight(values) ? "" : ", but tokens that could be read are not";
    const count = leaks ? `${leaks} of ${T} outputs see their future` : `No output sees its future${stale}`;
    return `Output ${t} ${what}; ${verdict}. ${count}: ${m.right(values)}.`;
  }

  /** Ascending numbers as spans: [0, 1, 2, 5] is "0 to 2 and 5". */
  function spans(numbers) {
    const runs = [];
    for (const n of numbers) {
      if (runs.length && runs[runs.length - 1][1] === n - 1) runs[runs.length - 1][1] = n;
      else runs.push([n, n]);
    }
    return runs.map(([a, b]) => (a === b ? `${a}` : `${a} to ${b}`)).join(" and ");
  }

  const SVG = "http://www.w3.org/2000/svg";
  function svg(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }
  function html(parent, name, attributes = {}, text = "") {
    const element = document.createElement(name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    element.textContent = text;
    parent.append(element);
    return element;
  }

  /** Fill one element; its data attributes name the mechanism, and `data-fixed` leaves the choice out. */
  function mount(root) {
    if (root.dataset.mounted) return;
    root.dataset.mounted = "yes";
    root.replaceChildren();
    const state = { m: root.dataset.mechanism || "hourglass", t: 8, values: {} };
    for (const m in MECHANISMS) {
      state.values[m] = {};
      for (const key in MECHANISMS[m].sliders) state.values[m][key] = MECHANISMS[m].sliders[key][3];
    }
    restore(state);

    const choice = html(root, "div", { class: "choice", role: "group", "aria-label": "mechanism" });
    for (const m in MECHANISMS) {
      if (root.hasAttribute("data-fixed") && m !== state.m) continue;
      const button = html(choice, "button", { type: "button", "data-m": m }, MECHANISMS[m].name);
      button.addEventListener("click", () => { state.m = m; controls(); draw(); });
    }
    const sliders = html(root, "div", { class: "sliders" });
    const two = html(root, "div", { class: "two" });
    const flow = svg(two, "svg", { class: "flow", viewBox: "0 0 604 190", role: "img" });
    const map = svg(two, "svg", { class: "map", viewBox: "-0.5 -2.6 25 27.1", role: "img" });
    const said = html(root, "p", { "aria-live": "polite" });
    const decoding = html(root, "p", { class: "decoding" });
    const tools = html(root, "div", { class: "choice" });
    const step = html(tools, "button", { type: "button" }, "Decode one token");
    const mend = html(tools, "button", { type: "button" }, "Mend it");
    const link = html(tools, "a", { href: "#" }, "Link to this setting");
    step.addEventListener("click", () => { state.t = (state.t + 1) % T; state.decoding = true; draw(); });
    mend.addEventListener("click", () => { repair(state); controls(); draw(); });

    const values = () => state.values[state.m];

    function slider(key, label, low, high, value) {
      const row = html(sliders, "label", {}, `${label} `);
      const input = html(row, "input", { type: "range", min: low, max: high, "data-key": key });
      const output = html(row, "output");
      input.value = value;
      input.addEventListener("input", () => {
        if (key === "t") { state.t = +input.value; state.decoding = false; } else values()[key] = +input.value;
        draw();
      });
      return [input, output];
    }
    function controls() {
      sliders.replaceChildren();
      const kinds = MECHANISMS[state.m].sliders;
      for (const key in kinds) slider(key, kinds[key][0], kinds[key][1], kinds[key][2], values()[key]);
      slider("t", "output t", 0, T - 1, state.t);
    }

    function draw() {
      const { m, t } = state, seen = new Set(reads(m, values(), t)), cell = 25, x = i => 2 + i * cell + cell / 2;
      choice.querySelectorAll("button").forEach(b => b.setAttribute("aria-pressed", b.dataset.m === m));
      sliders.querySelectorAll("input").forEach(input => {
        const key = input.dataset.key, value = key === "t" ? t : values()[key];
        input.value = value;
        input.nextElementSibling.value = key === "t" ? `${value} “${shown(TEXT[value])}”` : value;
        input.setAttribute("aria-valuetext", input.nextElementSibling.value);
      });
      flow.replaceChildren();
      svg(flow, "text", { x: 2, y: 12, class: "small" }, "outputs");
      svg(flow, "text", { x: 2, y: 186, class: "small" }, "tokens");
      for (const s of seen) {
        const kind = s > t ? "future" : "past";
        svg(flow, "path", { d: `M${x(s)} 138 C${x(s)} 95 ${x(t)} 95 ${x(t)} 52`, class: kind });
      }
      for (let i = 0; i < T; i++) {
        const leaks = reads(m, values(), i).some(s => s > i);
        const box = { x: x(i) - 11, width: 22, height: 30, rx: 4 };
        const output = svg(flow, "rect", { ...box, y: 20, class: `box${i === t ? " own" : ""}${leaks ? " leaks" : ""}` });
        for (const event of ["pointerenter", "click"]) {
          output.addEventListener(event, () => { state.t = i; state.decoding = false; draw(); });
        }
        const kind = seen.has(i) ? (i > t ? " future" : " past") : "";
        svg(flow, "rect", { ...box, y: 140, class: `box${kind}` });
        svg(flow, "text", { x: x(i), y: 160, class: kind ? "on" : "" }, shown(TEXT[i]));
      }
      map.replaceChildren();
      svg(map, "text", { x: 0, y: -0.8, class: "small" }, "leak map: outputs down, tokens across");
      svg(map, "rect", { x: 0, y: 0, width: T, height: T, class: "frame" });
      for (let u = 0; u < T; u++) {
        for (const s of reads(m, values(), u)) {
          svg(map, "rect", { x: s, y: u, width: 0.94, height: 0.94, class: s > u ? "future" : "past" });
        }
      }
      svg(map, "rect", { x: 0, y: t, width: T, height: 1, class: "row" });
      said.textContent = sentence(m, values(), t);
      flow.setAttribute("aria-label", said.textContent);
      map.setAttribute("aria-label", `Leak map of ${T} outputs by ${T} tokens; red is the future.`);
      const memory = MECHANISMS[m].memory(values(), t);
      decoding.textContent = state.decoding ? `After token ${t} the cache holds ${memory}.` : "";
      mend.disabled = MECHANISMS[m].isRight(values());
      link.href = `#leak-lab?${new URLSearchParams({ m, t, ...values() })}`;
    }
    controls();
    draw();
  }

  /** The setting that is causal and loses nothing. */
  function repair(state) {
    const values = state.values[state.m];
    if ("a" in values) values.a = 0;
    else values.s = "k" in values ? values.k - 1 : (values.w - 1) * values.d;
  }

  /** Take the state from the address, if it names one that there is. */
  function restore(state) {
    const given = new URLSearchParams((location.hash.split("leak-lab?")[1] || ""));
    if (!(given.get("m") in MECHANISMS)) return;
    state.m = given.get("m");
    state.t = clamp(given.get("t"), 0, T - 1, state.t);
    for (const key in MECHANISMS[state.m].sliders) {
      const [, low, high, first] = MECHANISMS[state.m].sliders[key];
      state.values[state.m][key] = clamp(given.get(key), low, high, first);
    }
  }
  function clamp(text, low, high, otherwise) {
    const n = parseInt(text, 10);
    return Number.isNaN(n) ? otherwise : Math.min(high, Math.max(low, n));
  }

  const mountAll = () => document.querySelectorAll(".leak-lab").forEach(mount);
  if (typeof document !== "undefined") {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
    else mountAll();
  }
  return { MECHANISMS, reads, sentence, spans };
})();
if (typeof module !== "undefined") module.exports = LeakLab;
