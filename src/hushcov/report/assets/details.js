// Details open for whatever leads into them, and for print.

const details = document.getElementById("details");

function follow(hash) {
  const target = document.getElementById(hash.slice(1));
  if (!target || !details.contains(target)) return;
  details.open = true;
  target.scrollIntoView();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link) follow(link.hash);
});
window.addEventListener("hashchange", () => follow(location.hash));
follow(location.hash);

let forPaper = false;
const paper = matchMedia("print");
paper.addEventListener("change", () => {
  if (paper.matches) forPaper = !details.open;
  if (forPaper) details.open = paper.matches;
});
