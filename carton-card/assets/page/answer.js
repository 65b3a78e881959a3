// The answer.

/** An element with attributes and children; strings become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shown(value) {
  if (typeof value !== "number" || Number.isInteger(value)) {
    return String(value);
  }
  return Math.abs(value) < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(6)));
}

/** What is shown of bytes that are no text. */
function sizeOfBase64(text) {
  const size = Math.floor((String(text).replace(/=+$/, "").length * 3) / 4);
  return `${size} ${size === 1 ? "byte" : "bytes"} in base64: ${String(text).slice(0, 60)}${String(text).length > 60 ? "…" : ""}`;
}

function outputElements(output) {
  const shape = Array.isArray(output.shape) ? output.shape : [];
  const isBase64 = output.parameters?.content_type === "base64";
  const data = (Array.isArray(output.data) ? output.data.flat(Infinity) : []).map((value) => (isBase64 ? sizeOfBase64(value) : value));
  const kind = element("span", { class: "kind" }, ` ${output.datatype} [${shape.join(", ")}]`);
  const heading = element("h3", {}, element("code", {}, String(output.name)), kind);
  const inner = shape.slice(shape.findIndex((size) => size !== 1));
  const isNumeric = data.every((value) => typeof value === "number");
  if (data.length === 1) {
    const isText = typeof data[0] === "string" && output.datatype === "BYTES";
    return [heading, element(isText ? "pre" : "p", { class: isText ? "text" : "value" }, shown(data[0]))];
  }
  if (isNumeric && inner.length === 1 && data.length >= 2 && data.length <= MAX_BARS) {
    return [heading, bars(data)];
  }
  return [heading, table(data, inner.length > 1 ? inner[inner.length - 1] : 1)];
}

function headRow(labels) {
  return element("thead", {}, element("tr", {}, ...labels.map((label) => element(label === "" ? "td" : "th", label === "" ? {} : { scope: "col" }, label))));
}

function bars(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const percent = (value) => ((value - low) / (high > low ? high - low : 1)) * 100;
  const rows = values.map((value, index) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const [left, right] = [percent(Math.min(value, 0)), percent(Math.max(value, 0))];
    for (const [key, set] of [["x", left], ["y", 0], ["width", right - left], ["height", 10]]) {
      rect.setAttribute(key, String(set));
    }
    svg.setAttribute("viewBox", "0 0 100 10");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    svg.append(rect);
    const cells = [element("td", { class: "number" }, shown(value)), element("td", { class: "bar" }, svg)];
    return element("tr", {}, element("th", { scope: "row" }, String(index)), ...cells);
  });
  return element("table", { class: "bars" }, headRow(["Index", "Value", ""]), element("tbody", {}, ...rows));
}

function table(data, columns) {
  const count = Math.min(data.length, MAX_CELLS);
  const rows = [];
  for (let start = 0; start < count && columns > 0; start += columns) {
    const cells = data.slice(start, Math.min(start + columns, count)).map((value) => element("td", { class: "number" }, shown(value)));
    rows.push(element("tr", {}, element("th", { scope: "row" }, String(rows.length)), ...cells));
  }
  const labels = columns === 1 ? ["Index", "Value"] : ["", ...Array(Math.min(columns, count)).keys()].map(String);
  const made = element("table", { class: "numbers" }, headRow(labels), element("tbody", {}, ...rows));
  const scroll = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values" }, made);
  const rest = data.length - count;
  return rest > 0 ? element("div", {}, scroll, element("p", { class: "missing" }, `and ${rest} more values`)) : scroll;
}

