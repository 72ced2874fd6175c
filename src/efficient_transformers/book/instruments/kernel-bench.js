/* Kernel Bench: what do three weights do to a sequence? Bars to drag, a pulse, a wave, the gain of every frequency.

What is notable:
- `convolve` and `gain` are the whole theory, equations (2.2) and (3.1); the tests compare them with the package's layer.
*/
"use strict";
var KernelBench = (() => {
  const { range, signed, limit, clamp, html, svg, button, slider, link, define } = Instruments;
  const W = 3, PULSE = 12, WAVE = 24, HIGHEST = 1.5, STEP = 0.05;
  const back = n => (n ? `${n} back` : "now");
  const PRESETS = { Start: [1 / 2, 1 / 6, 1 / 6], Mean: [1 / 3, 1 / 3, 1 / 3], Difference: [1, -1, 0] };

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

  /** What one setting shows, as a sentence. */
  function sentence(w, d, f) {
    const what = f === 0 ? "Of a constant" : f === 0.5 ? "Of a cycle of two" : `Of a wave with a cycle of ${+(1 / f).toFixed(1)} tokens`;
    const order = Math.abs(w[2]) > Math.abs(w[0]) + 1e-9
      ? " It answers a pulse most strongly two steps late: is it laid the wrong way round? The gain cannot tell." : "";
    return `Weights ${w.map(x => signed(x)).join(", ")}: a constant passes at ${signed(gain(w, 0, d))}, a cycle of two at`
      + ` ${signed(gain(w, 0.5, d))}. ${what}, ${signed(gain(w, f, d))} is left.${order}`;
  }

  function mount(root) {
    const state = { w: PRESETS.Start, d: 1, f: 0.25 };
    const set = change => { Object.assign(state, change); draw(); };
    const presets = html(root, "div", { class: "choice", role: "group", "aria-label": "kernel" });
    for (const name in PRESETS) button(presets, name, () => set({ w: PRESETS[name] }));
    button(presets, "Reversed", () => set({ w: [...state.w].reverse() }));
    const sliders = html(root, "div", { class: "sliders" });
    const dilation = slider(sliders, "dilation", [1, 4], String, d => set({ d }));
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
        set({ w });
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

    const here = link(html(root, "div", { class: "choice" }));

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
      svg(gains, "text", { x: 352, y: 186, class: "small last" }, "cycle of two");
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
      said.textContent = sentence(w, d, f);
      pulsed.setAttribute("aria-label", `A pulse comes out as ${w.map((x, j) => `${signed(x)} at token ${2 + d * j}`).join(", ")}.`);
      waved.setAttribute("aria-label", `A wave of ${f.toFixed(2)} cycles per token, and what the kernel makes of it.`);
      gains.setAttribute("aria-label", `The gain from a constant to a cycle of two; at ${f.toFixed(2)} it is ${signed(g)}.`);
      const shared = { d, f: f.toFixed(2), w: w.map(x => +x.toFixed(4)).join(" ") };
      here.href = `#${root.id}?${new URLSearchParams(shared)}`;
    }
    draw();

    return given => {
      const w = (given.get("w") || "").split(" ");
      set({
        d: Math.round(clamp(given.get("d"), 1, 4, 1)), f: clamp(given.get("f"), 0, 0.5, 0.25),
        w: PRESETS.Start.map((first, j) => clamp(w[j], -HIGHEST, HIGHEST, first)),
      });
    };
  }

  define("kernel-bench", mount);
  return { convolve, gain, wave };
})();
