/** What the pages on which models run have in common: elements, words for characters, and where models come from. */
const model_parts = (() => {
"use strict";

/** An element with attributes, properties that start with "on", and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element[name] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function labelled(text, control, ...rest) {
  return make("label", {}, make("span", {}, text), control, ...rest);
}

const names = { "\n": "a new line", " ": "a space", "\t": "a tab" };
const spoken = (c) => names[c] ?? `“${c}”`;
const glyph = (c) => ({ "\n": "↵", " ": "␣", "\t": "⇥" })[c] ?? c;
const percent = (p) => (p < 0.0005 ? "< 0.1" : (100 * p).toFixed(p < 0.0995 ? 1 : 0)) + "\u00a0%";

/** What an error says, as a sentence. */
function as_sentence(said) {
  const begun = said.replace(/^(the|a|an) /, (word) => word[0].toUpperCase() + word.slice(1));
  return /[.?!…]$/.test(begun) ? begun : `${begun}.`;
}

const arrived = {};
window.model_arrived = (name, model) => (arrived[name] = model);

/** A model that ships, as a script, since a page that was opened from a disk may load nothing else. */
async function fetch_shipped(folder, name) {
  await arrives(`${folder}${name}.js`).catch(() => {
    throw new Error(`The weights of ${name} did not arrive. Is there a network? Another press asks for them again.`);
  });
  return arrived[name];
}

return { make, labelled, spoken, glyph, percent, as_sentence, fetch_shipped };
})();
