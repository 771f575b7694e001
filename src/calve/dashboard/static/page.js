// Replaces the live parts of the page every five seconds. Without this script the page is complete, but stands still.
"use strict";
(() => {
  const button = document.getElementById("updates");
  if (!document.querySelector("[data-live]")) return;
  let running = true;
  button.hidden = false;
  button.addEventListener("click", () => {
    running = !running;
    button.setAttribute("aria-pressed", String(!running));
  });

  const isSelected = (part) => !getSelection().isCollapsed && getSelection().containsNode(part, true);
  const isUsed = (part) => part.contains(document.activeElement) || isSelected(part);

  async function update() {
    if (!running || document.hidden) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = page.getElementById(part.id);
      if (next && !isUsed(part) && next.innerHTML !== part.innerHTML) part.replaceChildren(...next.childNodes);
    }
  }
  const tryUpdate = () => update().catch(() => {}); // the server may be gone for a while
  setInterval(tryUpdate, 5000);
  document.addEventListener("visibilitychange", tryUpdate);
})();
