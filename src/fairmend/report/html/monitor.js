const button = document.getElementById("pause");
const state = document.getElementById("state");
let paused = false;
if (button) button.hidden = false;
button?.addEventListener("click", () => {
  paused = !paused;
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Resume refreshing" : "Pause refreshing";
});
async function refresh() {
  if (paused || document.hidden) return;
  try {
    const response = await fetch(location.href, { cache: "no-store" });
    if (!response.ok) throw new Error(response.status);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const open = new Set([...document.querySelectorAll("details[open]")].map((one) => one.id));
    const focused = document.activeElement && document.activeElement.id;
    const scrolled = [window.scrollX, window.scrollY];
    if (document.activeElement && document.activeElement.name === "id") return; // being typed into
    for (const part of ["h1", "main"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
    for (const one of document.querySelectorAll("details")) one.open = open.has(one.id);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    window.scrollTo(...scrolled);
    state.textContent = "live";
  } catch {
    state.textContent = "not reachable; what is shown may be old";
  }
}
if (button) setInterval(refresh, 5000);
