// The planner's page. Every number comes from the data in this file, where it was computed: nothing
// is predicted or rounded here. A state is one step of each slider, the error shown and a target.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const slider = Object.fromEntries(data.sliders.map((each) => [each.name, each]));
const records = slider.n_records;

const starting = () => ({
  steps: Object.fromEntries(data.sliders.map((each) => [each.name, each.start])),
  shown: data.errors[0],
  target: String(data.target_error),
});
let state = starting();

// ---- what the data says ----

/** The point at the current step of each slider, with another number of records if one is given. */
function pointAt(recordStep = state.steps.n_records) {
  let position = 0;
  for (const { name, values } of data.sliders) {
    const step = name === "n_records" ? recordStep : state.steps[name];
    position = position * values.length + step;
  }
  return data.points[position];
}

/** [step, figures] of a mechanism at each number of records where it can be planned. */
function curve(mechanism) {
  return records.values
    .map((_, step) => [step, pointAt(step).figures[mechanism]])
    .filter(([, figures]) => figures !== undefined);
}

const shownError = (figures) => figures.errors[data.errors.indexOf(state.shown)];
const shownWords = (figures) => figures.words[data.errors.indexOf(state.shown)];
const valueLabel = (name) => slider[name].labels[state.steps[name]];
const value = (name) => slider[name].values[state.steps[name]];
const countOf = (step) => records.labels[step].split(" ")[0];
const isRough = (mechanism) => curve(mechanism).some(([, figures]) => figures.rough);
const fullName = (mechanism) => (isRough(mechanism) ? `${mechanism} (rough)` : mechanism);

/** The first step from which on the error is at most the target; undefined if there is none. */
function firstEnough(mechanism, target) {
  let first;
  for (const [step, figures] of curve(mechanism).reverse()) {
    if (shownError(figures) > target) break;
    first = step;
  }
  return first;
}

// ---- elements ----

/** An element with attributes and children; text is text, never markup. */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, content] of Object.entries(attributes)) node.setAttribute(key, content);
  node.append(...children);
  return node;
}

// ---- words and tables ----

function showSliders() {
  for (const { name, notes } of data.sliders) {
    const step = state.steps[name];
    byId(name).value = step;
    byId(name).setAttribute("aria-valuetext", valueLabel(name));
    byId(`${name}-label`).textContent = valueLabel(name);
    byId(`${name}-note`).textContent = notes[step];
  }
  byId("delta-warning").hidden = value("delta") * value("n_records") < 1;
}

function showSummary() {
  const { best, figures } = pointAt();
  const size = `with ${valueLabel("n_records")} of ${valueLabel("n_features")}`;
  let text = `Nothing can be planned ${size}; the reason stands below the numbers.`;
  if (best !== null) {
    const { errors, words } = figures[best];
    text =
      errors[0] < 1
        ? `Best: ${best}. Its typical error is ${words[0]} ${size}.`
        : `Hopeless ${size}: nothing is better than the zero matrix, which has an error of 1. ` +
          "Use more records, fewer features or a larger budget.";
  }
  byId("summary").textContent = text;
}

/** The verdict on a mechanism in words: colour is not needed to see which is best. */
function verdict(point, mechanism) {
  const figures = point.figures[mechanism];
  if (figures === undefined) return "not possible";
  const useless = figures.errors[0] >= 1;
  if (point.best === mechanism) return useless ? "smallest, but no use" : "best";
  return useless ? "no use" : figures.rough ? "rough" : "";
}

function headings() {
  const cells = data.mechanisms.map((name) =>
    element("th", { scope: "col" }, swatch(name), breakable(fullName(name))),
  );
  return element("tr", {}, element("td"), ...cells);
}

/** Names may break after a hyphen only: columns are narrow on a phone. */
const breakable = (name) => name.replace("-", "-\u200b");

/** A cell with what `exact` and `words` say of a mechanism's figures, where there are any. */
function cell(point, mechanism, field, exact, words) {
  const figures = point.figures[mechanism];
  const attributes = { "data-mechanism": mechanism, "data-field": field };
  if (point.best === mechanism) attributes.class = "best";
  if (figures === undefined) return element("td", attributes, "-");
  if (figures.errors[0] >= 1) attributes.class = "useless";
  if (exact(figures) !== null) attributes["data-value"] = String(exact(figures));
  return element("td", attributes, words(figures));
}

function row(title, cellOf) {
  return element("tr", {}, element("th", { scope: "row" }, title), ...data.mechanisms.map(cellOf));
}

function showNumbers() {
  const point = pointAt();
  const numbers = (title, exact, place) =>
    row(title, (name) => cell(point, name, title, exact, (figures) => figures.words[place]));
  const rows = [
    row("verdict", (name) => {
      const kind = name === point.best ? "best" : "";
      return element("td", { "data-mechanism": name, class: kind }, verdict(point, name));
    }),
    ...data.errors.map((error, place) =>
      numbers(error, (figures) => figures.errors[place], place),
    ),
    numbers("finds from", (figures) => figures.detection_limit, data.errors.length),
    numbers("memory", (figures) => figures.memory, data.errors.length + 1),
  ];
  byId("numbers").tHead.replaceChildren(headings());
  byId("numbers").tBodies[0].replaceChildren(...rows);
  const reasons = Object.entries(point.refusals);
  const together = new Set(Object.values(point.refusals)).size === 1 && point.best === null;
  const lines = together
    ? [reasons[0][1]] // the same for every mechanism
    : reasons.map(([name, reason]) => `${name}: ${reason}`);
  byId("refusals").replaceChildren(...lines.map((line) => element("li", {}, line)));
}

function showCurveNumbers() {
  const rows = records.values.map((n, step) =>
    row(countOf(step), (name) => cell(pointAt(step), name, String(n), shownError, shownWords)),
  );
  const table = byId("curve-numbers");
  table.caption.textContent = `Predicted error (${state.shown}) by number of records.`;
  table.tHead.replaceChildren(headings());
  table.tBodies[0].replaceChildren(...rows);
}

function showEnough() {
  const target = Number(state.target);
  const sensible = state.target.trim() !== "" && target > 0 && target <= 1;
  byId("target").setAttribute("aria-invalid", String(!sensible));
  const command = element("code", {}, `hushcov plan --target-error ${target}`);
  const note = sensible
    ? [
        "The smallest number of records on the slider from which on the ",
        `${state.shown} error is at most ${target}; `,
        command,
        " finds it to within 2 %.",
      ]
    : ["Give a number above 0 and at most 1: the zero matrix has an error of 1."];
  byId("target-note").replaceChildren(...note);
  const lines = data.mechanisms.map((name) => {
    const step = sensible ? firstEnough(name, target) : undefined;
    const words = step === undefined ? "none of them" : records.labels[step];
    const exact = step === undefined ? "" : String(records.values[step]);
    const attributes = { "data-mechanism": name, "data-value": exact };
    return element("li", attributes, `${fullName(name)}: ${words}`);
  });
  byId("enough").replaceChildren(...(sensible ? lines : []));
}

function showCommand() {
  const budget = `--epsilon ${valueLabel("epsilon")} --delta ${valueLabel("delta")}`;
  const options = `--row-sparsity ${value("row_sparsity")} ${budget} ${data.fit_options}`;
  byId("command").textContent = `hushcov fit FILE ${options}`.trim();
}

// ---- state ----

function show() {
  showSliders();
  byId("shown").value = state.shown;
  if (byId("target").value !== state.target) byId("target").value = state.target;
  showSummary();
  showNumbers();
  showCurveNumbers();
  showChart();
  showEnough();
  showCommand();
}

/** The state as the part of the address after #, so that a link brings it back. */
function toHash() {
  const parts = data.sliders.map(({ name }) => [name, String(value(name))]);
  parts.push(["shown", state.shown], ["target", state.target]);
  return new URLSearchParams(parts).toString();
}

/** Read the address; what it does not say, or says wrongly, stays as it was asked for. */
function fromHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = starting();
  for (const { name, values } of data.sliders) {
    const step = values.map(String).indexOf(given.get(name) ?? "");
    if (step >= 0) state.steps[name] = step;
  }
  if (data.errors.includes(given.get("shown"))) state.shown = given.get("shown");
  if (Number(given.get("target")) > 0) state.target = given.get("target");
}

function changed() {
  history.replaceState(null, "", `#${toHash()}`);
  show();
}

function start() {
  for (const { name, values } of data.sliders) {
    const last = values.length - 1;
    Object.assign(byId(name), { min: 0, max: last, step: 1, disabled: last === 0 });
    byId(name).addEventListener("input", (event) => {
      state.steps[name] = Number(event.target.value);
      changed();
    });
  }
  const choices = data.errors.map((each) => {
    const text = each === data.errors[0] ? "typical: over all three models" : `${each} model`;
    return element("option", { value: each }, text);
  });
  byId("shown").replaceChildren(...choices);
  byId("shown").addEventListener("change", (event) => {
    state.shown = event.target.value;
    changed();
  });
  byId("target").addEventListener("input", (event) => {
    state.target = event.target.value;
    changed();
  });
  byId("reset").addEventListener("click", () => {
    state = starting();
    changed();
  });
  byId("settings").addEventListener("submit", (event) => event.preventDefault());
  byId("knowledge").textContent = data.knowledge;
  window.addEventListener("hashchange", () => {
    fromHash();
    show();
  });
  new ResizeObserver(showChart).observe(byId("chart"));
  fromHash();
  show();
}

start();
