// Tensors as text.

/** The shape of nested lists. Throws if they are ragged. */
function shapeOf(value) {
  const shape = [];
  for (let level = value; Array.isArray(level); level = level[0]) {
    shape.push(level.length);
  }
  const check = (level, depth) => {
    if (Array.isArray(level) !== depth < shape.length || (Array.isArray(level) && level.length !== shape[depth])) {
      throw new Error("the lists have different lengths");
    }
    if (Array.isArray(level)) {
      level.forEach((inner) => check(inner, depth + 1));
    }
  };
  check(value, 0);
  return shape;
}

const product = (sizes) => sizes.reduce((left, right) => left * right, 1);

/** The shape of data that may be one flat list, or one element: the declared shape, where its size leaves no doubt. */
function fittingShape(found, declared) {
  if (declared === null || found.length === declared.length || found.length > 1) {
    return found;
  }
  const count = product(found);
  const unknown = declared.filter((size) => size === null).length;
  const known = product(declared.filter((size) => size !== null));
  // One dimension takes what the others leave. Further ones have the size 1.
  if (unknown === 0 ? count !== known : known === 0 || count % known !== 0) {
    return found;
  }
  let rest = unknown === 0 ? 1 : count / known;
  return declared.map((size) => {
    if (size !== null) {
      return size;
    }
    const taken = rest;
    rest = 1;
    return taken;
  });
}

/** The texts that stand for numbers that JSON lacks. */
const BARE = ["NaN", "Infinity", "-Infinity"];

/** Whether an element is one of the datatype. */
function fits(element, datatype) {
  if (datatype === "BOOL") {
    return typeof element === "boolean" || element === 0 || element === 1;
  }
  const isFloat = /^(FP|BF)/.test(datatype);
  return typeof element === "number" || (isFloat && (element === null || BARE.includes(element)));
}

/** Reads the text of a field of numbers or booleans: the shape, and the elements as JSON. */
function numbersOf(text, declared, datatype) {
  // Numbers that JSON lacks need no quotes.
  const quoted = text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/gs, (part) => (part.startsWith('"') ? part : `"${part}"`));
  const isBoolean = datatype === "BOOL";
  let value;
  try {
    value = JSON.parse(quoted);
  } catch {
    const expected = isBoolean ? "true, false or JSON lists of them, such as [true, false]" : "a number or JSON lists of numbers, such as [[1, 2], [3, 4]]";
    throw new Error(`expected ${expected}`);
  }
  const shape = shapeOf(value);
  const isNumber = (element) => (Array.isArray(element) ? element.every(isNumber) : fits(element, datatype));
  if (!isNumber(value)) {
    throw new Error(isBoolean ? "expected true and false only" : "expected numbers only");
  }
  const elements = quoted.replace(/[[\]\s]+/g, "");
  return { shape: fittingShape(shape, declared), data: product(shape) === 0 ? "[]" : `[${elements}]` };
}

/** Reads the text of a field of strings. */
function stringsOf(text, declared) {
  let value = text;
  if (text.trimStart().startsWith("[")) {
    try {
      const parsed = JSON.parse(text);
      if (Array.isArray(parsed) && parsed.flat(Infinity).every((element) => typeof element === "string")) {
        value = parsed;
      }
    } catch {
      // A text that begins with a bracket.
    }
  }
  const shape = Array.isArray(value) ? shapeOf(value) : declared === null ? [1] : [];
  const elements = Array.isArray(value) ? value.flat(Infinity) : [value];
  return { shape: fittingShape(shape, declared), data: JSON.stringify(elements) };
}

/** Reads the text of a field of bytes: base64, or a list of it. */
function base64Of(text, declared) {
  const tensor = stringsOf(text.trim(), declared);
  if (!JSON.parse(tensor.data).every((element) => /^[A-Za-z0-9+/]*={0,2}$/.test(element) && element.length % 4 === 0)) {
    throw new Error("expected base64, or a JSON list of it");
  }
  return tensor;
}
