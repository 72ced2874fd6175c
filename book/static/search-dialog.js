// The theme's dialog (Ctrl-K) shows results while somebody types. The index comes when the dialog is opened first; Enter in
// the field asks the search page for all results, as it does without this script, and Escape closes the dialog.
(() => {
"use strict";
const MOST = 12; // results shown
const dialog = document.getElementById("pst-search-dialog"), root = document.documentElement.dataset.content_root;

dialog?.addEventListener("focusin", async () => {
  const told = document.createElement("p"), results = document.createElement("ol");
  told.setAttribute("role", "status");
  dialog.append(told, results);
  dialog.classList.add("live");
  try {
    for (const file of typeof attach === "function" ? [] : ["sections.js", "search.js"]) await arrives(`${root}_static/${file}`);
  } catch {
    told.textContent = "The index did not arrive. Enter asks the search page.";
    return;
  }
  attach(dialog.querySelector("input[type=search]"), results, told, { root, most: MOST });
  results.addEventListener("click", (event) => event.target.closest("a") && dialog.close()); // it may lead to a place on this page
}, { once: true });
})();
