// The first page: Leak Lab moves once, from an honest setting to its leak, and two models write on when asked to.
(() => {
"use strict";
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** Set one of the instrument's sliders as a reader would. */
function set(input, value) {
  input.value = value;
  input.dispatchEvent(new Event("input"));
}

/** Three outputs in turn at the honest shift, then the shift that leaks; a touch or a key ends it where it is. */
function play(lab) {
  const [, shift, output] = lab.querySelectorAll("input"), said = lab.querySelector("[aria-live]");
  const [leak, last] = [shift.value, Number(output.value)];
  const steps = [[900, () => set(output, last - 2)], [500, () => set(output, last - 1)], [500, () => set(output, last)],
    [1100, () => lab.classList.add("leaks-now") || set(shift, leak)], [900, stop]];
  let waiting;
  function next() {
    if (!steps.length) return;
    const [wait, step] = steps.shift();
    waiting = setTimeout(() => (step(), next()), wait);
  }
  function stop() {
    clearTimeout(waiting);
    steps.length = 0;
    said.setAttribute("aria-live", "polite");
    lab.classList.remove("leaks-now");
    lab.dataset.played = "yes";
  }
  said.setAttribute("aria-live", "off");  // a reader who listens hears what they choose, and not this
  set(shift, Number(leak) + 1);
  set(output, last - 3);
  for (const touch of ["pointerdown", "keydown"]) lab.addEventListener(touch, stop, { capture: true, once: true });
  new IntersectionObserver(([seen], observer) => {
    if (!seen.isIntersecting) return;
    observer.disconnect();
    next();
  }, { threshold: 0.5 }).observe(lab.querySelector(".flow"));
}

/** What the page Write with it runs on comes with the first press. */
function ask(root) {
  const button = root.querySelector("button");
  button.addEventListener("click", async () => {
    if (!root.app) {
      button.disabled = true;
      try {
        for (const src of root.dataset.scripts.split(" ")) await arrives(src);
      } catch {
        root.querySelector(".models-error").textContent = "The models’ scripts did not arrive. Is there a network?";
      }
      button.disabled = false;
    }
    root.app?.press();
  });
}

addEventListener("DOMContentLoaded", () => {
  const lab = document.querySelector(".leak-lab[data-mounted]");
  if (lab && !calm.matches && !location.hash) play(lab);
  document.querySelectorAll("#two-write-here").forEach(ask);
});
})();
