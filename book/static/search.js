// Search among the sections that tools/site/search.py wrote to sections.js: pages, each with its sections. The search page
// loads both at once, and the dialog of every other page when it is opened first (search-dialog.js).
const MOST = 40; // results shown
const LONGEST = 200; // letters of a query that are read
const AROUND = 110; // characters of an excerpt on each side of what was found

const STOP = new Set(("a am an and any are as at be been by can could did do does for from had has have how i if in instead into is it its "
  + "me my need of on one or our own should so than that the their them then there these they this to too use using versus vs was we "
  + "were what when where which who why will with without you your").split(" "));
// What people type, and what this book calls it: words that count as well.
const ALSO = {
  __proto__: null, // no word is a key by itself
  adam: "adamw", ci: "interval", cite: "citation", citing: "citation", conv: "convolution", conv1d: "convolution",
  ddp: "torchrun", ffn: "feed-forward", fir: "kernel", gqa: "heads", inference: "decoding", init: "start",
  initialization: "start", longer: "long", lr: "rate", mha: "heads", mlp: "feed-forward", mqa: "heads", multiquery: "heads",
  normalization: "norm", oom: "memory", overfit: "validation", pool: "shorten", pooling: "shorten",
  positional: "position", prune: "cut", reproduce: "again", rope: "rotary", sgu: "gate", significance: "luck",
  significant: "chance", statistically: "chance", upsample: "up-sampling", upsampling: "up-sampling",
};
const PHRASES = [[/\bk\W?v c\w*/g, "cache"], [/\bloss\b.*\btoo (low|good)\b|\btoo (low|good)\b.*\bloss\b/g, "loss cheats leak"],
  [/\bown model\b/g, "train longer"], [/\bwhich model\b/g, "which take"], [/\bfrequency response\b/g, "filter gain"],
  [/\brelu(\(x\))?\W*2\b/g, "squared relu"], [/\bearly stopping\b/g, "cut"]];

// The chapters explain what studies measure, and what lists and the package's pages only name.
const WORTH = [[/^book\/api[.\/]/, 0.4], [/^book\/(source\/|what-changed)/, 0.25], [/came after$|^book\/(papers|from-labml|bibliography|notation|index)\./, 0.6],
  [/this code$|does not say$|would undo it$|Beside the papers?$/, 0.7], [/^book\/glossary\./, 0.5], [/ Exercise /, 0.8], [/^notebooks\/studies\//, 0.85]];

const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
// "shortenings" and "shortened" ask for what "shortening" does: what is left begins all three.
const stem = (word) => (word.length > 3 ? word.replace(/(?<!s)s$/, "") : word).replace(/(?<=.{4})(ing|ed)$/, "");
const wordsOf = (text) => plain(text).match(/[\p{L}\p{N}_]+/gu) ?? [];
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const beginning = (word) => new RegExp(`(?<![\\p{L}\\p{N}_])${escaped(word)}`, "giu");

const entries = Object.values(SECTIONS).flatMap(([page, sections]) => sections.map(([address, title, text, names, target]) =>
  ({ address, title, text, names, target, page, heading: plain(title), words: plain(text), code: plain(names), of: plain(page) })));
const usual = entries.reduce((sum, entry) => sum + entry.words.length, 0) / entries.length;

// Each word that counts, with the other words for the same: stop words count only where there is nothing else.
function wanted(query) {
  let text = plain(query).replace(/n[’']t\b|[’']s\b/g, "");
  for (const [phrase, words] of PHRASES) text = text.replace(phrase, words);
  const all = wordsOf(text), telling = all.filter((word) => !STOP.has(word));
  return [...new Set(telling.length ? telling : all)].map((word) => [...new Set([stem(word), ALSO[word]])].filter(Boolean));
}

// How much of a word an entry has, from 0 to about 3: its title counts most, then how often the text has it.
function has(entry, names) {
  let best = 0;
  for (const name of names) {
    const pattern = beginning(name);
    const found = (entry.words.match(pattern) ?? []).length;
    const length = 1.5 * (0.5 + (0.5 * entry.words.length) / usual);
    const sum = (entry.heading.search(pattern) >= 0 ? 1.8 : 0) + found / (found + length)
      + (entry.code.includes(name) ? 0.2 : 0) + (entry.of.search(pattern) >= 0 ? 0.3 : 0);
    best = Math.max(best, sum);
  }
  return best;
}

function search(query) {
  const words = wanted(query);
  if (!words.length) return [];
  const counts = words.map((names) => entries.map((entry) => has(entry, names)));
  // What few sections have says more; a word that an entry lacks has its price, and excludes nothing.
  const rare = counts.map((count) => Math.log(1 + entries.length / (1 + count.filter((x) => x > 0.35).length)));
  const whole = rare.reduce((a, b) => a + b, 0), phrase = words.map((names) => names[0]).join(" ");
  let found = [];
  entries.forEach((entry, i) => {
    let sum = 0, met = 0;
    counts.forEach((count, w) => {
      if (count[i] > 0) met += rare[w];
      sum += rare[w] * count[i];
    });
    if (!met) return;
    sum *= (met / whole) ** 1.5;
    const title = wordsOf(entry.title).map(stem).filter((word) => !STOP.has(word)).join(" ").replace(/^(s?\d+ )+/, "");
    if (words.length > 1 && entry.words.search(beginning(phrase)) >= 0) sum *= 1.15;
    if (title === phrase) sum *= entry.address.startsWith("notebooks/") ? 4 : 2;
    else sum *= WORTH.find(([where]) => where.test(`${entry.address} ${entry.title}`))?.[1] ?? 1;
    found.push({ entry, score: sum });
  });
  const least = 0.03 * Math.max(...found.map((one) => one.score));
  found = found.filter((one) => one.score >= least);
  // A word of the glossary that answers in part speaks for the section that explains it.
  for (const { entry, score } of found.filter((one) => one.entry.target && one.entry.address.startsWith("book/glossary"))) {
    const explains = found.find((one) => one.entry.address === entry.target);
    if (explains) explains.score += 0.3 * score;
  }
  // A word of the glossary, or a name of code as it is written: first the section that explains it, then its entry.
  const asked = words.map((names) => names[0]).filter((word) => word !== "glossary");
  const isAsked = /^\s*(what('?s| is| are)|define|definition)\b/i.test(query);
  const isTerm = (e) => {
    if (!e.address.startsWith("book/glossary")) return e.title === query.trim();
    const name = wordsOf(e.title).map(stem);
    return name.join(" ") === asked.join(" ") || (isAsked && name.every((word) => asked.includes(word)));
  };
  const term = entries.find((e) => e.target !== undefined && isTerm(e));
  if (term) {
    const lift = (entry, score) => {
      const already = found.find((one) => one.entry === entry);
      if (already) already.score = score;
      else found.push({ entry, score });
    };
    const explains = entries.find((e) => e.address === term.target);
    lift(term, words.some(([word]) => word === "glossary") ? 2000 : 500);
    if (explains) lift(explains, 1000);
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
    const typed = wordsOf(query).filter((word) => !STOP.has(word));
    const marked = (entry) => (typed.some((word) => entry.words.search(beginning(word)) >= 0) ? typed : all);
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
