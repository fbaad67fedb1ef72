// What is pointed at in the graph stands out with its partners.

document.querySelectorAll(".graph").forEach((graph) => {
  const edges = Array.from(graph.querySelectorAll(".edge"), (edge) => {
    return { edge, ends: edge.dataset.ends.split(" ") };
  });
  const nodes = Array.from(graph.querySelectorAll(".node"));
  graph.addEventListener("pointerover", (event) => {
    const node = event.target.closest(".node");
    graph.classList.toggle("pointed", Boolean(node));
    if (!node) return;
    const near = new Set([node.dataset.node]);
    edges.forEach(({ edge, ends }) => {
      const touches = ends.includes(node.dataset.node);
      edge.classList.toggle("near", touches);
      if (touches) ends.forEach((end) => near.add(end));
    });
    nodes.forEach((each) => each.classList.toggle("near", near.has(each.dataset.node)));
  });
  graph.addEventListener("pointerleave", () => graph.classList.remove("pointed"));
});
