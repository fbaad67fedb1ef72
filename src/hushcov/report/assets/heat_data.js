// What the heat map of a report shows: its data, and a cell of it in words.
// The files heat_data, heat_drawing, heat_moving, graph and variances make one program, in this order.

const data = readData(JSON.parse(document.getElementById("data").textContent));

function bytes(text) {
  const letters = atob(text);
  const read = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) read[at] = letters.charCodeAt(at);
  return read.buffer;
}

function readData(raw) {
  const Columns = raw.narrow ? Uint16Array : Uint32Array;
  const found = {
    rows: new Uint32Array(bytes(raw.found.rows)),
    columns: new Uint32Array(bytes(raw.found.columns)),
    ends: raw.found.ends && raw.found.ends.map((end) => new Float32Array(bytes(end))),
  };
  const identity = Uint32Array.from({ length: raw.features }, (_, place) => place);
  const read = {
    ...raw,
    found,
    rank: new Map(Array.from(found.rows, (row, at) => [pairKey(raw, row, found.columns[at]), at])),
    units: new Float64Array(bytes(raw.units)),
    scales: new Float64Array(bytes(raw.scales)),
    variances: new Float64Array(bytes(raw.variances)),
    varianceEnds: raw.varianceEnds && raw.varianceEnds.map((end) => new Float32Array(bytes(end))),
    identity,
    related: raw.order && new Uint32Array(bytes(raw.order)),
  };
  read.feature = read.related || identity; // which feature is at a position of the map
  const upper = {
    starts: new Uint32Array(bytes(raw.starts)),
    columns: new Columns(bytes(raw.columns)),
    values: new Float32Array(bytes(raw.values)),
  };
  return Object.assign(read, { upper, rows: symmetric(upper, read.feature) });
}

function pairKey(of, i, j) {
  return Math.min(i, j) * of.features + Math.max(i, j);
}

// All entries by position in the map, row by row, from those above the diagonal.
function symmetric(upper, feature) {
  const d = feature.length;
  const position = new Uint32Array(d);
  feature.forEach((each, at) => { position[each] = at; });
  const starts = new Uint32Array(d + 1);
  forPairs(upper, (i, j) => {
    starts[position[i] + 1] += 1;
    starts[position[j] + 1] += 1;
  });
  for (let row = 0; row < d; row += 1) starts[row + 1] += starts[row];
  const next = starts.slice();
  const columns = new Uint32Array(starts[d]);
  const values = new Float32Array(starts[d]);
  forPairs(upper, (i, j, value) => {
    for (const [row, column] of [[position[i], position[j]], [position[j], position[i]]]) {
      columns[next[row]] = column;
      values[next[row]] = value;
      next[row] += 1;
    }
  });
  return { starts, columns, values };
}

function forPairs(upper, visit) {
  for (let row = 0; row + 1 < upper.starts.length; row += 1) {
    for (let at = upper.starts[row]; at < upper.starts[row + 1]; at += 1) {
      visit(row, upper.columns[at], upper.values[at]);
    }
  }
}

function valueAt(row, column) {
  const { starts, columns, values } = data.rows;
  for (let at = starts[row]; at < starts[row + 1]; at += 1) {
    if (columns[at] === column) return values[at];
  }
  return 0;
}

function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "out of range";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e4 || size < 1e-4
    ? size.toExponential(digits - 1).replace(/\.?0*e\+?/, "e")
    : String(Number(size.toPrecision(digits))).replace(/^(\d)(\d{3})$/, "$1,$2");
  return (value < 0 ? "\u2212" : "") + text;
}

function name(position) {
  const feature = data.feature[position];
  return data.names ? data.names[feature] : String(feature);
}

// A correlation beyond 1, or a variance that is not positive: noise drowns the truth there.
const BEYOND = 1 + 1e-6; // values have 32 bits

function isNoise(i, j, value) {
  return Math.abs(value) > BEYOND || !hasCorrelation(i, j);
}

function hasCorrelation(i, j) {
  return data.variances[i] > 0 && data.variances[j] > 0;
}

function correlationLine(i, j, value) {
  if (!hasCorrelation(i, j)) return "correlation not found: noise makes a variance not positive";
  if (isNoise(i, j, value)) return "correlation not found: noise puts it beyond 1";
  return `correlation ${number(value)}`;
}

// What is known of a cell: a title, and lines of facts.
function about(row, column) {
  const i = data.feature[row];
  const j = data.feature[column];
  if (row === column) return aboutVariance(row, i);
  const title = `${name(row)} \u00d7 ${name(column)}`;
  const value = valueAt(row, column);
  if (value === 0) {
    if (data.cutoff === null) return [title, "not found: counts as zero"];
    return [title, `not in this page: weaker than ${number(data.cutoff, 2)}, or zero`];
  }
  const unit = data.units[i] * data.units[j];
  const lines = [correlationLine(i, j, value), `covariance ${number(value * unit)}`];
  const at = data.rank.get(pairKey(data, i, j));
  if (at !== undefined && data.found.ends) {
    lines.push(...interval(data.found.ends, at, unit, value));
  }
  return [title, ...lines, ...noise(0, data.scales[i] * data.scales[j])];
}

function aboutVariance(row, feature) {
  const variance = data.variances[feature];
  const noisy = variance < 0 ? ": negative, which is noise" : "";
  const lines = [`${name(row)} with itself`, `variance ${number(variance)}${noisy}`];
  if (variance > 0) lines.push(`standard deviation ${number(Math.sqrt(variance))}`);
  const unit = data.units[feature] ** 2;
  if (data.varianceEnds) lines.push(...interval(data.varianceEnds, feature, unit));
  return [...lines, ...noise(1, data.scales[feature] ** 2)];
}

// Of pairs (0) and of variances (1), where there is one level of noise.
function noise(kind, unit) {
  return data.noise ? [`noise ${number(data.noise[kind] * unit, 2)} (standard deviation)`] : [];
}

// An estimate may lie outside its own interval: the section on the largest ones says why.
function interval(ends, at, unit, value) {
  const [low, high] = ends.map((end) => end[at]);
  if (Number.isNaN(low) || Number.isNaN(high)) return [];
  const outside = value < low || value > high ? ", without the estimate" : "";
  return [`95 % interval ${number(low * unit)} to ${number(high * unit)}${outside}`];
}
