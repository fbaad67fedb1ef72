// Searching the tables of a section: rows without the words in their first cell are hidden.

document.querySelectorAll("input[data-finds]").forEach((sought) => {
  const section = document.getElementById(sought.dataset.finds);
  const rows = Array.from(section.querySelectorAll("tbody tr"));
  sought.addEventListener("input", () => {
    const wanted = sought.value.trim().toLowerCase();
    rows.forEach((row) => {
      row.hidden = !row.firstElementChild.textContent.toLowerCase().includes(wanted);
    });
    section.querySelectorAll("details").forEach((each) => { each.open = Boolean(wanted); });
    const found = rows.filter((row) => !row.hidden).length;
    sought.closest(".controls").lastElementChild.textContent = wanted
      ? `${found} of ${rows.length} rows` : "";
  });
});
