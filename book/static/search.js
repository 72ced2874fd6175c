// Search among the sections that tools/site/search.py wrote to sections.js: pages, each with its sections.
const MOST = 40; // results shown
const AROUND = 110; // characters of an excerpt on each side of what was found

const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
// "shortenings" asks for what "shortening" does.
const stem = (word) => (word.length > 4 ? word.replace(/(?<!s)s$/, "") : word);
const wordsOf = (text) => plain(text).match(/[\p{L}\p{N}_]+/gu) ?? [];
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const beginning = (word) => new RegExp(`(?<![\\p{L}\\p{N}_])${escaped(word)}`, "giu");

const entries = SECTIONS.flatMap(([page, sections]) =>
  sections.map(([address, title, text, names, target]) => ({ address, title, text, names, target, page })));

// How well an entry answers: words in its title count most, then how often they stand in its text, then names of code.
function score(entry, words) {
  let sum = 0;
  for (const word of words) {
    const title = plain(entry.title).search(beginning(word)) >= 0;
    const found = (plain(entry.text).match(beginning(word)) ?? []).length;
    const named = plain(entry.names).includes(word);
    if (!title && !found && !named) return 0;
    sum += (title ? 20 : 0) + (10 * found) / (found + 2) + (named ? 2 : 0);
  }
  const phrase = words.join(" ");
  const title = wordsOf(entry.title).map(stem).join(" ").replace(/^(\d+ )+/, "");
  if (words.length > 1 && plain(entry.text).search(beginning(phrase)) >= 0) sum += 8;
  if (title === phrase) sum += entry.address.startsWith("notebooks/") ? 60 : 40;
  // The chapters explain what the package's pages and listings only name.
  return entry.address.startsWith("book/api/") && title !== phrase ? sum / 2 : sum;
}

function search(query) {
  const words = wordsOf(query).map(stem);
  if (!words.length) return [];
  const found = entries.map((entry) => ({ entry, score: score(entry, words) })).filter((one) => one.score > 0);
  // A word of the glossary, or a name of code as it is written: first the section that explains it, then its entry.
  const isTerm = (e) => e.address.startsWith("book/glossary")
    ? wordsOf(e.title).map(stem).join(" ") === words.join(" ") : e.title === query.trim();
  const term = entries.find((e) => e.target !== undefined && isTerm(e));
  if (term) {
    const explains = entries.find((e) => e.address === term.target);
    if (explains) {
      const already = found.find((one) => one.entry === explains);
      if (already) already.score = 1000;
      else found.push({ entry: explains, score: 1000 });
    }
    found.find((one) => one.entry === term).score = 500;
  }
  return found.sort((a, b) => b.score - a.score).map((one) => one.entry);
}

// The words around the first place where one of the asked stands, those marked.
function excerpt(text, words) {
  const pattern = new RegExp(words.map((word) => beginning(word).source + "[\\p{L}\\p{N}_]*").join("|"), "giu");
  const together = text.search(new RegExp(words.map(escaped).join("\\P{L}+"), "iu"));
  const first = together >= 0 ? together : Math.max(0, text.search(pattern));
  let from = Math.max(0, first - AROUND), to = Math.min(text.length, first + AROUND * 2);
  if (from > 0) from = text.indexOf(" ", from) + 1;
  if (to < text.length) to = Math.max(text.lastIndexOf(" ", to), first);
  const shown = document.createElement("p");
  const part = text.slice(from, to);
  let end = 0;
  shown.append(from > 0 ? "… " : "");
  for (const match of part.matchAll(pattern)) {
    const mark = document.createElement("mark");
    mark.textContent = match[0];
    shown.append(part.slice(end, match.index), mark);
    end = match.index + match[0].length;
  }
  shown.append(part.slice(end), to < text.length ? " …" : "");
  return shown;
}

function item(entry, words) {
  const made = document.createElement("li"), link = document.createElement("a"), where = document.createElement("span");
  link.href = entry.address;
  link.textContent = entry.title;
  where.textContent = entry.page === entry.title ? "" : entry.page;
  made.append(link, " ", where, excerpt(entry.text, words));
  return made;
}

const query = new URLSearchParams(location.search).get("q") ?? "";
const field = document.querySelector(".bd-search-container input[type=search]");
for (const input of document.querySelectorAll("input[name=q]")) input.value = query;
field.focus();
if (query.trim()) {
  const found = search(query), words = wordsOf(query).map(stem);
  document.getElementById("search-results").append(...found.slice(0, MOST).map((entry) => item(entry, words)));
  const count = found.length === 1 ? "1 section" : `${found.length} sections`;
  const shown = found.length > MOST ? `, the first ${MOST} shown` : "";
  document.getElementById("search-status").textContent =
    found.length ? `${count}${shown}.` : `Nothing has all the words of “${query}”. Fewer words may find more.`;
}
