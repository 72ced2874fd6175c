// What a reference leads to is shown beside it: after a moment under the pointer, at once under the keyboard's focus; on
// a touch screen in a sheet, with a link to go there. tools/site/previews.py marks the references and writes what is shown.
(() => {
  const OPEN = 220, CLOSE = 260; // ms: a pointer that passes by opens nothing; one that is on its way may arrive
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href).href;
  let box, link = null, timer = 0, touched = false;

  // What is shown of a page; nothing where it does not arrive.
  const load = (page) => arrives(`${root}_static/previews/${page.replace(/html$/, "js")}`)
    .then(() => window.PREVIEWS[page], () => ({}));
  const address = (a) => new URL(a.dataset.preview ? root + a.dataset.preview : a.href);
  async function content(a) {
    const { hash, pathname } = address(a);
    return (await load(pathname.slice(new URL(root).pathname.length)))[decodeURIComponent(hash.slice(1))];
  }

  function place(a) {
    const at = a.getClientRects()[0], own = box.getBoundingClientRect();
    const below = at.bottom + own.height + 12 < innerHeight || at.top < own.height + 12;
    box.style.left = `${scrollX + Math.max(8, Math.min(at.left - 12, document.documentElement.clientWidth - own.width - 8))}px`;
    box.style.top = `${scrollY + (below ? at.bottom + 6 : at.top - own.height - 6)}px`;
  }
  async function open(a, sheet) {
    if (link === a) return;
    close();
    link = a;
    const html = await content(a);
    if (!html || link !== a) return;
    box.innerHTML = html; // of the site's own
    box.querySelectorAll("img").forEach((image) => { image.src = root + image.getAttribute("src"); });
    box.classList.toggle("sheet", sheet);
    box.setAttribute("role", sheet ? "dialog" : "tooltip");
    if (sheet) {
      const go = document.createElement("a");
      go.href = a.href;
      go.textContent = `Go to ${a.textContent.trim()}`;
      go.addEventListener("click", () => close());
      box.append(go);
      box.setAttribute("aria-label", `${a.textContent.trim()}, preview`);
      box.removeAttribute("style");
    } else {
      box.removeAttribute("aria-label");
      a.setAttribute("aria-describedby", box.id);
    }
    box.showPopover();
    if (sheet) box.lastChild.focus({ preventScroll: true });
    else place(a);
  }
  function close() {
    clearTimeout(timer);
    link?.removeAttribute("aria-describedby");
    if (box.classList.contains("sheet") && box.contains(document.activeElement)) link?.focus({ preventScroll: true });
    link = null;
    if (box.matches(":popover-open")) box.hidePopover();
  }
  function later(act, ms) {
    clearTimeout(timer);
    timer = setTimeout(act, ms);
  }

  function prepare(a) {
    a.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") later(() => open(a, false), OPEN); });
    a.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") later(close, CLOSE); });
    a.addEventListener("focus", () => { if (!touched && a.matches(":focus-visible")) open(a, false); });
    a.addEventListener("blur", () => { if (!box.classList.contains("sheet")) later(close, CLOSE); });
    a.addEventListener("click", async (event) => { // a second tap follows the link
      if (!touched || link === a) return;
      event.preventDefault();
      if (await content(a)) open(a, true);
      else location.assign(a.href);
    });
  }

  const links = document.querySelectorAll("a[data-preview]");
  if (!links.length || !("popover" in HTMLElement.prototype)) return;
  box = document.createElement("div");
  box.id = box.className = "preview";
  box.popover = "manual";
  box.tabIndex = 0; // it may scroll
  document.querySelector("main").append(box); // within a landmark
  links.forEach(prepare);
  box.addEventListener("pointerenter", () => clearTimeout(timer));
  box.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") later(close, CLOSE); });
  addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch";
    if (link && !box.contains(event.target) && event.target.closest?.("a") !== link) close();
  }, true);
  addEventListener("keydown", (event) => {
    touched = false;
    if (event.key === "Escape" && link) close();
  });
})();
