/* Leak Lab: which inputs does an output depend on? Four mechanisms, their mistakes, and what each remembers.

What is notable:
- `reads` is the whole theory: for each mechanism, the tokens that one output reads; pictures and sentences follow from
  it, and so does what the tests compare with the leak maps of the package's layers;
- `holds` is the other half, what must be kept to write on; the tests compare it with what the package's cache keeps.
*/
"use strict";
var LeakLab = (() => {
  const { range, plural, glyph, clamp, html, svg, button, slider, link, define } = Instruments;
  const TEXT = "Once more unto the breach", T = 24;
  const windowOf = (t, k, s) => range(0, k - 1).map(i => t - t % k - s + i);

  // Each mechanism: its sliders [label, smallest, largest, first value], what output t reads of T tokens, and of which
  // tokens its cache holds what, once token t is read.
  const MECHANISMS = {
    attention: {
      name: "Attention",
      sliders: { a: ["tokens ahead that the mask lets through", 0, 6, 1] },
      reads: ({ a }, t) => range(0, t + a),
      holds: (_, t) => ({ "keys and values": range(0, t) }),
      right: () => "Where the mask lets 0 tokens ahead through, it is causal",
      isRight: ({ a }) => a === 0,
    },
    convolution: {
      name: "Convolution",
      sliders: { w: ["width W", 1, 7, 3], d: ["dilation", 1, 3, 1], s: ["padding on the left", 0, 18, 1] },
      reads: ({ w, d, s }, t) => range(0, w - 1).map(j => t - s + j * d),
      holds: ({ s }, t) => ({ inputs: range(t - s + 1, t) }),
      right: ({ w, d }) => `With (W\u00a0−\u00a01) · dilation\u00a0=\u00a0${(w - 1) * d} zeros on the left, none does, and each still reads its own token`,
      isRight: ({ w, d, s }) => s === (w - 1) * d,
    },
    hourglass: {
      name: "Hourglass",
      sliders: { k: ["factor k", 2, 8, 4], s: ["shift s", 0, 8, 2] },
      reads: ({ k, s }, t) => [...windowOf(t, k, s), t],
      windows: ({ k, s }) => range(0, Math.ceil(T / k) - 1).map(j => windowOf(j * k, k, s)),
      holds: ({ k, s }, t) => ({ inputs: range(t - s + 1, t), "result of a window": windowOf(t, k, s) }),
      inside: ({ k }, t) => (t % k ? `the inner layers wait for token ${t - t % k + k}` : "the inner layers run now"),
      right: ({ k }) => `The smallest honest shift is k\u00a0−\u00a01\u00a0=\u00a0${k - 1}`,
      isRight: ({ k, s }) => s === k - 1,
    },
    gmlp: {
      name: "gMLP",
      sliders: { a: ["diagonals above the main one that W keeps", 0, 6, 1] },
      reads: ({ a }, t) => range(0, t + a),
      holds: (_, t) => ({ "normalized rows": range(0, t) }),
      right: () => "Where W keeps 0 diagonals above the main one, no output does",
      isRight: ({ a }) => a === 0,
    },
  };

  const within = tokens => [...new Set(tokens)].filter(s => s >= 0 && s < T).sort((a, b) => a - b);

  /** The tokens that output t reads, ascending, none outside the text. */
  const reads = (mechanism, values, t) => within(MECHANISMS[mechanism].reads(values, t));
  const leaks = (mechanism, values, t) => reads(mechanism, values, t).some(s => s > t);
  const leaking = (mechanism, values) => range(0, T - 1).filter(t => leaks(mechanism, values, t)).length;

  /** What the cache holds after token t, as pairs of a name and tokens; nothing where no cache can help. */
  function holds(mechanism, values, t) {
    if (leaking(mechanism, values)) return [];
    const held = Object.entries(MECHANISMS[mechanism].holds(values, t));
    return held.map(([what, tokens]) => [what, within(tokens)]);
  }

  /** The same as a sentence. */
  function memory(mechanism, values, t) {
    const m = MECHANISMS[mechanism], count = leaking(mechanism, values);
    if (count) {
      return `As it stands, it cannot write token by token: ${plural(count, "output")} would read what is not`
        + " written yet.";
    }
    const held = holds(mechanism, values, t).map(([what, tokens]) =>
      `${what} of ${tokens.length ? `${tokens.length === 1 ? "token" : "tokens"} ${spans(tokens)}` : "no token"}`);
    return `After token ${t} the cache holds the ${held.join(" and the ")}${m.inside ? `; ${m.inside(values, t)}` : ""}.`;
  }

  /** What one setting shows, as a sentence. */
  function sentence(mechanism, values, t) {
    const m = MECHANISMS[mechanism], seen = reads(mechanism, values, t), ahead = seen.filter(s => s > t).length;
    const count = leaking(mechanism, values);
    const what = seen.length ? `reads ${plural(seen.length, "token")}, ${spans(seen)}` : "reads nothing";
    const verdict = ahead ? `${ahead} of them in its future` : "none of them in its future";
    const stale = m.isRight(values) ? "" : ", but tokens that could be read are not";
    const all = count ? `${count} of ${T} outputs see their future` : `No output sees its future${stale}`;
    return `Output ${t} ${what}; ${verdict}. ${all}. ${m.right(values)}.`;
  }

  /** Ascending numbers as spans: [0, 1, 2, 5, 7] is "0 to 2, 5 and 7". */
  function spans(numbers) {
    const runs = [];
    for (const n of numbers) {
      if (runs.length && runs[runs.length - 1][1] === n - 1) runs[runs.length - 1][1] = n;
      else runs.push([n, n]);
    }
    return runs.map(([a, b]) => (a === b ? `${a}` : `${a} to ${b}`)).join(", ").replace(/, ([^,]*)$/, " and $1");
  }

  /** Fill one element; its data attributes name the mechanism, and `data-fixed` leaves the choice out. */
  function mount(root) {
    const first = kinds => Object.fromEntries(Object.keys(kinds).map(key => [key, kinds[key][3]]));
    const state = { m: root.dataset.mechanism, t: 8, values: {} };
    for (const m in MECHANISMS) state.values[m] = first(MECHANISMS[m].sliders);
    const values = () => state.values[state.m];

    const names = Object.keys(MECHANISMS).filter(m => m === state.m || !root.hasAttribute("data-fixed"));
    const choice = html(root, "div", { class: "choice", role: "group", "aria-label": "mechanism" });
    const choices = names.map(m => button(choice, MECHANISMS[m].name, () => { state.m = m; controls(); draw(); }));
    choices.forEach((element, i) => { element.dataset.m = names[i]; });
    choice.hidden = names.length === 1;
    const sliders = html(root, "div", { class: "sliders" });
    const two = html(root, "div", { class: "two" });
    const flow = svg(two, "svg", { class: "flow", viewBox: "0 0 604 248", role: "img" });
    const map = svg(two, "svg", { class: "map", viewBox: "-0.5 -2.6 25 27.1", role: "img" });
    const said = html(root, "p", { "aria-live": "polite" });
    const tools = html(root, "div", { class: "choice" });
    const next = button(tools, "Decode one token", () => { state.t += 1; draw(); });
    const mend = button(tools, "Mend it", () => { repair(state); draw(); });
    const here = link(tools);

    let shown; // the sliders of the mechanism, by their keys
    function controls() {
      sliders.replaceChildren();
      shown = {};
      for (const [key, [label, low, high]] of Object.entries(MECHANISMS[state.m].sliders)) {
        shown[key] = slider(sliders, label, [low, high], String, value => { values()[key] = value; draw(); });
      }
      shown.t = slider(sliders, "output t", [0, T - 1], t => `${t} “${glyph(TEXT[t])}”`, t => { state.t = t; draw(); });
    }

    const cell = 25, x = i => 2 + i * cell + cell / 2;

    // A touch anywhere in a column chooses its output; a mouse need only come near the outputs.
    function touched(event) {
      const box = flow.getBoundingClientRect(), y = (event.clientY - box.top) * 248 / box.height;
      const t = Math.floor(((event.clientX - box.left) * 604 / box.width - 2) / cell);
      if (t < 0 || t >= T || t === state.t || !(event.buttons || y < 60)) return;
      state.t = t;
      draw();
    }
    flow.addEventListener("pointerdown", touched);
    flow.addEventListener("pointermove", touched);

    // A touch of the map chooses the output of its row.
    map.addEventListener("click", event => {
      const box = map.getBoundingClientRect(), t = Math.floor((event.clientY - box.top) * 27.1 / box.height - 2.6);
      if (t < 0 || t >= T) return;
      state.t = t;
      draw();
    });

    const kind = s => (s > state.t ? "future" : "past");
    const curve = (from, y, to, end, name) =>
      svg(flow, "path", { d: `M${from} ${y} C${from} ${(y + end) / 2} ${to} ${(y + end) / 2} ${to} ${end}`, class: name });

    /** From what is read to what reads it; in an hourglass by way of a window, which stands between the rows. */
    function drawPaths(m, t, seen) {
      const windows = (MECHANISMS[m].windows?.(values()) ?? []).map(within);
      const mine = windows[Math.floor(t / values().k)] ?? [];
      const middle = w => (x(w[0]) + x(w[w.length - 1])) / 2;
      for (const w of windows.filter(w => w.length)) {
        const name = `box${w === mine ? ` ${kind(w[w.length - 1])}` : ""}`;
        svg(flow, "rect", { x: x(w[0]) - 11, y: 86, width: cell * w.length - 3, height: 16, rx: 3, class: name });
      }
      for (const s of seen) {
        if (mine.includes(s)) curve(x(s), 138, middle(mine), 104, kind(s));
        if (!mine.includes(s) || s === t) curve(x(s), 138, x(t), 52, kind(s));
      }
      if (mine.length) curve(middle(mine), 84, x(t), 52, kind(mine[mine.length - 1]));
    }

    function drawFlow() {
      const { m, t } = state, seen = new Set(reads(m, values(), t));
      flow.replaceChildren();
      svg(flow, "text", { x: 2, y: 12, class: "small title" }, "outputs");
      const sees = seen.has(t + 1), answer = Math.min(Math.max(x(t + 1), 88), 562);
      svg(flow, "text", { x: 2, y: 188, class: "small title" }, "tokens");
      if (sees) svg(flow, "text", { x: answer, y: 188, class: "small answer" }, "its own answer");
      if (MECHANISMS[m].windows) svg(flow, "text", { x: 2, y: 79, class: "small title" }, "windows");
      drawPaths(m, t, seen);
      for (let i = 0; i < T; i++) {
        const box = { x: x(i) - 11, width: 22, height: 30, rx: 4 };
        const kind = seen.has(i) ? (i > t ? " future" : " past") : "";
        svg(flow, "rect", { ...box, y: 20, class: `box${i === t ? " own" : ""}${leaks(m, values(), i) ? " leaks" : ""}` });
        svg(flow, "rect", { ...box, y: 140, class: `box${kind}` });
        svg(flow, "text", { x: x(i), y: 160, class: kind ? "on" : "" }, glyph(TEXT[i]));
      }
      drawCache(holds(m, values(), t));
    }

    /** One shelf: what is held of single tokens stands on it, what is held of several together lies under it. */
    function drawCache(held) {
      const none = leaking(state.m, values()) > 0;
      const said = none ? "to write on, it would need letters that are not written yet"
        : `cache: ${held.map(([what]) => what).join(", and below, ")}`;
      svg(flow, "text", { x: 2, y: 212, class: "small title" }, said);
      svg(flow, "path", { class: none ? "shelf empty" : "shelf", d: "M2 237H602" });
      held.forEach(([, tokens], row) => {
        const boxes = row ? [[tokens[0], tokens.length]].filter(([, n]) => n) : tokens.map(s => [s, 1]);
        const box = row ? { y: 240, height: 6, rx: 2 } : { y: 217, height: 18, rx: 3 };
        for (const [s, n] of boxes) svg(flow, "rect", { x: x(s) - 11, width: cell * n - 3, ...box, class: "held" });
      });
    }

    function draw() {
      const { m, t } = state;
      choices.forEach(b => b.setAttribute("aria-pressed", b.dataset.m === m));
      for (const key in shown) shown[key].show(key === "t" ? t : values()[key]);
      drawFlow();
      map.replaceChildren();
      svg(map, "text", { x: 0, y: -0.8, class: "small title" }, "leak map: outputs down, tokens across");
      svg(map, "rect", { x: 0, y: 0, width: T, height: T, class: "frame" });
      for (let u = 0; u < T; u++) {
        for (const s of reads(m, values(), u)) {
          svg(map, "rect", { x: s, y: u, width: 0.94, height: 0.94, class: s > u ? "future" : "past" });
        }
      }
      svg(map, "rect", { x: 0, y: t, width: T, height: 1, class: "row" });
      said.textContent = `${sentence(m, values(), t)} ${memory(m, values(), t)}`;
      flow.setAttribute("aria-label", said.textContent);
      map.setAttribute("aria-label", `Leak map of ${T} outputs by ${T} tokens; red is the future.`);
      mend.disabled = MECHANISMS[m].isRight(values());
      next.disabled = t === T - 1 || leaking(m, values()) > 0; // the text ends, or what is read is not written yet
      here.href = `#${root.id}?${new URLSearchParams({ m, t, ...values() })}`;
    }
    controls();
    draw();

    return given => {
      if (!names.includes(given.get("m"))) return;
      state.m = given.get("m");
      state.t = Math.round(clamp(given.get("t"), 0, T - 1, state.t));
      for (const [key, [, low, high, start]] of Object.entries(MECHANISMS[state.m].sliders)) {
        values()[key] = Math.round(clamp(given.get(key), low, high, start));
      }
      controls();
      draw();
    };
  }

  /** The setting that is causal and loses nothing. */
  function repair(state) {
    const values = state.values[state.m];
    if ("a" in values) values.a = 0;
    else values.s = "k" in values ? values.k - 1 : (values.w - 1) * values.d;
  }

  define("leak-lab", mount);
  return { MECHANISMS, reads, holds, memory };
})();
