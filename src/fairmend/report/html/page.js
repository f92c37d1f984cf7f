"use strict";
// Conveniences: tables sort by a click on their head, the slider shows another level, a choice
// another person, and what is folded is open on paper in browsers whose style sheets cannot say so.
// Without this script the page shows the same figures, all levels in a table.

function sortable(table) {
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = Array.from(body.rows).map((row) => ({ row, key: keyOf(row.cells[column]) }));
      rows.sort((a, b) => compare(a.key, b.key, down ? -1 : 1));
      body.append(...rows.map((one) => one.row));
    });
  });
}

function keyOf(cell) {
  if (cell.dataset.order === undefined) return cell.textContent;
  return cell.dataset.order === "" ? null : Number(cell.dataset.order);
}

// What is not known comes last, whichever way.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
  return sign * order;
}

function connect(key, data) {
  const input = document.getElementById(key);
  const section = input.closest("section");
  const now = document.getElementById(key + "-now");
  const cursors = Array.from(section.querySelectorAll("line.cursor"));
  const tables = Array.from(section.querySelectorAll("tbody"), (body) => Array.from(body.rows));

  function show() {
    const level = Number(input.value);
    now.textContent = data.levels[level];
    section.querySelectorAll(".level-now").forEach((place) => {
      place.textContent = data.levels[level];
    });
    section.querySelectorAll("[data-figure]").forEach((place) => {
      const [, levels] = data.groups[Number(place.dataset.group)];
      place.textContent = levels[level][Number(place.dataset.figure)];
    });
    cursors.forEach((line) => {
      line.setAttribute("opacity", Number(line.dataset.level) === level ? "1" : "0");
    });
    tables.forEach((rows) => rows.forEach((row, i) => row.classList.toggle("chosen", i === level)));
    const said = data.groups.map(([name, levels]) =>
      name + ": " + data.labels[0] + " " + levels[level][0]).join("; ");
    input.setAttribute("aria-valuetext", data.levels[level] + ". " + said);
  }
  input.addEventListener("input", show);
  document.getElementById(key + "-control").hidden = false;
  show();
  // On paper everything is at the level in force.
  let chosen = input.value;
  window.addEventListener("beforeprint", () => { chosen = input.value; input.value = input.defaultValue; show(); });
  window.addEventListener("afterprint", () => { input.value = chosen; show(); });
}

// The page shows the first person; a choice shows another one in the same place.
function choosePerson(people) {
  const select = document.getElementById("person");
  const shown = document.getElementById("person-shown");
  const cell = (kind, text, head) => {
    const one = document.createElement(kind);
    one.textContent = text;
    if (head) one.dataset.head = head; else one.scope = "row";
    return one;
  };
  select.addEventListener("change", () => {
    const { id, group, why, changes } = people[Number(select.value)];
    shown.querySelector("h3").textContent = group ? id + ", " + group : id;
    shown.querySelector("ul").replaceChildren(...why.map((text) => {
      const line = document.createElement("li");
      line.textContent = text;
      return line;
    }));
    shown.querySelector("tbody").replaceChildren(...changes.map(([name, before, after]) => {
      const row = document.createElement("tr");
      row.append(cell("th", name), cell("td", before, "as it is"),
                 cell("td", after, "as the model sees it"));
      return row;
    }));
  });
  document.getElementById("person-control").hidden = false;
}

const { people, ...sliders } = JSON.parse(document.getElementById("data").textContent);
for (const [key, data] of Object.entries(sliders)) connect(key, data);
if (people) choosePerson(people);
document.querySelectorAll("main table[id]").forEach(sortable);

let folded = [];
window.addEventListener("beforeprint", () => {
  folded = Array.from(document.querySelectorAll("details:not([open]):not(.again)"));
  folded.forEach((one) => { one.open = true; });
});
window.addEventListener("afterprint", () => {
  folded.forEach((one) => { one.open = false; });
});
