// Frames and tensors of the runner protocol (spec/runner-protocol.md, sections 2, 3 and 6), from bytes and to bytes.
// A tensor is `{ dtype, shape, data }` with a typed array in C order (for strings: an array of strings), or
// `{ dtype: "nested", inner: [tensor, …] }`.

import { isUtf8 } from "node:buffer";

const MAX_FRAME = 2 ** 30;
const MAX_JSON = 2 ** 24;

/** Under this an error of our own has one of the codes of section 5; no error of a model has anything there. */
export const errorCode = Symbol("errorCode");

/** Throws an error of our own. The code `protocol` means that the host broke it. */
export function check(condition, message, code = "protocol") {
  if (!condition) throw Object.assign(new Error(message), { [errorCode]: code });
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
export const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

/** The frames in a stream of bytes, each as `{ id, name, fields, bytes }`, until the stream ends. */
export async function* readFrames(stream) {
  const chunks = stream[Symbol.asyncIterator]();
  let chunk = new Uint8Array(0);

  // The next n bytes in a buffer of their own, whose start is aligned for every dtype; undefined at the end.
  async function take(n) {
    const taken = Buffer.from(new ArrayBuffer(n));
    for (let filled = 0; filled < n; ) {
      if (chunk.length === 0) ({ value: chunk } = await chunks.next());
      if (chunk === undefined) return undefined;
      const part = chunk.subarray(0, n - filled);
      taken.set(part, filled);
      filled += part.length;
      chunk = chunk.subarray(part.length);
    }
    return taken;
  }

  for (let header; (header = await take(12)); ) {
    const [length, jsonLength] = [Number(header.readBigUInt64LE(0)), header.readUInt32LE(8)];
    check(length <= MAX_FRAME && jsonLength <= MAX_JSON, `a frame of ${length} bytes, ${jsonLength} of them JSON`);
    check(4 + jsonLength <= length, `${jsonLength} bytes of JSON in a frame of ${length} bytes`);
    const json = await take(jsonLength);
    const bytes = json && (await take(length - 4 - jsonLength));
    if (bytes === undefined) return;
    check(isUtf8(json), "a message that is not UTF-8");
    const { id, release = [], message } = JSON.parse(json);
    check(id === undefined || isCount(id), "the id of a message is not a number");
    check(Array.isArray(release) && release.length === 0, "memory is given back that was not lent");
    check(isObject(message) && Object.keys(message).length === 1, "a message is not an object with one key");
    const [[name, fields]] = Object.entries(message);
    yield { id, name, fields, bytes };
  }
}

/** A frame as a list of buffers, to be sent one after the other. `parts` are the bytes that its tensors refer to. */
export function encodeFrame(envelope, parts = []) {
  const json = Buffer.from(JSON.stringify(envelope));
  const length = parts.reduce((sum, part) => sum + part.length, 4 + json.length);
  check(length <= MAX_FRAME && json.length <= MAX_JSON, `${length} bytes, ${json.length} of JSON`, "too_large");
  const header = Buffer.alloc(12);
  header.writeBigUInt64LE(BigInt(length), 0);
  header.writeUInt32LE(json.length, 8);
  return [header, json, ...parts];
}

const ARRAYS = new Map(Object.entries({
  float32: Float32Array, float64: Float64Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
}));

// How many elements a tensor has; not a count (`isCount`) if the shape is none.
function countElements(shape) {
  if (!Array.isArray(shape) || shape.length > 64 || !shape.every(isCount)) return NaN;
  return shape.includes(0) ? 0 : shape.reduce((n, size) => n * size, 1);
}

/** The named tensors of a message, as an object. Numbers are views of `bytes` where their alignment allows it. */
export function decodeTensors(list, bytes) {
  check(Array.isArray(list) && list.every((tensor) => typeof tensor?.name === "string"), "a tensor without a name");
  check(new Set(list.map(({ name }) => name)).size === list.length, "two tensors with one name");
  return Object.fromEntries(list.map((tensor) => [tensor.name, decodeTensor(tensor, bytes)]));
}

function decodeTensor({ dtype, shape = [], data, inner = [] }, bytes) {
  if (dtype === "nested") {
    check(Array.isArray(inner) && inner.every(isObject), "the elements of a nested tensor are not a list of tensors");
    checkDtypes(inner, "protocol");
    return { dtype, inner: inner.map((element) => decodeTensor(element, bytes)) };
  }
  const n = countElements(shape);
  check(isCount(n), "a tensor whose shape is wrong, or larger than can be counted");
  const { offset, length } = data?.inline ?? {};
  check(isCount(offset) && isCount(length), "a tensor whose elements are not in the frame");
  check(offset + length <= bytes.length, `a tensor at ${offset} + ${length} of ${bytes.length} bytes`);
  const block = bytes.subarray(offset, offset + length);
  return { dtype, shape, data: dtype === "string" ? decodeStrings(block, n) : decodeNumbers(block, dtype, n) };
}

function checkDtypes(inner, code) {
  const dtypes = new Set(inner.map(({ dtype }) => dtype));
  check(dtypes.size <= 1 && !dtypes.has("nested"), "a nested tensor of several dtypes, or of nested tensors", code);
}

function decodeNumbers(block, dtype, n) {
  const TypedArray = ARRAYS.get(dtype);
  check(TypedArray !== undefined, `the unknown dtype \`${dtype}\``);
  check(block.length === n * TypedArray.BYTES_PER_ELEMENT, `${block.length} bytes for ${n} elements of ${dtype}`);
  // A typed array can only begin at a multiple of its element's size, and the host need not put tensors there.
  const { buffer, byteOffset } = block.byteOffset % 8 === 0 ? block : new Uint8Array(block);
  return new TypedArray(buffer, byteOffset, n);
}

function decodeStrings(block, n) {
  check(8 * (n + 1) <= block.length, `${block.length} bytes for the offsets of ${n} strings`);
  const ends = Array.from(decodeNumbers(block.subarray(0, 8 * (n + 1)), "uint64", n + 1), Number);
  const text = block.subarray(8 * (n + 1));
  const areOrdered = ends.every((end, i) => (i === 0 ? end === 0 : ends[i - 1] <= end));
  check(areOrdered && ends[n] === text.length, "the offsets of strings decrease, or do not span their text");
  return ends.slice(1).map((end, i) => {
    check(isUtf8(text.subarray(ends[i], end)), "a string that is not UTF-8");
    return text.toString("utf8", ends[i], end);
  });
}

/** What a message says of tensors, and the bytes behind it. */
export function encodeTensors(tensors) {
  check(isObject(tensors), "the model did not return an object with its outputs", "failed");
  const parts = [];
  let end = 0;
  const place = (bytes) => {
    const offset = Math.ceil(end / 64) * 64;
    parts.push(Buffer.alloc(offset - end), bytes);
    end = offset + bytes.length;
    return { inline: { offset, length: bytes.length } };
  };
  const list = Object.entries(tensors).map(([name, tensor]) => ({ name, ...encodeTensor(name, tensor, place) }));
  return { list, parts };
}

function encodeTensor(name, { dtype, shape, data, inner = [] }, place) {
  if (dtype === "nested") {
    checkDtypes(inner, "failed");
    return { dtype, inner: inner.map((element) => encodeTensor(name, element, place)) };
  }
  const n = countElements(shape);
  check(data?.length === n, `output \`${name}\` has ${data?.length} elements and the shape [${shape}]`, "failed");
  if (dtype === "string") return { dtype, shape, data: place(encodeStrings(name, data)) };
  const isOfDtype = ARRAYS.has(dtype) && data instanceof ARRAYS.get(dtype);
  check(isOfDtype, `output \`${name}\` has data that are not the typed array of ${dtype}`, "failed");
  return { dtype, shape, data: place(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) };
}

function encodeStrings(name, strings) {
  const areStrings = Array.isArray(strings) && strings.every((text) => typeof text === "string");
  check(areStrings, `output \`${name}\` has data that are not a list of strings`, "failed");
  const texts = strings.map((text) => Buffer.from(text));
  const ends = new BigUint64Array(texts.length + 1);
  texts.forEach((text, i) => (ends[i + 1] = ends[i] + BigInt(text.length)));
  return Buffer.concat([new Uint8Array(ends.buffer)].concat(texts));
}
