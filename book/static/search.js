// Search among the sections that tools/site/search.py wrote to sections.js: pages, each with its sections; words for the same
// thing; and questions with the section that answers. The search page loads both at once, and the dialog of every other page
// when it is opened first (search-dialog.js).
const MOST = 40; // results shown
const LONGEST = 200; // letters of a query that are read
const PINNED = 3; // of the best score: what a question of the list is worth that is typed word by word
const AROUND = 110; // characters of an excerpt on each side of what was found

// The chapters explain what studies measure, and what lists and the package's pages only name.
const WORTH = [[/^book\/api[.\/]/, 0.4], [/^book\/(source\/|what-changed)/, 0.25], [/came after$|^book\/(papers|from-labml|bibliography|notation|index)\./, 0.6],
  [/this code$|does not say$|would undo it$|Beside the papers?$/, 0.7], [/^book\/glossary\./, 0.5], [/ Exercise /, 0.8], [/^notebooks\/studies\//, 0.85]];

const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
// "shortenings" and "shortened" ask for what "shortening" does: what is left begins all three.
const stem = (word) => (word.length > 3 ? word.replace(/(?<!s)s$/, "") : word).replace(/(?<=.{4})(ing|ed)$/, "");
const STOP = new Set(("a about am an and any are as at be been between book by can could did difference different do does "
  + "explain for from get had has have how i if in instead into is it its just like look make me more my need not of on one or our own "
  + "see should so than that the their them then there these they this to too use used using want was we were what when "
  + "where which who why will with without work would you your").split(" ").map(stem));
const wordsOf = (text) => plain(text).replace(/n[’']t\b|[’']s\b/g, "").match(/[\p{L}\p{N}_]+/gu) ?? [];
const stems = (text) => wordsOf(text).map(stem).join(" ");
const telling = (text) => text.split(" ").filter((word) => !STOP.has(word));
// Where one of some words, or phrases, stands: with an ending shorter than itself, or with any where it may still be typed.
const standing = (names, typing = true) => new RegExp(`(?<![\\p{L}\\p{N}_])(?:${names.map((name) => name.replace(/ /g, "\\p{L}*\\P{L}+")
  + (typing ? "" : `\\p{L}{0,${Math.max(1, name.length - 2)}}(?![\\p{L}\\p{N}])`)).join("|")})`, "giu");

const entries = Object.values(SECTIONS).flatMap(([page, sections]) => sections.map(([address, title, text, names, target]) =>
  ({ address, title, text, names, target, page, heading: plain(title), words: plain(text), code: plain(names), of: plain(page),
    called: telling(stems(title)).join(" ").replace(/^(s?\d+ )+/, ""), asked: plain((KNOWN.asked[address] ?? []).join(" ")) })));
const usual = entries.reduce((sum, entry) => sum + entry.words.length, 0) / entries.length;
const at = new Map(entries.map((entry, i) => [entry.address, i]));
const same = KNOWN.same.map((group) => group.map(stems));
const phrases = same.flatMap((group, i) => group.map((name) => [name, i])).sort((a, b) => b[0].length - a[0].length);

// Each word that counts, with the other words for the same: stop words count only where there is nothing else.
function wanted(query) {
  let text = ` ${stems(query)} `;
  for (const [name, group] of phrases) text = text.replaceAll(` ${name} `, ` #${group} `);
  const all = telling(text.trim());
  return [...new Set(all.length ? all : text.trim().split(" "))].filter(Boolean)
    .map((word) => (word[0] === "#" ? same[word.slice(1)] : [word]));
}

const key = (names) => (names.length > 1 ? `#${names[0]}` : names[0]); // one key of all words for the same

// The questions of each section, and how much of one is in another, from 0 to 1: words that few of them have count more.
const asked = Object.entries(KNOWN.asked).map(([address, list]) => [at.get(address), list.map((q) => wanted(q).map(key))]);
const questions = asked.flatMap(([, list]) => list);
const says = (word) => {
  const found = questions.filter((words) => words.includes(word)).length;
  return found ? Math.log(1 + questions.length / found) : 3;
};
const weight = (words) => words.reduce((sum, word) => sum + says(word), 0);
const shares = (words, question) => 2 * weight(question.filter((word) => words.includes(word)
  || (words.at(-1).length > 2 && word.startsWith(words.at(-1))))) / (weight(words) + weight(question));

// How much of a word an entry has, from 0 to about 3: its title counts most, then how often the text has it.
function has(entry, pattern) {
  const found = (entry.words.match(pattern) ?? []).length;
  return (entry.heading.search(pattern) >= 0 ? 1.8 : 0) + (entry.asked.search(pattern) >= 0 ? 1.2 : 0)
    + found / (found + 0.75 * (1 + entry.words.length / usual))
    + (entry.of.search(pattern) >= 0 ? 0.3 : 0) + (entry.code.search(pattern) >= 0 ? 0.2 : 0);
}

const known = new Map(); // what each entry has of a word that was typed before: while somebody types, only the last is new
const counted = (pattern) => known.get(pattern.source)
  ?? known.set(pattern.source, entries.map((entry) => has(entry, pattern))).get(pattern.source);

function search(query) {
  const words = wanted(query), typed = telling(stems(query)), phrase = typed.join(" ");
  if (!words.length) return [];
  const together = standing([phrase]), patterns = words.map((names, i) => standing(names, i === words.length - 1));
  const counts = patterns.map(counted);
  // What few sections have says more; a word that an entry lacks has its price, and excludes nothing.
  const rare = counts.map((count) => Math.log(1 + entries.length / (1 + count.filter((x) => x > 0.35).length)));
  const whole = rare.reduce((a, b) => a + b, 0);
  const met = entries.map((_, i) => rare.reduce((sum, x, w) => sum + (counts[w][i] > 0 ? x : 0), 0) / whole);
  const scores = entries.map((entry, i) => {
    let sum = rare.reduce((all, x, w) => all + x * counts[w][i], 0) * met[i] ** 1.5;
    if (typed.length > 1 && entry.words.search(together) >= 0) sum *= 1.15;
    if (entry.called === phrase) return sum * (entry.address.startsWith("notebooks/") ? 4 : 2);
    return sum * (WORTH.find(([where]) => where.test(`${entry.address} ${entry.title}`))?.[1] ?? 1);
  });
  const most = Math.max(1, ...scores), isWord = ({ address, target }) => target && address.startsWith("book/glossary");
  // A word of the glossary that answers in part speaks for the section that explains it.
  entries.forEach((entry, i) => { if (isWord(entry)) scores[at.get(entry.target)] += 0.3 * scores[i]; });
  // A word of the glossary, or a name of code as it is written: first the section that explains it, then its entry.
  const isAsked = /^\s*(what('?s| is| are| does| do)|define|definition|meaning|explain)\b/i.test(query);
  const term = entries.findIndex((entry) => {
    if (entry.target === undefined) return false;
    if (!entry.address.startsWith("book/glossary")) return entry.title === query.trim();
    const name = stems(entry.title).split(" "), rest = typed.filter((word) => word !== "glossary" && !name.includes(word));
    return rest.length <= (isAsked ? name.length : 0) && name.every((word) => typed.includes(word));
  });
  if (term >= 0) {
    scores[term] = (typed.includes("glossary") ? 5 : 1.5) * most;
    if (entries[term].target) scores[at.get(entries[term].target)] = 2.5 * most;
  }
  for (const [i, list] of asked) scores[i] += PINNED * most * Math.max(0, ...list.map((q) => shares(words.map(key), q))) ** 2;
  const least = 0.03 * most;
  return entries.map((entry, i) => [entry, scores[i]]).filter(([, score]) => score > least)
    .sort((a, b) => b[1] - a[1]).map(([entry]) => entry);
}

// The words around the first place where one of the asked stands, those marked.
function excerpt(text, words) {
  const pattern = new RegExp(`${standing(words).source}[\\p{L}\\p{N}_]*`, "giu");
  const together = text.search(new RegExp(words.join("\\P{L}+"), "iu"));
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

function item(entry, words, root) {
  const made = document.createElement("li"), link = document.createElement("a"), where = document.createElement("span");
  link.href = root + entry.address;
  link.textContent = entry.title;
  where.textContent = entry.page === entry.title ? "" : entry.page;
  made.append(link, " ", where, excerpt(entry.text, words));
  return made;
}

/** Results below a field while somebody types, at most so many; by keyboard, down and up go through them. */
function attach(field, results, told, { root = "", most = MOST, onshow = () => {} } = {}) {
  const show = () => {
    const query = field.value.slice(0, LONGEST), found = search(query), all = wanted(query).flat();
    const typed = telling(wordsOf(query).join(" "));
    const marked = (entry) => (typed.some((word) => entry.words.search(standing([word])) >= 0) ? typed : all);
    results.replaceChildren(...found.slice(0, most).map((entry) => item(entry, marked(entry), root)));
    const count = found.length === 1 ? "1 section" : `${found.length} sections`;
    const shown = found.length > most ? `, the first ${most} shown` : "";
    told.textContent = !query.trim() ? "" : found.length ? `${count}${shown}.` : `Nothing has any word of “${query}”.`;
  };
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      show();
      onshow(field.value);
    }, 120);
  });
  document.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], links = [...results.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (!step || !links.length || (at < 0 && document.activeElement !== field)) return;
    event.preventDefault();
    (at + step < 0 ? field : links[Math.min(at + step, links.length - 1)]).focus();
  });
  if (field.value.trim()) show();
}

const page = document.getElementById("search-results");
if (page) {
  const query = new URLSearchParams(location.search).get("q") ?? "";
  for (const input of document.querySelectorAll("input[name=q]")) input.value = query;
  const field = document.querySelector(".bd-search-container input[type=search]");
  field.focus();
  attach(field, page, document.getElementById("search-status"), {
    onshow: (typed) => history.replaceState(null, "", `?q=${encodeURIComponent(typed)}`),
  });
}
