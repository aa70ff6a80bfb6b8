// Keyboard: a key only presses a link or a button of the page, or focuses a field. Pages work without this file.
"use strict";
(() => {
  let before = "";
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const move = (step) => {
    const all = rows();
    const at = all.indexOf(document.activeElement);
    const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
    if (next) next.focus();
  };
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea, select")) return;
    const typed = before === "g" ? `g ${event.key}` : event.key;
    before = event.key;
    if (typed === "j" || typed === "k") return move(typed === "j" ? 1 : -1);
    if (typed === "g s") return location.assign("/console/");
    const found = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === typed);
    if (!found) return;
    event.preventDefault();
    if (found.matches("input")) found.focus();
    else found.click();
  });
})();
