// Loads what htmx asks for later: opens directories of the tree, and moves the focus to the next proposal.
"use strict";
(() => {
  document.addEventListener("click", (event) => {
    const chevron = event.target.closest(".chevron");
    if (!chevron) return;
    const children = chevron.parentElement.querySelector("ul");
    const isOpen = chevron.getAttribute("aria-expanded") === "true";
    chevron.setAttribute("aria-expanded", String(!isOpen));
    if (children) children.hidden = isOpen;
  });
  document.addEventListener("htmx:after:swap", (event) => {
    const heading = event.target.id === "main" ? document.querySelector("main h2") : null;
    // Who types in the search field meanwhile goes on typing there.
    if (heading && !document.activeElement.closest(".top")) {
      heading.tabIndex = -1;
      heading.focus();
    }
  });
})();
