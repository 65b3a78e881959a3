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

/** Reads the text of a numeric field: the shape, and the elements as JSON. */
function numbersOf(text, declared) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("expected a number or JSON lists of numbers, such as [[1, 2], [3, 4]]");
  }
  const shape = shapeOf(value);
  const isNumber = (element) => (Array.isArray(element) ? element.every(isNumber) : typeof element === "number");
  if (!isNumber(value)) {
    throw new Error("expected numbers only");
  }
  const elements = text.replace(/[[\]\s]+/g, "");
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

