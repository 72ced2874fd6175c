/* Questions whose answer is a number, answered on the page: the rules and the words are the package's.

What is notable:
- efficient_transformers/book/exercises/numbers.py has the same rules for notebooks; tests compare the two;
- a fraction counts as a number, so that 1/4 need not be worked out.
*/
(() => {
"use strict";
  /** The number that somebody typed, with either minus sign; nothing where it is none. */
  function numberOf(text) {
    const parts = text.replaceAll("−", "-").split("/").map(part => part.trim());
    const plain = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
    if (parts.length > 2 || !parts.every(part => plain.test(part))) return undefined;
    const x = parts.map(Number).reduce((a, b) => a / b);
    return Number.isFinite(x) ? x : undefined;
  }

  /** As Python's format does: "g", of six digits, and ",.0f". */
  function format(x, how) {
    if (how === ",.0f") return Math.round(x).toLocaleString("en");
    const [digits, power] = x.toExponential(5).split("e");
    if (x === 0 || (power >= -4 && power < 6)) return String(Number(x.toPrecision(6)));
    const sign = power < 0 ? "-" : "+";
    return `${Number(digits)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
  }

  /** What is said of the numbers typed; nothing before all are there. */
  function judge({ fields, mistakes, right }, typed) {
    if (typed.some(text => text.trim() === "")) return "";
    const given = typed.map(numberOf), none = given.indexOf(undefined);
    if (none >= 0) return `not yet: ${fields[none].what} is '${typed[none].trim()}'; expected a number`;
    const place = fields.findIndex((field, i) => !(Math.abs(given[i] - field.right) <= field.tolerance));
    if (place < 0) return `right: ${right}`;
    const near = ({ numbers, tolerance }) => numbers.every((number, i) => Math.abs(number - given[i]) <= tolerance);
    const told = mistakes.find(near)?.told ?? fields[place].otherwise;
    const values = { given: given[place], scaled: fields[place].scale * given[place] };
    return `not yet: ${told.replace(/\{(given|scaled):([^}]*)\}/g, (_, name, how) => format(values[name], how))}`;
  }

  for (const form of document.querySelectorAll("form.question")) {
    const known = JSON.parse(form.dataset.known), said = form.querySelector("output");
    form.addEventListener("submit", event => {
      event.preventDefault();
      const verdict = judge(known, [...form.querySelectorAll("input")].map(input => input.value));
      said.value = verdict;
      said.classList.toggle("right", verdict.startsWith("right"));
    });
  }
})();
