// Searching the table of variances: rows that are in it, or all features where it has some only.

const sought = document.getElementById("variance-find");
const spreads = document.getElementById("variance-rows");

function spreadCells(feature) {
  if (data.unresolved.includes(feature)) return ["not found", "\u2013", "not found", "\u2013"];
  const variance = data.variances[feature];
  const noisy = variance < 0;
  const unit = data.units[feature] ** 2;
  const ends = data.varianceEnds
    && data.varianceEnds.map((end) => Math.max(0, end[feature] * unit));
  const known = ends && ends.every(Number.isFinite);
  const mark = data.uncovered.includes(feature) ? " \u2020" : "";
  const between = (low, high) => (known ? `${number(low)} to ${number(high)}${mark}` : "\u2013");
  return [
    noisy ? "not found" : number(Math.sqrt(variance)),
    known ? between(...ends.map(Math.sqrt)) : "\u2013",
    number(variance) + (noisy ? ": noise" : ""),
    known ? between(...ends) : "\u2013",
  ];
}

function spreadRow(feature, title) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.append(Object.assign(document.createElement("bdi"), { textContent: title }));
  row.append(head);
  const labels = ["standard deviation", spreads.dataset.ends, "variance", spreads.dataset.ends];
  spreadCells(feature).forEach((text, at) => {
    if (!labels[at]) return;
    const cell = Object.assign(document.createElement("td"), { textContent: text });
    cell.className = "number";
    cell.dataset.label = labels[at];
    row.append(cell);
  });
  return row;
}

if (sought) {
  const listed = Array.from(spreads.children);
  sought.addEventListener("input", () => {
    const wanted = sought.value.trim().toLowerCase();
    const names = data.names || Array.from(data.identity, String);
    const found = Array.from(data.identity).filter((each) => {
      return names[each].toLowerCase().includes(wanted);
    });
    const shown = found.slice(0, listed.length);
    const rows = shown.map((each) => listed[each] || spreadRow(each, names[each]));
    spreads.replaceChildren(...rows);
    document.getElementById("variance-said").textContent = wanted
      ? `${found.length} of ${data.features} features${
        found.length > shown.length ? `, the first ${shown.length} are shown` : ""}`
      : "";
  });
}
