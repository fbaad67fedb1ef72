// Looking for a column by name, in the strongest pairs of a release of very many features.

const pairs = JSON.parse(document.getElementById("data").textContent).entries;
const wantedColumn = document.getElementById("column-find");
const columnRows = document.getElementById("column-rows");
const SHOWN = 20;

function cellOf(text, label) {
  const cell = Object.assign(document.createElement("td"), { textContent: text });
  cell.className = "number";
  cell.dataset.label = label;
  return cell;
}

function rowOf([one, other, value, ends, places]) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  const names = [one, other].map((each) => {
    return Object.assign(document.createElement("bdi"), { textContent: each });
  });
  head.append(names[0], " \u00d7 ", names[1]);
  const minus = (number) => number.toFixed(3).replace("-", "\u2212");
  row.append(head, cellOf(value === null ? "not found" : minus(value), "correlation"));
  row.append(cellOf(ends ? `${minus(ends[0])} to ${minus(ends[1])}` : "\u2013",
    columnRows.dataset.interval));
  if (places) {
    row.append(cellOf(places.map((each) => each.toLocaleString("en")).join(", "), "positions"));
  }
  return row;
}

function findColumn() {
  const words = wantedColumn.value.trim().toLowerCase();
  const found = pairs.filter((each) => {
    return each[0].toLowerCase().includes(words) || each[1].toLowerCase().includes(words);
  });
  columnRows.replaceChildren(...found.slice(0, SHOWN).map(rowOf));
  const few = found.length > SHOWN ? `, the first ${SHOWN} are shown` : "";
  const none = "not among the strongest pairs: hushcov show RELEASE --column NAME looks at all";
  document.getElementById("column-said").textContent = found.length
    ? `${found.length.toLocaleString("en")} pairs${few}` : none;
}

if (wantedColumn) {
  wantedColumn.addEventListener("input", findColumn);
  findColumn();
}
