/* Reading Lamp: touch a character of a line, and what it reads is shaded on the line itself, a strip for each way to read.

What is notable:
- the weights are those of trained models: lower triangles of gates, and of attention maps by row, as whole numbers;
- of a gate one may look at the nearest Toeplitz matrix instead: `diagonalMeans` and `share` are equation (5.7).
*/
"use strict";
(() => {
  const { range, limit, clamp, signed, glyph, spoken, html, button, slider, link, bytes, define } = Instruments;
  const NAMES = { attention: "attention", convolved: "convolved attention", gate: "the gate" };
  const triangle = n => n * (n + 1) / 2;

  /** Row t of matrix `which` of several lower triangles, each of n rows, as numbers. */
  function row(numbers, scale, n, which, t) {
    const first = which * triangle(n) + triangle(t);
    return Array.from(numbers.subarray(first, first + t + 1), x => x * scale);
  }

  /** The mean of each diagonal of a lower triangle, by the distance j. */
  function diagonalMeans(rows) {
    const sums = rows.map(() => 0);
    for (const w of rows) w.forEach((x, s) => { sums[w.length - 1 - s] += x; });
    return sums.map((sum, j) => sum / (rows.length - j));
  }

  /** (5.7): the share of the sum of squares that is left when each weight becomes the mean of its diagonal. */
  function share(rows) {
    const kept = diagonalMeans(rows).reduce((sum, w, j) => sum + (rows.length - j) * w * w, 0);
    return kept / rows.flat().reduce((sum, w) => sum + w * w, 0);
  }

  const back = j => (j ? `${j} back` : "itself");

  /** The strongest weights of a row, in words, with what `say` makes of each. */
  function strongest(w, line, say) {
    const t = w.length - 1, order = range(0, t).sort((a, b) => Math.abs(w[b]) - Math.abs(w[a])).slice(0, 2);
    return order.map(s => `${spoken(line[s])} ${back(t - s)}${say(w[s])}`).join(" and ");
  }

  function mount(root) {
    root.style.setProperty("--strips", root.dataset.strips.split(" ").length); // room for what is said
    const lines = JSON.parse(root.dataset.lines), strips = root.dataset.strips.split(" ");
    const steps = (root.dataset.steps || "").split(",").map(Number);
    const unpack = ([text, scale]) => ({ numbers: bytes(text), scale });
    const maps = {}; // by strip: of attention by line, of the gate by step and block
    for (const strip of strips) {
      const packed = JSON.parse(root.dataset[strip]);
      maps[strip] = strip === "gate" ? packed.map(step => step.map(unpack)) : packed.map(unpack);
    }
    const longest = Math.max(...lines.map(line => line.length)), hasGate = strips.includes("gate");
    const blocks = hasGate ? maps.gate[0].length : 0, attends = strips.some(strip => strip !== "gate");
    const simple = "simple" in root.dataset; // one head, one block, no numbers
    const heads = simple ? 1 : 4, layers = simple ? 1 : 4; // of the models that ship
    const state = { line: 0, t: lines[0].length - 1, layer: 0, head: 0, block: 0, step: steps.length - 1, averaged: false };
    const set = change => { Object.assign(state, change); draw(); };
    const take = line => set({ line, t: limit(state.t, 0, lines[line].length - 1) });

    const choice = html(root, "div", { class: "choice", role: "group", "aria-label": "line" });
    const choices = lines.map((line, i) => button(choice, `“${line}”`, () => take(i)));
    const sliders = html(root, "div", { class: "sliders" });
    const character = slider(sliders, "character", [0, longest - 1],
      t => `${t} “${glyph(lines[state.line][t])}”`, t => set({ t: Math.min(t, lines[state.line].length - 1) }));
    const shown = { character: () => character.show(state.t) };
    const control = (key, label, high, say = i => String(i + 1)) => {
      const made = slider(sliders, label, [0, high - 1], say, value => set({ [key]: value }));
      shown[key] = () => made.show(state[key]);
    };
    const chooses = { head: attends && !simple, block: hasGate && !simple };
    if (chooses.head) control("layer", "layer", layers);
    if (chooses.head) control("head", "head", heads);
    if (chooses.block) control("block", "block of the gate", blocks);
    if (chooses.block) control("step", "training step of the gate", steps.length, i => steps[i].toLocaleString("en"));

    const written = strips.map(strip => {
      const box = html(root, "div", { class: `strip ${strip}` }), title = html(box, "div", { class: "name" });
      const text = html(box, "div", { class: "line", role: "img" });
      const touched = event => {
        const place = document.elementFromPoint(event.clientX, event.clientY)?.dataset.s;
        if (place !== undefined && text.contains(event.target) && +place !== state.t) set({ t: +place });
      };
      text.addEventListener("pointerdown", event => {
        touched(event);
        character.input.focus({ preventScroll: true }); // then the arrows move on from here
        event.preventDefault();
      });
      text.addEventListener("pointermove", touched);
      return { strip, title, text };
    });
    const said = html(root, "p", { "aria-live": "polite" });
    const tools = html(root, "div", { class: "choice" });
    const average = chooses.block && button(tools, "Replace diagonals by their mean", () => set({ averaged: !state.averaged }));
    const here = link(tools);

    /** What character t reads in a strip, and the name of what reads. */
    function reading(strip) {
      const { line, t, layer, head, block, step } = state;
      if (strip !== "gate") {
        const { numbers, scale } = maps[strip][line];
        const w = row(numbers, scale, lines[line].length, layer * heads + head, t), sum = w.reduce((a, b) => a + b);
        return [w.map(x => x / sum), `layer ${layer + 1}, head ${head + 1}`];
      }
      const { numbers, scale } = maps.gate[step][block];
      const rows = range(0, longest - 1).map(u => row(numbers, scale, longest, 0, u)), means = diagonalMeans(rows);
      const tau = `τ = ${(state.averaged ? 1 : share(rows)).toFixed(2)}`;
      const name = `block ${block + 1} after ${steps[step].toLocaleString("en")} steps, ${tau}`;
      return [state.averaged ? rows[t].map((_, s) => means[t - s]) : rows[t], name];
    }

    function draw() {
      const line = lines[state.line], parts = [];
      choices.forEach((element, i) => element.setAttribute("aria-pressed", i === state.line));
      character.input.max = line.length - 1;
      for (const key in shown) shown[key]();
      for (const { strip, title, text } of written) {
        const [w, name] = reading(strip), most = Math.max(...w.map(Math.abs));
        title.textContent = `${NAMES[strip][0].toUpperCase()}${NAMES[strip].slice(1)}${simple ? "" : `, ${name}`}`
          + (strip === "gate" ? ": its weights can be negative; red and blue differ in sign" : "");
        text.replaceChildren();
        [...line].forEach((c, s) => {
          const kind = s > state.t ? "later" : s === state.t ? "own" : "";
          const span = html(text, "span", { "data-s": s, class: `${kind}${w[s] < 0 ? " minus" : ""}` }, c);
          span.style.setProperty("--w", s > state.t ? 0 : Math.abs(w[s]) / most);
        });
        // As much room as the longest line takes, in words of their own, so that they do not break this one elsewhere.
        html(text, "i", { "aria-hidden": "true" }, " x".repeat((longest - line.length) / 2));
        const number = strip === "gate" ? x => (x < 0 ? "" : "+") + signed(x, 3) : x => `${(100 * x).toFixed(0)}\u00a0%`;
        const say = x => (simple ? "" : ` (${number(x)})`);
        const what = `${NAMES[strip]}${simple ? "" : ` (${name})`} reads most ${strongest(w, line, say)}`;
        text.setAttribute("aria-label", `“${line}”; ${what}.`);
        parts.push(what);
      }
      if (average) average.setAttribute("aria-pressed", state.averaged);
      said.textContent = `From character ${state.t}, ${spoken(line[state.t])}: ${parts.join("; ")}.`
        + (hasGate ? " The gate reads every line with the same weights." : "");
      const { layer, head, block, step, t } = state;
      const shared = { line: state.line + 1, t, ...(chooses.head && { layer: layer + 1, head: head + 1 }),
        ...(chooses.block && { block: block + 1, step: steps[step], averaged: +state.averaged }) };
      here.href = `#${root.id}?${new URLSearchParams(shared)}`;
    }
    draw();

    return given => {
      const whole = (key, high, otherwise) => Math.round(clamp(given.get(key), 1, high, otherwise)) - 1;
      const line = whole("line", lines.length, 1), at = steps.indexOf(+given.get("step"));
      set({
        line, t: Math.round(clamp(given.get("t"), 0, lines[line].length - 1, lines[line].length - 1)),
        layer: whole("layer", layers, 1), head: whole("head", heads, 1), block: whole("block", Math.max(1, blocks), 1),
        step: at < 0 ? steps.length - 1 : at, averaged: chooses.block && given.get("averaged") === "1",
      });
    };
  }

  define("reading-lamp", mount);
})();
