// Keyboard: a key only presses a visible link or button of the page, or moves the focus. Pages work without this file.
"use strict";
(() => {
  const OFF = "retentive-keys-off";
  let before = "";
  const isVisible = (each) => (each.checkVisibility ? each.checkVisibility() : each.getClientRects().length > 0);
  const visible = (selector, root) => [...root.querySelectorAll(selector)].filter(isVisible);
  const rows = () => visible("[data-row]", document);
  const current = () => {
    const all = rows();
    return all.find((each) => each === document.activeElement) ?? all.find((each) => each.matches("[aria-current]"));
  };
  const around = (row) => row?.closest("li, tr, section");
  const kept = () => {
    try {
      return localStorage.getItem(OFF) === "1";
    } catch {
      return false; // storage is blocked
    }
  };
  const move = (step) => {
    const all = rows();
    const next = all[Math.max(0, Math.min(all.length - 1, all.indexOf(current()) + step))];
    if (next) next.focus();
  };
  const press = (found) => {
    if (!found) return false;
    if (found.matches("input:not([type=checkbox])")) found.focus();
    else found.click();
    return true;
  };
  const OWN = {
    j: () => move(1),
    k: () => move(-1),
    o: () => press(current() ?? rows()[0]),
    x: () => press(around(current())?.querySelector("input[type=checkbox]")),
  };
  const target = (key) => {
    const selector = `[data-key="${CSS.escape(key)}"]`;
    const row = around(current());
    return (row ? visible(selector, row)[0] : undefined) ?? visible(selector, document)[0];
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input, textarea, select, [contenteditable], dialog") || kept()) return;
    if (event.repeat && !"jk".includes(event.key)) return; // a key that is held decides once
    const typed = before === "g" ? `g ${event.key}` : event.key;
    if (event.key !== "Shift") before = before === "g" ? "" : event.key;
    if (Object.hasOwn(OWN, typed)) {
      OWN[typed]();
      event.preventDefault();
    } else if (press(target(typed))) {
      event.preventDefault();
    }
  });

  const dialog = document.querySelector("dialog");
  const opener = document.querySelector(".keys");
  if (dialog && opener) {
    const single = dialog.querySelector("input");
    opener.hidden = false;
    single.checked = !kept();
    opener.addEventListener("click", () => dialog.showModal());
    dialog.querySelector("button").addEventListener("click", () => dialog.close());
    single.addEventListener("change", () => {
      try {
        localStorage.setItem(OFF, single.checked ? "0" : "1");
      } catch {
        single.checked = true; // storage is blocked, so keys stay on
      }
    });
  }

  // The buttons of a list say how many rows are selected.
  const count = () => {
    for (const form of document.querySelectorAll("form.select")) {
      const chosen = form.querySelectorAll("input[type=checkbox]:checked").length;
      for (const button of form.querySelectorAll("footer button")) {
        button.disabled = chosen === 0;
        button.querySelector("b").textContent = chosen ? String(chosen) : "";
      }
    }
  };
  document.addEventListener("change", count);
  document.addEventListener("htmx:after:swap", count);
  window.addEventListener("pageshow", count);
})();
