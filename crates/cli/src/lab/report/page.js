// Sorts a table by the column whose heading is pressed; a cell without a figure goes to the end.
const missing = "–";

function valueOf(row, column) {
  const cell = row.cells[column];
  const text = cell.textContent.trim();
  if (text === missing && !cell.dataset.v) return null;
  const number = Number(cell.dataset.v ?? text.replace(/^\+/, ""));
  return Number.isNaN(number) ? text : number;
}

function order(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sort(table, heading) {
  const column = heading.cellIndex;
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [valueOf(row, column), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return up ? order(a, b) : order(b, a);
  });
  body.append(...keyed.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table")) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, heading));
    heading.append(button);
  }
}
