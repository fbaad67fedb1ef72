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

// For browsers in which the style sheet cannot show what is closed.
window.addEventListener("beforeprint", () => {
  if (details.open) return;
  details.open = true;
  window.addEventListener("afterprint", () => { details.open = false; }, { once: true });
});
