// The first page: an annotated block shows itself once, and two models write on when asked to.
(() => {
"use strict";

/** Three symbols light up in turn, as under a mouse; a touch or a key ends it. */
function play(block) {
  const point = (mark, type) => mark.dispatchEvent(new PointerEvent(type, { bubbles: true, pointerType: "mouse" }));
  const steps = ["y", "a", "v"].map((name) => [...block.querySelectorAll(".join-math msub[data-join]")]
    .find((mark) => mark.firstChild.textContent === name));
  let waiting;
  function next() {
    const mark = steps.shift();
    point(mark ?? block, mark ? "pointerover" : "pointerleave");
    if (mark) waiting = setTimeout(next, 1600);
  }
  const stop = () => clearTimeout(waiting);
  for (const touch of ["pointermove", "pointerdown", "keydown"]) block.addEventListener(touch, stop, { capture: true, once: true });
  waiting = setTimeout(next, 1000);
}

/** What the page Write with it runs on comes with the first press. */
document.querySelectorAll("#two-write-here").forEach((root) => {
  const button = root.querySelector("button");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      for (const src of root.dataset.scripts.split(" ")) await arrives(src);
    } catch {
      root.querySelector(".models-error").textContent = "The models’ scripts did not arrive. Is there a network?";
    }
    button.disabled = false;
    root.app?.press();
  });
});
if (!matchMedia("(prefers-reduced-motion: reduce)").matches && !location.hash) play(document.querySelector(".join"));
})();
