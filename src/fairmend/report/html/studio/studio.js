"use strict";
// Conveniences: a choice is applied at once, a file is dropped, progress is live, text is copied.
// Without this script every form has a button, and only dropping a file is missing.

document.documentElement.classList.add("scripted");

document.querySelectorAll("form.auto").forEach((form) => {
  form.addEventListener("change", () => form.requestSubmit());
});

const said = location.search !== "";
if (said) history.replaceState(null, "", location.pathname);  // a reload says it no more

// After a change the page comes back to the same place.
const place = "place " + location.pathname;
const before = sessionStorage.getItem(place);
if (before !== null && !said) {
  sessionStorage.removeItem(place);
  window.scrollTo(0, Number(before));
}
document.querySelectorAll("form").forEach((form) => {
  form.addEventListener("submit", () => sessionStorage.setItem(place, String(window.scrollY)));
});

function tell(text) {
  const box = document.createElement("div");
  box.className = "problem";
  const line = document.createElement("p");
  line.textContent = text;
  box.append(line);
  document.getElementById("said").replaceChildren(box);
}

function errorIn(text) {
  try { return JSON.parse(text).error; } catch { return text; }
}

function upload(file) {
  const bar = document.getElementById("uploading");
  bar.hidden = false;
  const request = new XMLHttpRequest();
  request.open("POST", "upload?name=" + encodeURIComponent(file.name));
  request.upload.addEventListener("progress", (event) => {
    bar.max = event.total;
    bar.value = event.loaded;
  });
  request.addEventListener("load", () => {
    bar.hidden = true;
    if (request.status === 200) location.assign("data");
    else tell(errorIn(request.responseText));
  });
  request.addEventListener("error", () => {
    bar.hidden = true;
    tell("The studio does not answer. Is it still running?");
  });
  request.send(file);
}

const input = document.getElementById("upload");
if (input) {
  const drop = document.getElementById("drop");
  input.addEventListener("change", () => { if (input.files.length) upload(input.files[0]); });
  ["dragover", "dragleave", "drop"].forEach((kind) => drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  }));
}

const waiting = document.getElementById("waiting");
if (waiting) {
  const bar = document.getElementById("bar");
  const events = new EventSource("runs/" + waiting.dataset.run + "/events");
  events.onerror = () => {
    document.getElementById("label").textContent = "The studio does not answer. Is it still running?";
  };
  events.onmessage = (event) => {
    const told = JSON.parse(event.data);
    document.getElementById("label").textContent = told.label;
    document.getElementById("seconds").textContent = told.seconds + " s";
    if (told.total) {
      bar.max = told.total;
      bar.value = told.done;
    } else bar.removeAttribute("value");
  };
  events.addEventListener("ended", () => { events.close(); location.reload(); });
}

const atLevel = document.getElementById("at-level");
if (atLevel) {
  const field = atLevel.querySelector("[name=level]");
  const slider = document.getElementById("level");
  const levels = field.dataset.levels.split(" ");
  atLevel.addEventListener("submit", () => { field.value = levels[Number(slider.value)]; });
}

document.querySelectorAll("[data-copy]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
});
