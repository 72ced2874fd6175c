// What a page does: tables sort, sliders say their value, boxes that scroll can be reached.
for (const face of ['1em "Book Math"', '1em "Book Text"', 'italic 1em "Book Text"', '600 1em "Book Text"', '1em "Book Sans"']) {
  document.fonts.load(face); // before the first line is set, so that no line moves
}

// Results sort by the column whose heading is pressed: first from small to large, then back.
function sortable(table) {
  const number = (text) => parseFloat(text.replace(/^[−–]/, "-").replace(/,/g, ""));
  const compare = (a, b) => (number(a) - number(b)) || a.localeCompare(b, undefined, { numeric: true });
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const text = (row) => row.cells[heading.cellIndex].textContent.trim();
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => sign * compare(text(a), text(b))));
      for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    });
  }
}

// A chapter has about 300 things to press, most of them in code, tables and figures. The Tab key stops at the rest, unless a
// reader who uses the keyboard asks for all, with a button beside the link that skips to the content.
// Links within the page, which the contents beside it have too, are among those that it passes by.
const MANY = "pre a, button.copybtn, div.cell details.hide > summary, a.eqno, .bd-article :is(table a, table button, figure a), " +
  '.bd-article :is(a.headerlink, p a.reference.internal[href^="#"])';
const STOPS = "all-tab-stops"; // the reader's choice, remembered
function chooseStops() {
  const button = document.createElement("button");
  const set = (all) => {
    button.setAttribute("aria-pressed", all);
    document.querySelectorAll(MANY).forEach((e) => { e.tabIndex = all ? 0 : -1; });
  };
  button.textContent = "Also stop at code, tables and figures";
  button.addEventListener("click", () => {
    const all = button.getAttribute("aria-pressed") !== "true";
    localStorage.setItem(STOPS, all);
    set(all);
  });
  document.getElementById("pst-skip-link")?.append(button);
  set(localStorage.getItem(STOPS) === "true");
}

// The link at the end of a caption unfolds the code of its picture, and folds it again.
function unfolds(link) {
  const code = document.querySelector(link.getAttribute("href"));
  link.setAttribute("role", "button");
  link.setAttribute("aria-label", code.querySelector("summary").textContent);
  code.addEventListener("toggle", () => link.setAttribute("aria-expanded", code.open));
  link.setAttribute("aria-expanded", code.open);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    code.open = !code.open;
  });
  link.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    link.click();
  });
}

// What an address asked for has moved to another page: tools/site/moved.py.
function follow() {
  const asked = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest(".moved > p");
  if (asked) location.replace(asked.querySelector("a").href);
}
addEventListener("hashchange", follow);

document.addEventListener("DOMContentLoaded", () => {
  follow();
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  each("table.results", (table) => table.tHead && sortable(table));
  each("a.code-link", unfolds);
  if (document.querySelector("div.cell")) chooseStops();

  // A box that scrolls sideways shows it, and must be reachable by keyboard, and then needs a name.
  const reach = () => each(".formula, span.math, .text_html:has(> table.results)", (box) => {
    const scrolls = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("scrolls", scrolls);
    if (!scrolls) return ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", box.querySelector("table") ? "Table, scrolls sideways" : "Formula, scrolls sideways");
  });
  document.fonts.ready.then(reach);
  addEventListener("resize", reach);

  // The theme's two handlers in attributes, which the pages' policy forbids.
  each(".btn-fullscreen-button", (button) => button.addEventListener("click", () => toggleFullScreen()));
  each(".btn-download-pdf-button", (button) => button.addEventListener("click", () => print()));

  // On paper, hints and solutions are open and the page is light.
  const root = document.documentElement;
  let theme, opened = [];
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    opened = [...document.querySelectorAll(".bd-article details:not([open], .hide)")];
    opened.forEach((e) => { e.open = true; });
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = theme;
    opened.forEach((e) => { e.open = false; });
  });
});
