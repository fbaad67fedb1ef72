// Searching the table of variances.

const sought = document.getElementById("variance-find");

if (sought) {
  const rows = Array.from(document.getElementById("variance-rows").children);
  sought.addEventListener("input", () => {
    const wanted = sought.value.trim().toLowerCase();
    rows.forEach((row) => {
      row.hidden = !row.firstElementChild.textContent.toLowerCase().includes(wanted);
    });
    const found = rows.filter((row) => !row.hidden).length;
    document.getElementById("variance-said").textContent = wanted
      ? `${found} of ${rows.length} features` : "";
  });
}
