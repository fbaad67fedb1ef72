// Moving about the heat map, by mouse, touch, keyboard and buttons, and telling what is there.

const FEWEST_CELLS = 6; // of a side of the map, at the largest zoom
const CLOSE = 40; // cells of a side when a pair is looked up
const STEP = 1.5; // of the zoom

const tip = document.getElementById("heat-tip");
const said = document.getElementById("heat-said");

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

function show(row, column, size) {
  view.size = clamp(Math.round(size), Math.min(FEWEST_CELLS, data.features), data.features);
  view.row = clamp(Math.round(row), 0, data.features - view.size);
  view.column = clamp(Math.round(column), 0, data.features - view.size);
  document.querySelector('[data-zoom="in"]').disabled = view.size <= FEWEST_CELLS;
  document.querySelectorAll('[data-zoom="out"], [data-zoom="all"]').forEach((button) => {
    button.disabled = view.size === data.features;
  });
  draw();
}

// Zoom so that the point at these shares of the map stays where it is.
function zoom(factor, across = 0.5, down = 0.5) {
  let size = view.size / factor;
  if (Math.round(size) === view.size) size += factor > 1 ? -1 : 1;
  size = clamp(size, Math.min(FEWEST_CELLS, data.features), data.features);
  show(view.row + down * (view.size - size), view.column + across * (view.size - size), size);
}

// By key or button: in or out around the cursor, or all the way out; and say so.
function zoomBy(kind) {
  hideTip();
  const share = (place, start) => clamp((place + 0.5 - start) / view.size, 0, 1);
  const across = cursor ? share(cursor.column, view.column) : 0.5;
  const down = cursor ? share(cursor.row, view.row) : 0.5;
  if (kind === "all") show(0, 0, data.features);
  else zoom(kind === "in" ? STEP : 1 / STEP, across, down);
  said.textContent = `Showing ${view.size} of ${data.features} features on each side, `
    + `rows ${name(view.row)} to ${name(view.row + view.size - 1)}.`;
}

function keepInSight(place, start) {
  return clamp(start, place - view.size + 1, place);
}

function moveTo(row, column) {
  const last = data.features - 1;
  cursor = { row: clamp(row, 0, last), column: clamp(column, 0, last) };
  show(keepInSight(cursor.row, view.row), keepInSight(cursor.column, view.column), view.size);
  tell(cursor.row, cursor.column);
}

function tell(row, column) {
  const lines = about(row, column);
  said.textContent = `${lines[0]}: ${lines.slice(1).join("; ")}`;
  const side = plot.size / view.size;
  const x = plot.left + (column - view.column + 0.5) * side;
  place(lines, x, plot.top + (row - view.row + 0.5) * side);
}

// The tip near a point, on the side where there is room.
function place(lines, x, y) {
  tip.replaceChildren();
  lines.forEach((line, at) => {
    const part = document.createElement(at ? "div" : "strong");
    part.textContent = line;
    tip.append(part);
  });
  tip.hidden = false;
  const width = canvas.clientWidth;
  const left = x + 14 + tip.offsetWidth <= width ? x + 14 : Math.max(0, x - 14 - tip.offsetWidth);
  tip.style.left = `${Math.min(left, Math.max(0, width - tip.offsetWidth))}px`;
  tip.style.top = `${y + 16}px`;
}

function hideTip() {
  tip.hidden = true;
}

// The cell under a point of the screen; of many cells in a dot, the strongest.
function cellAt(event) {
  const box = canvas.getBoundingClientRect();
  const across = (event.clientX - box.left - plot.left) / plot.size;
  const down = (event.clientY - box.top - plot.top) / plot.size;
  if (across < 0 || across >= 1 || down < 0 || down >= 1) return null;
  const n = bins();
  const [y, x] = [Math.floor(down * n), Math.floor(across * n)];
  if (n < view.size) return { ...strongestIn(y, x, n), across, down };
  return { row: view.row + y, column: view.column + x, across, down };
}

function strongestIn(y, x, n) {
  const { starts, columns, values } = data.rows;
  const from = (bin) => Math.ceil((bin * view.size) / n);
  const best = { row: view.row + from(y), column: view.column + from(x), size: 0 };
  for (let row = view.row + from(y); row < view.row + from(y + 1); row += 1) {
    for (let at = starts[row]; at < starts[row + 1]; at += 1) {
      const bin = Math.floor(((columns[at] - view.column) * n) / view.size);
      if (bin === x && Math.abs(values[at]) > best.size) {
        Object.assign(best, { row, column: columns[at], size: Math.abs(values[at]) });
      }
    }
  }
  return best;
}

function point(event) {
  const cell = cellAt(event);
  if (!cell) return hideTip();
  const box = canvas.getBoundingClientRect();
  return place(about(cell.row, cell.column), event.clientX - box.left, event.clientY - box.top);
}

// ---- mouse ----

let drag = null;
let armed = false; // a wheel that is scrolling the page does not stop at the map

canvas.addEventListener("pointermove", (event) => {
  if (event.pointerType === "touch") return;
  armed = armed || event.movementX !== 0 || event.movementY !== 0;
  if (!drag) { point(event); return; }
  hideTip();
  const cells = view.size / plot.size;
  const column = drag.column - (event.clientX - drag.x) * cells;
  show(drag.row - (event.clientY - drag.y) * cells, column, view.size);
});
canvas.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "touch" || event.button !== 0) return;
  drag = { x: event.clientX, y: event.clientY, row: view.row, column: view.column };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointerup", (event) => {
  const still = drag && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 4;
  drag = null;
  const cell = cellAt(event);
  if (still && cell) moveTo(cell.row, cell.column);
});
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("pointerleave", hideTip);
window.addEventListener("scroll", () => { armed = false; }, { passive: true });
canvas.addEventListener("wheel", (event) => {
  const cell = cellAt(event);
  const end = event.deltaY > 0 ? data.features : Math.min(FEWEST_CELLS, data.features);
  if (!cell || view.size === end || !(armed || event.ctrlKey)) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? STEP : 1 / STEP, cell.across, cell.down);
  point(event);
}, { passive: false });

// ---- touch: two fingers zoom, one moves a map that is zoomed in ----

let touch = null;

function touched(event) {
  const [one, other] = event.touches;
  if (!other) return { x: one.clientX, y: one.clientY, spread: 0 };
  return {
    x: (one.clientX + other.clientX) / 2,
    y: (one.clientY + other.clientY) / 2,
    spread: Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY),
  };
}

canvas.addEventListener("touchstart", (event) => {
  touch = { ...touched(event), ...view };
  if (event.touches.length > 1) event.preventDefault();
}, { passive: false });
canvas.addEventListener("touchmove", (event) => {
  const now = touched(event);
  if (!touch || (!now.spread && view.size === data.features)) return;
  event.preventDefault();
  hideTip();
  if (Boolean(now.spread) !== Boolean(touch.spread)) touch = { ...now, ...view };
  const wanted = touch.size * (now.spread ? touch.spread / now.spread : 1);
  const size = clamp(wanted, Math.min(FEWEST_CELLS, data.features), data.features);
  const box = canvas.getBoundingClientRect();
  // The cell under the fingers stays under them.
  const start = (first, before, after, edge) =>
    first + ((before - edge) * touch.size - (after - edge) * size) / plot.size;
  const row = start(touch.row, touch.y, now.y, box.top + plot.top);
  show(row, start(touch.column, touch.x, now.x, box.left + plot.left), size);
}, { passive: false });
canvas.addEventListener("touchend", () => { touch = null; });
canvas.addEventListener("click", (event) => {
  const cell = cellAt(event);
  if (cell && event.pointerType === "touch") moveTo(cell.row, cell.column);
});

// ---- keyboard, buttons and links ----

let rank = -1; // of the pair last jumped to, by strength

function jump(by) {
  const pairs = data.found.rows.length;
  if (!pairs) return;
  rank = (rank + by + pairs) % pairs;
  goTo(data.found.rows[rank], data.found.columns[rank]);
}

function goTo(i, j) {
  moveTo(data.feature.indexOf(i), data.feature.indexOf(j));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = cursor || { row: view.row, column: view.column };
  const step = event.shiftKey ? 10 : 1;
  const actions = {
    ArrowUp: () => moveTo(at.row - step, at.column),
    ArrowDown: () => moveTo(at.row + step, at.column),
    ArrowLeft: () => moveTo(at.row, at.column - step),
    ArrowRight: () => moveTo(at.row, at.column + step),
    Home: () => moveTo(at.row, 0),
    End: () => moveTo(at.row, data.features - 1),
    "+": () => zoomBy("in"),
    "=": () => zoomBy("in"),
    "-": () => zoomBy("out"),
    0: () => zoomBy("all"),
    n: () => jump(1),
    p: () => jump(-1),
    Escape: hideTip,
  };
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

canvas.addEventListener("keydown", onKey);
canvas.addEventListener("blur", hideTip);
canvas.addEventListener("focus", () => {
  if (!cursor && canvas.matches(":focus-visible")) moveTo(view.row, view.column);
});

document.querySelectorAll("[data-zoom]").forEach((button) => {
  button.addEventListener("click", () => zoomBy(button.dataset.zoom));
});

const order = document.getElementById("heat-order");
if (order) {
  order.addEventListener("change", () => {
    data.feature = order.checked ? data.related : data.identity;
    data.rows = symmetric(data.upper, data.feature);
    cursor = null;
    hideTip();
    show(view.row, view.column, view.size);
  });
}

document.getElementById("heat-search").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = document.getElementById("heat-find").value.trim().toLowerCase();
  const names = data.names || Array.from(data.identity, String);
  const exact = names.findIndex((each) => each.toLowerCase() === wanted);
  const found = exact >= 0 ? exact : names.findIndex((each) => each.toLowerCase().includes(wanted));
  if (!wanted || found < 0) {
    said.textContent = "No feature has this name.";
    return;
  }
  if (view.size > CLOSE) show(0, 0, CLOSE);
  const row = data.feature.indexOf(found);
  const { starts, columns, values } = data.rows;
  let best = { column: row, size: 0 };
  for (let at = starts[row]; at < starts[row + 1]; at += 1) {
    const size = Math.abs(values[at]);
    if (size > best.size) best = { column: columns[at], size };
  }
  moveTo(row, best.column);
});

document.querySelectorAll("[data-pair]").forEach((link) => {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const [i, j] = link.dataset.pair.split(" ").map(Number);
    if (view.size > CLOSE) show(0, 0, CLOSE);
    goTo(i, j);
    canvas.focus({ preventScroll: true });
    tell(cursor.row, cursor.column);
    canvas.scrollIntoView({ block: "center" });
  });
});

// ---- start ----

// All of the map is on the first screen where it stands beside the relations; it is this much higher
// than wide.
const HIGHER = 46;
if (matchMedia("(min-width: 60rem)").matches) {
  const room = window.innerHeight - canvas.getBoundingClientRect().top - window.scrollY - HIGHER;
  document.documentElement.style.setProperty("--map", `${clamp(room, 288, 736)}px`);
}

["(prefers-color-scheme: dark)", "print"].forEach((media) => {
  matchMedia(media).addEventListener("change", () => draw());
});
new ResizeObserver(() => draw()).observe(canvas.parentElement);
show(0, 0, data.opened);
