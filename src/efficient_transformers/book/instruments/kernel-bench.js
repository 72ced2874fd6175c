/* Kernel Bench: what do three weights do to a sequence? Bars to drag, a pulse, a wave, the gain of every frequency.

What is notable:
- `convolve` and `gain` are the whole theory, equations (2.2) and (3.1); the tests compare them with the package's layer;
- the kernels that Primer EZ learned come with the page, as whole numbers of 16 bits and their scale.
*/
"use strict";
var KernelBench = (() => {
  const { range, signed, limit, clamp, html, svg, button, slider, link, bytes, define } = Instruments;
  const W = 3, PULSE = 12, WAVE = 24, HIGHEST = 1.5, STEP = 0.05;
  const back = n => (n ? `${n} back` : "now");
  const PRESETS = { Start: [1 / 2, 1 / 6, 1 / 6], Mean: [1 / 3, 1 / 3, 1 / 3], Difference: [1, -1, 0] };
  const KINDS = ["queries", "keys", "values"], LAYERS = 4, CHANNELS = 32;
  const LEFT = 110, ROW = 25; // of the picture of all learned kernels

  /** (2.2) for one channel: the weight w[j] meets the token j·d back; before the first token there are zeros. */
  const convolve = (x, w, d) => x.map((_, t) => w.reduce((sum, wj, j) => sum + wj * (x[t - d * j] ?? 0), 0));

  /** (3.1): how much of a wave of f cycles per token passes. */
  function gain(w, f, d) {
    const angle = j => -2 * Math.PI * f * d * j;
    const part = turn => w.reduce((sum, wj, j) => sum + wj * turn(angle(j)), 0);
    return Math.hypot(part(Math.cos), part(Math.sin));
  }

  const pulse = () => range(0, PULSE - 1).map(t => +(t === 2));
  const wave = f => range(0, WAVE - 1).map(t => Math.cos(2 * Math.PI * f * t));
  const frequent = f => `${f.toFixed(2)} (${f ? `1 in ${+(1 / f).toFixed(1)}` : "constant"})`;

  /** The kernels of one training step, by kind, layer and channel, from the numbers of all steps. */
  function learned(numbers, scale, step, kind, layer, channel) {
    const first = (((step * KINDS.length + kind) * LAYERS + layer) * CHANNELS + channel) * W;
    return Array.from(numbers.subarray(first, first + W), n => n * scale);
  }

  /** What one setting shows, as a sentence. */
  function sentence(w, d, f, own) {
    const ends = [gain(w, 0, d), gain(w, 0.5, d)], g = gain(w, f, d);
    const more = ends[0] - ends[1];
    const kind = Math.abs(more) < 1e-9 ? "neither smoother nor sharpener" : more > 0 ? "a smoother" : "a sharpener";
    const what = f === 0 ? "Of a constant" : f === 0.5 ? "Of an alternation" : `Of a wave with a cycle in ${+(1 / f).toFixed(1)} tokens`;
    const order = own && Math.abs(w[2]) > Math.abs(w[0]) + 1e-9
      ? " It answers a pulse most strongly two steps late: is it laid the wrong way round? The gain cannot tell." : "";
    return `Weights ${w.map(x => signed(x)).join(", ")}, ${kind}: a constant passes at ${signed(ends[0])}, an alternation at`
      + ` ${signed(ends[1])}. ${what}, ${signed(g)} is left.${order}`;
  }

  function mount(root) {
    const steps = (root.dataset.steps || "").split(",").map(Number), scale = +root.dataset.scale;
    const numbers = root.dataset.kernels ? new Int16Array(bytes(root.dataset.kernels, Uint8Array).buffer) : null;
    const state = { w: PRESETS.Start, d: 1, f: 0.25, kind: 2, layer: 0, channel: 0, step: steps.length - 1, own: true };
    const kernel = () => learned(numbers, scale, state.step, state.kind, state.layer, state.channel);
    const set = change => { Object.assign(state, change); draw(); };
    const choose = change => {
      Object.assign(state, change, { d: 1, own: false });
      set({ w: kernel() });
    };

    const presets = html(root, "div", { class: "choice", role: "group", "aria-label": "kernel" });
    for (const name in PRESETS) button(presets, name, () => set({ w: PRESETS[name], own: true }));
    button(presets, "Reversed", () => set({ w: [...state.w].reverse(), own: true }));
    const sliders = html(root, "div", { class: "sliders" });
    const dilation = slider(sliders, "dilation", [1, 4], String, d => set({ d, own: true }));
    const frequency = slider(sliders, "frequency", [0, 0.5, 0.01], frequent, f => set({ f }));

    const panels = html(root, "div", { class: "panels" });
    const panel = name => svg(panels, "svg", { class: name, viewBox: "0 0 360 190", role: "img" });
    const bars = panel("bars"), pulsed = panel("pulse"), waved = panel("wave"), gains = panel("gain");
    bars.setAttribute("role", "group");
    bars.setAttribute("aria-label", "weights");
    const handles = range(0, W - 1).map(handle);
    const said = html(root, "p", { "aria-live": "polite" });

    /** A bar: dragged by its end, or moved by the arrow keys. */
    function handle(j) {
      const g = svg(bars, "g", {
        role: "slider", tabindex: 0, "aria-orientation": "vertical", "aria-valuemin": -HIGHEST, "aria-valuemax": HIGHEST,
      });
      const x = 60 + 100 * j, to = value => {
        const w = [...state.w];
        w[j] = limit(Math.round(value / STEP) * STEP, -HIGHEST, HIGHEST);
        set({ w, own: true });
      };
      svg(g, "rect", { class: "room", x: x - 28, y: 24, width: 56, height: 142, rx: 4 });
      const bar = svg(g, "rect", { class: "out", x: x - 20, width: 40 });
      const value = svg(g, "text", { x, y: 18 });
      const name = svg(g, "text", { x, y: 182, class: "small" });
      const follow = event => {
        const box = bars.getBoundingClientRect();
        to(HIGHEST - ((event.clientY - box.top) * 190 / box.height - 26) * 2 * HIGHEST / 138);
      };
      g.addEventListener("pointerdown", event => {
        g.setPointerCapture(event.pointerId);
        g.focus({ preventScroll: true });
        follow(event);
      });
      g.addEventListener("pointermove", event => { if (g.hasPointerCapture(event.pointerId)) follow(event); });
      g.addEventListener("keydown", event => {
        const up = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 5, PageDown: -5 }[event.key];
        const end = { Home: -HIGHEST, End: HIGHEST }[event.key];
        if (up === undefined && end === undefined) return;
        event.preventDefault();
        to(end ?? state.w[j] + up * STEP);
      });
      return () => {
        const w = state.w[j], y = 95 - w * 138 / (2 * HIGHEST);
        bar.setAttribute("y", Math.min(95, y));
        bar.setAttribute("height", Math.max(1, Math.abs(95 - y)));
        value.textContent = signed(w);
        name.textContent = back(j * state.d);
        g.setAttribute("aria-label", `weight, ${back(j * state.d)}`);
        g.setAttribute("aria-valuenow", +w.toFixed(3));
        g.setAttribute("aria-valuetext", signed(w));
      };
    }
    svg(bars, "path", { class: "axis", d: "M24 95 H300" });
    ticks(bars, [-1, 0, 1], v => 95 - v * 138 / (2 * HIGHEST));

    // The learned kernels: a row for each kind and layer, a column for each channel, a touch for each of them.
    let grid, cells, counted, controls;
    if (numbers) {
      const chosen = html(root, "div", { class: "choice", role: "group", "aria-label": "learned kernels of" });
      html(chosen, "span", {}, "Learned by Primer EZ:");
      const kinds = KINDS.map((name, kind) => button(chosen, name, () => choose({ kind })));
      const more = html(root, "div", { class: "sliders" });
      controls = {
        layer: slider(more, "layer", [1, LAYERS], String, n => choose({ layer: n - 1 })),
        channel: slider(more, "channel", [1, CHANNELS], String, n => choose({ channel: n - 1 })),
        step: slider(more, "training step", [0, steps.length - 1], i => steps[i].toLocaleString("en"), step => {
          if (state.own) set({ step }); else choose({ step });
        }),
        kinds,
      };
      grid = svg(root, "svg", { class: "grid", viewBox: `0 0 ${LEFT + 20 * CHANNELS} ${12 * ROW}`, role: "img" });
      for (const row of range(0, 11)) {
        const label = `${row % LAYERS ? "" : `${KINDS[row / LAYERS]}, `}${row % LAYERS + 1}`;
        svg(grid, "text", { x: LEFT - 8, y: 19 + row * ROW, class: "small last" }, label);
      }
      cells = svg(grid, "g", {});
      counted = html(root, "p", { class: "note" });
      grid.addEventListener("click", event => {
        const box = grid.getBoundingClientRect();
        const column = Math.floor(((event.clientX - box.left) * (LEFT + 20 * CHANNELS) / box.width - LEFT) / 20);
        const row = Math.floor((event.clientY - box.top) * 12 / box.height);
        if (column < 0 || column >= CHANNELS || row < 0 || row > 11) return;
        choose({ kind: Math.floor(row / LAYERS), layer: row % LAYERS, channel: column });
      });
    }
    const here = link(html(root, "div", { class: "choice" }));

    function drawGrid() {
      const shapes = { smoother: "", sharpener: "" };
      let count = 0;
      for (const row of range(0, 11)) {
        for (const channel of range(0, CHANNELS - 1)) {
          const w = learned(numbers, scale, state.step, Math.floor(row / LAYERS), row % LAYERS, channel);
          const kind = gain(w, 0.5, 1) > gain(w, 0, 1) ? "sharpener" : "smoother";
          count += kind === "sharpener";
          w.forEach((x, j) => {
            const from = `M${LEFT + 2 + channel * 20 + j * 5.5} ${16 + row * ROW}`;
            shapes[kind] += `${from}v${(-18 * x).toFixed(1)}h4.5v${(18 * x).toFixed(1)}z`;
          });
        }
      }
      cells.replaceChildren();
      for (const kind in shapes) svg(cells, "path", { class: kind, d: shapes[kind] });
      if (!state.own) {
        const row = state.kind * LAYERS + state.layer;
        svg(cells, "rect", { class: "chosen", x: LEFT + state.channel * 20, y: row * ROW + 0.5, width: 19.5, height: ROW - 1 });
      }
      counted.textContent = `${12 * CHANNELS} kernels after ${steps[state.step].toLocaleString("en")} steps; three bars each,`
        + ` now, 1 back, 2 back. Blue: the ${count} sharpeners, which pass more of an alternation than of a constant.`;
      grid.setAttribute("aria-label", counted.textContent);
    }

    /** Numbers at the left of a panel. */
    function ticks(where, values, y) {
      for (const v of values) svg(where, "text", { x: 18, y: y(v) + 4, class: "small last" }, signed(v, 0));
    }
    const height = v => 100 - 44 * limit(v, -1.7, 1.7); // in the panels of the pulse and the wave

    /** Dots on stems, or joined by a line, on one scale. */
    function dots(where, values, kind, stems) {
      const x = t => 24 + t * 324 / (values.length - 1), y = height;
      const path = stems ? values.map((v, t) => `M${x(t)} 100V${y(v)}`) : [`M${values.map((v, t) => `${x(t)} ${y(v)}`).join("L")}`];
      svg(where, "path", { class: kind, d: path.join("") });
      values.forEach((v, t) => svg(where, "circle", { class: kind, cx: x(t), cy: y(v), r: values.length > 12 ? 3 : 4 }));
    }
    function frame(where, title, below) {
      where.replaceChildren();
      svg(where, "text", { x: 24, y: 14, class: "small title" }, title);
      svg(where, "text", { x: 24, y: 186, class: "small title" }, below);
    }

    function draw() {
      const { w, d, f } = state, g = gain(w, f, d);
      handles.forEach(show => show());
      frame(pulsed, "A pulse at token 2 goes in, and comes out as", `tokens 0 to ${PULSE - 1}`);
      svg(pulsed, "path", { class: "axis", d: "M24 100H352" });
      ticks(pulsed, [-1, 0, 1], height);
      dots(pulsed, pulse(), "in", true);
      dots(pulsed, convolve(pulse(), w, d), "out", true);
      frame(waved, "A wave goes in (gray), and comes out (orange)", `tokens 0 to ${WAVE - 1}`);
      svg(waved, "path", { class: "axis", d: "M24 100H352" });
      ticks(waved, [-1, 0, 1], height);
      dots(waved, wave(f), "in");
      dots(waved, convolve(wave(f), w, d), "out");
      frame(gains, "Gain at every frequency, in cycles per token", "constant");
      svg(gains, "text", { x: 352, y: 186, class: "small last" }, "alternation");
      const top = Math.max(1, w.reduce((sum, x) => sum + Math.abs(x), 0)), y = v => 170 - 140 * v / top;
      svg(gains, "path", { class: "axis", d: `M24 170H352M24 ${y(1)}H352` });
      ticks(gains, range(0, Math.floor(top)), y);
      const curve = range(0, 100).map(i => `${24 + 3.28 * i} ${y(gain(w, i / 200, d)).toFixed(1)}`);
      svg(gains, "path", { class: "out", d: `M${curve.join("L")}` });
      svg(gains, "path", { class: "mark", d: `M${24 + 656 * f} 170V${y(g)}` });
      svg(gains, "circle", { class: "out", cx: 24 + 656 * f, cy: y(g), r: 5 });
      dilation.show(d);
      frequency.show(f);
      for (const element of presets.children) {
        const preset = PRESETS[element.textContent];
        if (preset) element.setAttribute("aria-pressed", preset.every((x, j) => Math.abs(x - w[j]) < 1e-3));
      }
      if (numbers) {
        controls.kinds.forEach((element, kind) => element.setAttribute("aria-pressed", !state.own && kind === state.kind));
        controls.layer.show(state.layer + 1);
        controls.channel.show(state.channel + 1);
        controls.step.show(state.step);
        drawGrid();
      }
      const which = state.own ? "" : `The kernel of ${KINDS[state.kind]} in layer ${state.layer + 1}, channel ${state.channel + 1},`
        + ` at training step ${steps[state.step].toLocaleString("en")}. `;
      said.textContent = which + sentence(w, d, f, state.own);
      pulsed.setAttribute("aria-label", `A pulse comes out as ${w.map((x, j) => `${signed(x)} at token ${2 + d * j}`).join(", ")}.`);
      waved.setAttribute("aria-label", `A wave of ${f.toFixed(2)} cycles per token, and what the kernel makes of it.`);
      gains.setAttribute("aria-label", `The gain from a constant to an alternation; at ${f.toFixed(2)} it is ${signed(g)}.`);
      const shared = { d, f: f.toFixed(2), ...(state.own ? { w: w.map(x => +x.toFixed(4)).join(" ") }
        : { of: KINDS[state.kind], layer: state.layer + 1, channel: state.channel + 1, step: steps[state.step] }) };
      here.href = `#${root.id}?${new URLSearchParams(shared)}`;
    }
    draw();

    return given => {
      Object.assign(state, { d: Math.round(clamp(given.get("d"), 1, 4, 1)), f: clamp(given.get("f"), 0, 0.5, 0.25) });
      if (numbers && KINDS.includes(given.get("of"))) {
        choose({
          kind: KINDS.indexOf(given.get("of")),
          layer: Math.round(clamp(given.get("layer"), 1, LAYERS, 1)) - 1,
          channel: Math.round(clamp(given.get("channel"), 1, CHANNELS, 1)) - 1,
          step: Math.max(0, steps.indexOf(+given.get("step"))),
        });
      } else {
        const w = (given.get("w") || "").split(" ");
        set({ own: true, w: PRESETS.Start.map((first, j) => clamp(w[j], -HIGHEST, HIGHEST, first)) });
      }
    };
  }

  define("kernel-bench", mount);
  return { convolve, gain, wave };
})();
