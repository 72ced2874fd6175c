/* What the instruments share: elements, controls that say their value, numbers in base64, an address that restores.

What is notable:
- classic scripts and at most one global name each, so that they work in a page from the disk and in a notebook's output;
- an instrument is a function of its element: it draws into it, below its heading, and returns what restores a setting from an address.
*/
"use strict";
var Instruments = (() => {
  const range = (a, b) => Array.from({ length: Math.max(0, b - a + 1) }, (_, i) => a + i);
  const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const signed = (x, digits = 2) => x.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");
  const glyph = c => (c === " " ? "␣" : c);
  const spoken = c => (c === " " ? "a space" : `“${c}”`);
  const limit = (x, low, high) => Math.min(high, Math.max(low, x));

  /** The number that a text holds, within limits; something else where it holds none. */
  function clamp(text, low, high, otherwise) {
    const x = parseFloat(text);
    return Number.isNaN(x) ? otherwise : limit(x, low, high);
  }

  function fill(parent, element, attributes, text) {
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }
  const html = (parent, name, attributes, text) => fill(parent, document.createElement(name), attributes, text);
  const svg = (parent, name, attributes, text) =>
    fill(parent, document.createElementNS("http://www.w3.org/2000/svg", name), attributes, text);

  function button(parent, text, press) {
    const element = html(parent, "button", { type: "button" }, text);
    element.addEventListener("click", press);
    return element;
  }

  /** A slider with its label and its value in words; `show` sets it without calling `change`. */
  function slider(parent, label, [low, high, step = 1], say, change) {
    const row = html(parent, "label", {}, `${label[0].toUpperCase()}${label.slice(1)} `);
    const input = html(row, "input", { type: "range", min: low, max: high, step }), output = html(row, "output");
    input.addEventListener("input", () => change(+input.value));
    return {
      input,
      show(value) {
        input.value = value;
        output.value = say(value);
        input.setAttribute("aria-valuetext", output.value);
      },
    };
  }

  /** A link that brings a setting back: it goes into the address bar and the clipboard, and says so. */
  function link(parent) {
    const words = "Link to this setting", element = html(parent, "a", { class: "link", href: "#" });
    const said = html(element, "span", { "aria-live": "polite" }, words);
    element.addEventListener("click", async event => {
      event.preventDefault();
      history.replaceState(null, "", element.hash);
      const copied = await navigator.clipboard?.writeText(element.href).then(() => true, () => false);
      said.textContent = copied ? "Copied" : "In the address bar";
      setTimeout(() => { said.textContent = words; }, 2000);
    });
    return element;
  }

  /** Small whole numbers, signed or not, from base64. */
  const bytes = text => Int8Array.from(atob(text), c => c.charCodeAt(0));

  /** Fill all elements of a class, now and when the page is there; an address `#id?a=1&b=2` restores a setting. */
  function define(name, mount) {
    const given = root => {
      const [id, question] = location.hash.slice(1).split("?");
      return id === root.id && question !== undefined && new URLSearchParams(question);
    };
    const fillAll = () => document.querySelectorAll(`.${name}`).forEach((root, i) => {
      if (root.dataset.mounted) return;
      root.dataset.mounted = "yes";
      root.id = root.id || (i ? `${name}-${i + 1}` : name);
      root.replaceChildren(root.querySelector(":scope > .heading"));
      // JupyterLab takes the arrows for itself wherever nobody can write.
      root.addEventListener("keydown", event => /^(Arrow|Home|End|Page)/.test(event.key) && event.stopPropagation());
      const restore = mount(root);
      const look = () => {
        const asked = given(root);
        if (!asked) return;
        restore(asked);
        root.scrollIntoView();
      };
      look();
      if (given(root)) addEventListener("load", () => root.scrollIntoView());
      addEventListener("hashchange", look);
    });
    fillAll(); // what stands before the script is filled before it is seen, so that nothing moves
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", fillAll);
  }

  return { range, plural, signed, glyph, spoken, limit, clamp, html, svg, button, slider, link, bytes, define };
})();
