// An annotated block: a symbol, its names in the code and its entry in the key light up together (tools/site/annotate.py).
function annotate(block) {
  const key = block.querySelector(".join-key"), entries = [...key.children];
  const [math, code] = [".join-math", ".join-code"].map((part) => block.querySelector(part));
  const marks = (pair) => [...block.querySelectorAll(`[data-join="${pair}"]`)];
  const thread = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const label = document.createElement("div");
  thread.setAttribute("class", "join-thread");
  label.className = "join-label";
  label.hidden = true;
  for (const drawn of [thread, label]) drawn.setAttribute("aria-hidden", "true"); // the key says the same
  block.append(thread, label);
  entries[0].tabIndex = 0;
  let lit = null, held = false;

  const place = (element) => { // within the block
    const box = element.getBoundingClientRect(), whole = block.getBoundingClientRect();
    return { left: box.left - whole.left, right: box.right - whole.left, top: box.top - whole.top, bottom: box.bottom - whole.top };
  };

  // Down from the symbol, or beside its fraction, of which it would be another bar; to the gap between the columns, and
  // along below the name.
  function draw(pair, at) {
    thread.replaceChildren();
    const all = marks(pair), pre = code.querySelector("pre");
    const symbols = all.filter((mark) => math.contains(mark)), names = all.filter((mark) => mark.closest("pre"));
    if (place(pre).left < place(math).right) return; // one below the other
    const symbol = symbols.includes(at) ? at : symbols[0], row = symbol.closest("mtr, math");
    const from = place(symbol), to = place(names.includes(at) ? at : names.at(-1)), fraction = symbol.closest("mfrac");
    const down = row.querySelector("mfrac, munder, munderover") ? place(row).bottom + 1 : from.bottom + 4; // it would strike them out
    const [x, y] = fraction ? [place(fraction).right + 4, down - 8] : [(from.left + from.right) / 2, from.bottom];
    const [gap, edge, up] = [place(math).right, place(pre).left, to.bottom + 1], half = (gap + edge) / 2;
    const path = document.createElementNS(thread.namespaceURI, "path");
    path.setAttribute("d", `M${x} ${y}V${down}H${gap}C${half} ${down} ${half} ${up} ${edge} ${up}H${to.right}`);
    thread.dataset.join = pair;
    thread.append(path);
  }

  // What the other side has for it, and what it is.
  function say(pair, at) {
    label.hidden = key.contains(at);
    if (label.hidden) return;
    const [symbol, name, words] = entries.find((entry) => entry.dataset.join === pair).children;
    label.replaceChildren((math.contains(at) ? name : symbol).cloneNode(true), ` · ${words.textContent}`);
    const spot = place(at), row = at.closest("mtr, math") || at; // it would cover a sum's or a fraction's top
    const top = place(row).top - label.offsetHeight - 6;
    const hidden = block.getBoundingClientRect().top + top < document.querySelector(".bd-header-article").getBoundingClientRect().bottom;
    label.style.left = `${Math.max(0, Math.min(spot.left, block.clientWidth - label.offsetWidth))}px`;
    label.style.top = `${hidden ? spot.bottom + 6 : top}px`;
  }

  function show(mark, hold = false) {
    const pair = mark.dataset.join;
    if (pair !== lit) {
      hide();
      lit = pair;
      block.classList.add("on");
      marks(pair).forEach((m) => m.classList.add("lit"));
    }
    held = hold;
    draw(pair, mark);
    say(pair, mark);
  }
  function hide() {
    block.classList.remove("on");
    block.querySelectorAll(".lit").forEach((m) => m.classList.remove("lit"));
    thread.replaceChildren();
    label.hidden = true;
    [lit, held] = [null, false];
  }

  const marked = (event) => event.target.closest("[data-join]");
  block.addEventListener("pointerover", (event) => {
    if (held || event.pointerType === "touch") return;
    const mark = marked(event);
    if (mark) show(mark);
    else hide();
  });
  block.addEventListener("pointerleave", () => { if (!held) hide(); });
  // A press holds; a second one lets go, and so does one anywhere else.
  block.addEventListener("click", (event) => {
    const mark = marked(event), again = held && mark?.dataset.join === lit;
    if (!mark || again) return hide();
    show(mark, true);
  });
  document.addEventListener("click", (event) => { if (!block.contains(event.target)) hide(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // The key is one stop of the Tab key, with the arrow keys within it.
  key.addEventListener("focusin", (event) => { if (event.target.matches(":focus-visible")) show(event.target); });
  key.addEventListener("focusout", () => { if (!held) hide(); });
  key.addEventListener("keydown", (event) => {
    const at = entries.indexOf(document.activeElement), last = entries.length - 1;
    const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = entries[(to + entries.length) % entries.length];
    entries.forEach((entry) => { entry.tabIndex = entry === next ? 0 : -1; });
    next.focus();
  });
  addEventListener("resize", hide);
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".join").forEach(annotate));
