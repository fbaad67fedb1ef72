// The heat map on its canvas: cells, names, a legend and the cursor.

const DOT = 3; // pixels of what stands for many cells
const NAMED = 13; // pixels of a cell from which on every feature has a name beside it
const APART = 26; // pixels between names where not every feature has one
const WIDEST = 0.34; // of the canvas, that names beside the cells may take
const LONGEST = 40; // names that are measured, of those with the most letters
const SIGNED = 9; // pixels of a cell from which on a sign says what its colour says
const WRITTEN = 32; // pixels of a cell from which on its correlation is written in it
const FAINT = 0.6; // below 1: weak correlations get more colour than their share

const canvas = document.getElementById("heat");
const context = canvas.getContext("2d");
const view = { row: 0, column: 0, size: data.features }; // first row and column, and how many
let cursor = null; // the cell that the keyboard moves
let plot = { left: 0, top: 0, size: 1 }; // where the cells are on the canvas, in pixels

function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (key) => style.getPropertyValue(`--${key}`).trim();
  const parts = (key) => read(key).match(/[0-9a-f]{2}/gi).map((pair) => parseInt(pair, 16));
  return {
    text: read("text"),
    line: read("line"),
    cursor: read("cursor"),
    zero: parts("zero"),
    positive: parts("positive"),
    negative: parts("negative"),
    diagonal: parts("diagonal"),
    noise: parts("noise"),
  };
}

function mixed(palette, value) {
  const share = Math.min(1, Math.abs(value) / data.limit) ** FAINT;
  const end = value < 0 ? palette.negative : palette.positive;
  return palette.zero.map((from, channel) => Math.round(from + share * (end[channel] - from)));
}

function colourOf(palette, value, noise) {
  return noise ? palette.noise : mixed(palette, value);
}

function draw() {
  const width = canvas.clientWidth;
  const small = width < 480;
  const names = roomForNames(width, small);
  const left = names + 12;
  const size = Math.max(40, width - left - 8);
  plot = { left, top: 10, size };
  const bottom = names + 48;
  const height = plot.top + size + bottom;
  const sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  const palette = colours();
  drawCells(palette);
  drawNames(palette, small, names);
  drawLegend(palette, plot.top + size + bottom - 32);
  drawCursor(palette);
  // What is shown, for whoever reads the page by a program.
  canvas.dataset.view = `${view.row} ${view.column} ${view.size}`;
  canvas.dataset.plot = `${plot.left} ${plot.top} ${plot.size}`;
  canvas.dataset.cursor = cursor ? `${cursor.row} ${cursor.column}` : "";
}

// Cells side by side, or dots that each show the strongest of many.
function bins() {
  return view.size * DOT <= plot.size ? view.size : Math.max(1, Math.floor(plot.size / DOT));
}

// The strongest value of each cell, and which of these are noise.
function strongest(n) {
  const { starts, columns, values } = data.rows;
  const best = new Float32Array(n * n);
  const noisy = new Uint8Array(n * n);
  for (let row = view.row; row < view.row + view.size; row += 1) {
    const y = Math.floor(((row - view.row) * n) / view.size);
    for (let at = starts[row]; at < starts[row + 1]; at += 1) {
      const offset = columns[at] - view.column;
      if (offset < 0 || offset >= view.size) continue;
      const cell = y * n + Math.floor((offset * n) / view.size);
      if (Math.abs(values[at]) <= Math.abs(best[cell])) continue;
      best[cell] = values[at];
      noisy[cell] = isNoise(data.feature[row], data.feature[columns[at]], values[at]);
    }
  }
  return { best, noisy };
}

function drawCells(palette) {
  const n = bins();
  const { best, noisy } = strongest(n);
  const image = new ImageData(n, n);
  for (let cell = 0; cell < n * n; cell += 1) {
    const colour = best[cell] === 0 ? palette.zero : colourOf(palette, best[cell], noisy[cell]);
    image.data.set([...colour, 255], 4 * cell);
  }
  for (let row = view.row; row < view.row + view.size; row += 1) {
    const offset = row - view.column;
    if (offset < 0 || offset >= view.size) continue;
    const bin = (place) => Math.floor((place * n) / view.size);
    const cell = bin(row - view.row) * n + bin(offset);
    if (n === view.size || best[cell] === 0) image.data.set([...palette.diagonal, 255], 4 * cell);
  }
  const small = document.createElement("canvas");
  small.width = small.height = n;
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, plot.left, plot.top, plot.size, plot.size);
  context.strokeStyle = palette.line;
  context.strokeRect(plot.left, plot.top, plot.size, plot.size);
  if (n === view.size) drawValues(palette, best, noisy, n);
}

// A sign in each cell, or its value: colour is not the only thing that tells.
function drawValues(palette, best, noisy, n) {
  const side = plot.size / n;
  if (side < SIGNED) return;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const letters = side < WRITTEN ? Math.min(14, side) : side < 44 ? 11 : 12;
  context.font = `${letters}px system-ui`;
  for (let cell = 0; cell < n * n; cell += 1) {
    const value = best[cell];
    if (value === 0) continue;
    const written = side >= WRITTEN ? brief(value) : value < 0 ? "\u2212" : "+";
    const text = noisy[cell] ? "?" : written;
    const [red, green, blue] = colourOf(palette, value, noisy[cell]);
    context.fillStyle = 0.3 * red + 0.6 * green + 0.1 * blue > 140 ? "#111417" : "#ffffff";
    const [row, column] = [Math.floor(cell / n), cell % n];
    context.fillText(text, plot.left + (column + 0.5) * side, plot.top + (row + 0.5) * side);
  }
}

// A correlation to two digits after the point, which fits into a cell.
function brief(value) {
  return Math.abs(value) < 0.01 ? number(value, 1) : number(Number(value.toFixed(2)), 2);
}

function fitted(text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = Array.from(text);
  const cut = () => `${letters.join("")}\u2026`;
  while (letters.length > 1 && context.measureText(cut()).width > width) letters.pop();
  return cut();
}

function nameFont(small) {
  return `${small ? 11 : 12}px system-ui`;
}

// Pixels of the longest name, as far as there is room: the same wherever the map is moved.
function roomForNames(width, small) {
  const all = data.names || [String(data.features - 1)];
  context.font = nameFont(small);
  const long = all.slice().sort((a, b) => b.length - a.length).slice(0, LONGEST);
  const widest = Math.max(...long.map((each) => context.measureText(each).width));
  return Math.ceil(Math.min(Math.max(24, widest + 1), WIDEST * width));
}

function drawNames(palette, small, room) {
  const side = plot.size / view.size;
  const every = side >= NAMED ? 1 : Math.ceil(APART / side);
  context.font = nameFont(small);
  context.fillStyle = palette.text;
  context.strokeStyle = palette.line;
  context.textBaseline = "middle";
  for (let offset = 0; offset < view.size; offset += every) {
    const middle = (offset + 0.5) * side;
    context.beginPath();
    context.moveTo(plot.left - 4, plot.top + middle);
    context.lineTo(plot.left, plot.top + middle);
    context.moveTo(plot.left + middle, plot.top + plot.size);
    context.lineTo(plot.left + middle, plot.top + plot.size + 4);
    context.stroke();
    context.textAlign = "right";
    context.fillText(fitted(name(view.row + offset), room), plot.left - 6, plot.top + middle);
    context.save();
    context.translate(plot.left + middle, plot.top + plot.size + 6);
    context.rotate(-Math.PI / 2);
    context.fillText(fitted(name(view.column + offset), room), 0, 0);
    context.restore();
  }
}

function drawLegend(palette, top) {
  const width = Math.min(220, 0.6 * plot.size);
  for (let x = 0; x < width; x += 1) {
    const value = data.limit * (2 * (x / (width - 1)) - 1);
    context.fillStyle = `rgb(${mixed(palette, value).join(" ")})`;
    context.fillRect(plot.left + x, top, 1.5, 12);
  }
  context.strokeStyle = palette.line;
  context.strokeRect(plot.left, top, width, 12);
  context.fillStyle = palette.text;
  context.font = "12px system-ui";
  context.textBaseline = "top";
  ["left", "center", "right"].forEach((align, at) => {
    context.textAlign = align;
    context.fillText(number((at - 1) * data.limit, 2), plot.left + (at * width) / 2, top + 16);
  });
  context.textAlign = "left";
  context.fillText("correlation", plot.left + width + 12, top);
}

function drawCursor(palette) {
  if (!cursor) return;
  const side = plot.size / view.size;
  const shown = Math.max(side, 7);
  const x = plot.left + (cursor.column - view.column + 0.5) * side - shown / 2;
  const y = plot.top + (cursor.row - view.row + 0.5) * side - shown / 2;
  context.lineWidth = 2;
  context.strokeStyle = palette.cursor;
  context.strokeRect(x, y, shown, shown);
  context.lineWidth = 1;
}
