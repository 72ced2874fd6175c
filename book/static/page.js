// What a page does: tables sort, pictures open larger, boxes that scroll can be reached.

// Who has not chosen sees light or dark as the system says: before a line is set, since the theme's own script comes later.
try {
  if (!localStorage.getItem("mode")) {
    const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    Object.assign(document.documentElement.dataset, { mode: "auto", theme });
  }
} catch {
  // A browser that keeps nothing has the light page, and all that follows.
}
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

// A script that is needed now, once; one that did not arrive is asked for again. previews.js, search-dialog.js,
// landing.js and model-parts.js use it.
const arriving = {};
function arrives(src) {
  return arriving[src] ??= new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src, onload: resolve });
    script.onerror = (event) => {
      delete arriving[src];
      reject(event);
    };
    document.head.append(script);
  });
}

// A picture opens larger when it is touched, or by a button at the end of its caption.
function enlargeable(figure) {
  const caption = figure.querySelector("figcaption p"), name = (caption.querySelector("strong")?.textContent ?? "the picture").replace(/\.$/, "");
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "enlarge", textContent: "Enlarge" });
  button.setAttribute("aria-label", `Enlarge ${name}`);
  const open = () => {
    const dialog = document.createElement("dialog"), close = document.createElement("button");
    const shown = [...figure.querySelectorAll("img")].find((image) => image.checkVisibility()), image = shown.cloneNode();
    dialog.className = "enlarged";
    dialog.setAttribute("aria-label", name);
    dialog.style.setProperty("--width", `${shown.getAttribute("width") ?? shown.naturalWidth}px`);
    close.textContent = "Close";
    dialog.append(close, image);
    for (const element of [close, image]) element.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  };
  button.addEventListener("click", open);
  figure.addEventListener("click", (event) => {
    if (!event.target.matches("img, a:has(> img)") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); // Sphinx makes some pictures links to their files
    open();
  });
  caption.append(button);
}

// On a phone a line of code that is too long goes on further in than it begins, so that Python keeps its shape.
function hangs(lines) {
  let open = "";
  lines.innerHTML = lines.innerHTML.trimEnd().split("\n").map((line) => {
    const begun = open + line;
    for (const tag of line.match(/<span[^>]*>|<\/span>/g) ?? []) open = tag === "</span>" ? open.slice(0, open.lastIndexOf("<")) : open + tag;
    return `<span class="line">${begun}\n${"</span>".repeat(open.split("<").length - 1)}</span>`;
  }).join("");
  for (const line of lines.children) line.style.setProperty("--in", `${Math.max(line.textContent.search(/\S/), 0)}ch`);
}

// A chapter has about 300 things to press, most of them in code, tables and figures. The Tab key stops at the rest, unless a
// reader who uses the keyboard asks for all, with a button beside the link that skips to the content.
// Links within the page, which the contents beside it have too, are among those that it passes by.
const MANY = "pre a, button.copybtn, div.cell details.hide > summary, a.eqno, a.term, .up a, .bd-article :is(table a, table button, figure a, .enlarge), " +
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

document.addEventListener("DOMContentLoaded", () => {
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  each("table.results", (table) => table.tHead && sortable(table));
  each(".bd-article figure.numbered:has(img)", enlargeable);
  each("a.code-link", unfolds);
  if (matchMedia("(max-width: 540px)").matches) each(".bd-article pre > .lines:not(.cell_output *)", hangs);
  if (document.querySelector("div.cell")) setTimeout(chooseStops); // a task of its own, between which the page answers

  // A box that scrolls sideways must be reachable by keyboard; one that is no code shows it, and needs a name. All are
  // looked at before any is changed.
  const boxes = [...document.querySelectorAll(".formula, span.math, .text_html:has(> table.results), .pst-scrollable-table-container")];
  const reach = () => boxes.map((box) => box.scrollWidth > box.clientWidth + 1).forEach((scrolls, i) => {
    const box = boxes[i];
    box.classList.toggle("scrolls", scrolls);
    if (!scrolls) return ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", box.querySelector("table") ? "Table, scrolls sideways" : "Formula, scrolls sideways");
  });
  document.fonts.ready.then(() => setTimeout(reach));
  addEventListener("resize", reach);

  // A contents link in the drawer of a narrow page leads to what lies under the drawer.
  each("#pst-page-toc-nav a", (a) => a.addEventListener("click", () => a.closest("dialog")?.close()));
  const sidebar = document.querySelector(".bd-sidebar-primary"), here = sidebar?.querySelector("a.current");
  if (here) { // the theme keeps the place of the page before, and scrolls to an entry that is in sight
    const top = here.getBoundingClientRect().top - sidebar.getBoundingClientRect().top + sidebar.scrollTop;
    sidebar.scrollTop = top < sidebar.clientHeight - 96 ? 0 : top - 160;
  }

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
