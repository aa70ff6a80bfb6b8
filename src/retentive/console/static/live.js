// Live pages: counts the rows that htmx receives, and shows them when the reader asks. Pages work without this file.
"use strict";
(() => {
  const KEPT = 500;
  const get = (id) => document.getElementById(id);
  const root = document.documentElement;
  root.classList.add("live");
  let isGone = false;
  let isStale = false;

  // Hidden pages have no stream: a page in the background connects when it is first seen.
  const connect = () => {
    const arrived = get("arrived");
    if (arrived && !document.hidden && !isGone) htmx.trigger(arrived, "connect");
  };

  const update = () => {
    const arrived = get("arrived");
    if (!get("count")) return;
    while (arrived.children.length > KEPT) arrived.lastElementChild.remove();
    // The value of a row for changes that are left out is their number.
    const others = [...arrived.querySelectorAll("li.more")].reduce((sum, each) => sum + each.value, 0);
    const rows = arrived.querySelectorAll("li:not(.more)").length + others;
    const other = isStale ? "The store has changed." : "";
    get("count").textContent = rows ? `${rows} new change${rows === 1 ? "" : "s"}.` : other;
    get("show").hidden = !arrived.children.length && !isStale;
  };

  // The rows go to the top, where the reader looks now. After a removal, everything is loaded again.
  const show = () => {
    const [arrived, shown, fresh] = [get("arrived"), get("shown"), get("fresh")];
    if (isStale) {
      shown.replaceChildren();
      arrived.replaceChildren();
      htmx.trigger(arrived, "reread");
    } else {
      htmx.trigger(arrived, "shown");
    }
    shown.prepend(...arrived.children);
    while (shown.children.length > KEPT) shown.lastElementChild.remove();
    fresh.hidden = !shown.children.length;
    isStale = false;
    update();
    fresh.scrollIntoView({ block: "nearest" });
    fresh.focus();
  };

  const end = () => {
    isGone = true;
    if (get("again")) get("again").hidden = false;
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("#show")) show();
    const chevron = event.target.closest(".chevron");
    if (!chevron) return;
    const children = chevron.parentElement.querySelector("ul");
    const isOpen = chevron.getAttribute("aria-expanded") === "true";
    chevron.setAttribute("aria-expanded", String(!isOpen));
    if (children) children.hidden = isOpen;
  });
  document.addEventListener("htmx:sse:after:message", update);
  document.addEventListener("changed", () => {
    isStale = true;
    update();
  });
  document.addEventListener("signed-out", end);
  document.addEventListener("htmx:sse:error", (event) => {
    if ([403, 404].includes(event.detail.status)) isGone = true;
  });
  document.addEventListener("htmx:sse:before:connection", (event) => {
    if (isGone) event.preventDefault();
  });
  // What was decided between the page and its stream is in no message.
  document.addEventListener("htmx:sse:after:connection", () => {
    if (get("waiting")) htmx.trigger(document.body, "waiting");
  });
  document.addEventListener("htmx:after:swap", (event) => {
    setTimeout(connect); // when htmx knows the new elements
    const heading = event.target.id === "main" ? document.querySelector("main h2") : null;
    // Who types in the search field meanwhile goes on typing there.
    if (heading && !document.activeElement.closest(".top")) {
      heading.tabIndex = -1;
      heading.focus();
    }
  });
  document.addEventListener("visibilitychange", connect);
  document.addEventListener("DOMContentLoaded", () => setTimeout(connect));
})();
