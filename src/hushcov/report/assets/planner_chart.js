// The chart of the planner's page: error against the number of records, one curve a mechanism.
// It is drawn at the width it has, so that its text is as large as that around it. The program
// goes on in `planner.js`.

const HEIGHT = 370;
const WIDE = 560; // from here on there is room for names at the ends of the curves
const TOP = 10; // errors far above 1 are all the same
const LINE = 15; // pixels between lines of text
// The first mechanism has the first look, and so on; colours are in the style sheet. Dashes and marks
// differ, so that curves can be told apart without their colours.
const LOOKS = [
  { dash: "none", mark: "M -4 0 a 4 4 0 1 0 8 0 a 4 4 0 1 0 -8 0 z" },
  { dash: "9 4", mark: "M -4 -4 h 8 v 8 h -8 z" },
  { dash: "2 4", mark: "M 0 -5 L 5 4 H -5 z" },
  { dash: "9 3 2 3", mark: "M 0 -5.5 L 5.5 0 L 0 5.5 L -5.5 0 z" },
  { dash: "5 2", mark: "M 0 5 L 5 -4 H -5 z" },
  { dash: "9 3 2 3 2 3", mark: "M -1.5 -5 h 3 v 3.5 h 3.5 v 3 h -3.5 v 3.5 h -3 v -3.5 h -3.5 v -3 h 3.5 z" },
];
const lookOf = (mechanism) => data.mechanisms.indexOf(mechanism) % LOOKS.length;
const colour = (mechanism) => `look-${lookOf(mechanism)}`;

function mark(mechanism, figures, x, y, size = 1) {
  return drawn("path", {
    class: figures.rough ? "mark rough" : "mark",
    d: LOOKS[lookOf(mechanism)].mark,
    transform: `translate(${x} ${y}) scale(${size})`,
  });
}

function swatch(mechanism) {
  const dash = LOOKS[lookOf(mechanism)].dash;
  const kind = `swatch ${colour(mechanism)}`;
  return drawn(
    "svg",
    { class: kind, width: 36, height: 14, "aria-hidden": "true" },
    drawn("path", { class: "curve", d: "M 1 7 H 35", "stroke-dasharray": dash }),
    mark(mechanism, { rough: isRough(mechanism) }, 18, 7),
  );
}

/** Limits of the error axis: the same at all settings, so that curves can be compared. */
function errorLimits() {
  const place = data.errors.indexOf(state.shown);
  const all = data.points.flatMap((point) =>
    Object.values(point.figures).map((figures) => figures.errors[place]),
  );
  const smallest = all.reduce((least, error) => Math.min(least, error), 1);
  return [Math.max(smallest, 1e-6) / 1.6, TOP];
}

function scales(width) {
  const right = width >= WIDE ? 150 : 14;
  const box = { left: 50, right: width - right, top: 44, bottom: HEIGHT - 44 };
  const along = (low, high, from, to) => (each) =>
    from + ((Math.log(each) - Math.log(low)) / (Math.log(high) - Math.log(low) || 1)) * (to - from);
  const [least, most] = errorLimits();
  const [first, last] = [records.values[0], records.values.at(-1)];
  return {
    box,
    errors: [least, most],
    x: along(first, last, box.left + 8, box.right - 8),
    y: along(least, most, box.bottom, box.top),
  };
}

/** Powers of ten between two numbers. */
function decades(low, high) {
  const powers = [];
  const last = Math.floor(Math.log10(high) + 1e-9);
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= last; power += 1) powers.push(power);
  return powers;
}

/** 1000 as 1k, and so on: labels of the axis, where there is little room. */
function shortCount(power) {
  const unit = ["", "k", "M", "G", "T"][Math.floor(power / 3)];
  return `${10 ** (power % 3)}${unit}`;
}

function axes({ box, errors, x, y }) {
  const group = drawn("g", { class: "quiet" });
  for (const power of decades(records.values[0], records.values.at(-1))) {
    const at = x(10 ** power);
    group.append(
      drawn("line", { class: "grid", x1: at, x2: at, y1: box.top, y2: box.bottom }),
      drawn("text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, shortCount(power)),
    );
  }
  for (const power of decades(...errors)) {
    const tick = Number(`1e${power}`); // 10 ** -3 has a rounding error
    const at = y(tick);
    group.append(
      drawn("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }),
      drawn("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, String(tick)),
    );
  }
  const middle = (box.left + box.right) / 2;
  group.append(
    drawn("text", { x: 2, y: 12 }, `predicted error, ${state.shown} (relative, log scale)`),
    drawn(
      "text",
      { x: middle, y: box.bottom + 36, "text-anchor": "middle" },
      "number of records n (log scale)",
    ),
  );
  return group;
}

function zeroMatrix({ box, y }) {
  return [
    drawn("line", { class: "zero", x1: box.left, x2: box.right, y1: y(1), y2: y(1) }),
    drawn("text", { x: box.right - 4, y: y(1) - 5, "text-anchor": "end" }, "zero matrix: 1"),
  ];
}

function chosenRecords({ box, x }) {
  const at = x(value("n_records"));
  const anchor = at > (box.left + box.right) / 2 ? "end" : "start";
  return [
    drawn("line", { class: "chosen", x1: at, x2: at, y1: box.top - 8, y2: box.bottom }),
    drawn("text", { x: at, y: box.top - 11, "text-anchor": anchor }, valueLabel("n_records")),
  ];
}

function curveOf(mechanism, { x, y }) {
  const found = curve(mechanism).map(([step, figures]) => ({
    step,
    figures,
    at: [x(records.values[step]), y(Math.max(shownError(figures), 1e-300))],
  }));
  const kind = { class: colour(mechanism), "data-mechanism": mechanism };
  const group = drawn("g", { ...kind, "clip-path": "url(#inside)" });
  const path = found.map(({ at }, place) => `${place ? "L" : "M"} ${at.join(" ")}`).join(" ");
  const dash = LOOKS[lookOf(mechanism)].dash;
  group.append(drawn("path", { class: "curve", d: path, "stroke-dasharray": dash }));
  for (const { step, figures, at } of found) {
    group.append(mark(mechanism, figures, ...at, step === state.steps.n_records ? 1.5 : 0.9));
  }
  return group;
}

/** Names at the ends of the curves, moved apart where they would overlap. */
function names({ box, y }) {
  const ends = data.mechanisms
    .filter((name) => curve(name).length > 0)
    .map((name) => ({ name, at: Math.max(y(shownError(curve(name).at(-1)[1])), box.top) }))
    .sort((one, other) => one.at - other.at);
  ends.forEach((end, place) => {
    if (place > 0) end.at = Math.max(end.at, ends[place - 1].at + LINE);
  });
  return ends.map(({ name, at }) => {
    const place = { x: box.right + 4, y: at + 4 };
    return drawn("text", { class: `name ${colour(name)}`, ...place }, fullName(name));
  });
}

function showChart() {
  const width = Math.max(240, byId("chart").clientWidth);
  const wide = width >= WIDE;
  const scale = scales(width);
  const { left, right, top, bottom } = scale.box;
  const inside = { x: left, y: top, width: right - left, height: bottom - top };
  const attributes = {
    viewBox: `0 0 ${width} ${HEIGHT}`,
    height: HEIGHT,
    role: "img",
    "aria-labelledby": "curves caption",
  };
  const picture = drawn(
    "svg",
    attributes,
    drawn("clipPath", { id: "inside" }, drawn("rect", inside)),
    axes(scale),
    ...zeroMatrix(scale),
    ...chosenRecords(scale),
    ...data.mechanisms.map((name) => curveOf(name, scale)),
    ...(wide ? names(scale) : []),
  );
  byId("chart").replaceChildren(picture);
  const entries = data.mechanisms.map((name) => element("li", {}, swatch(name), fullName(name)));
  byId("legend").replaceChildren(...(wide ? [] : entries));
  byId("caption").textContent = caption();
}

function caption() {
  const rough = data.mechanisms.some(isRough)
    ? " Open marks are rough: the mechanism's own search, 'hushcov plan --refine', was not run."
    : "";
  return (
    "What to see: which curve is lowest at your number of records, the upright line, and from " +
    "where on curves are below 1, the error of the zero matrix, which needs no data. Errors " +
    `above ${TOP} are not drawn.${rough}`
  );
}
