// Frames and tensors of the runner protocol (spec/runner-protocol.md, sections 2, 3 and 6), from bytes and to bytes.
// Tensors are in the form that models use (README.md).

import { on } from "node:events";

const [MAX_FRAME, MAX_JSON] = [2 ** 30, 2 ** 24];

/** An error that is not the model's, with a code of section 5. The code `protocol` means that the host broke it. */
export class RunnerError extends Error {}
export function check(condition, message, code = "protocol", hint = undefined) {
  if (!condition) throw Object.assign(new RunnerError(message), { code, hint });
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
export const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
// Throws if text is not UTF-8, and keeps byte order marks.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Yields the frames in a stream of bytes, each as `{ id, name, fields, bytes }`, until the stream ends. */
export async function* readFrames(stream) {
  const chunks = on(stream, "data");
  let chunk = Buffer.alloc(0);
  // Returns the next n bytes in a new buffer, whose start is aligned for every dtype.
  async function take(n) {
    const taken = Buffer.from(new ArrayBuffer(n));
    for (let filled = 0; filled < n; ) {
      if (chunk.length === 0) [chunk] = (await chunks.next()).value;
      const nCopied = chunk.copy(taken, filled);
      filled += nCopied;
      chunk = chunk.subarray(nCopied);
    }
    return taken;
  }

  for (;;) {
    const header = await take(12);
    const [length, jsonLength] = [Number(header.readBigUInt64LE(0)), header.readUInt32LE(8)];
    check(length <= MAX_FRAME && jsonLength <= Math.min(MAX_JSON, length - 4), `lengths of ${length}, ${jsonLength}`);
    const { id, release = [], message } = JSON.parse(utf8.decode(await take(jsonLength)));
    check(id === undefined || isCount(id), "the id of a message is not a number");
    check(Array.isArray(release) && release.length === 0, "memory is given back that was not lent");
    check(isObject(message) && Object.keys(message).length === 1, "a message is not an object with one key");
    const [[name, fields]] = Object.entries(message);
    yield { id, name, fields, bytes: await take(length - 4 - jsonLength) };
  }
}

/** Sends a message, and the bytes that its tensors refer to, in one piece. The promise resolves when it has been sent. */
export function sendFrame(socket, envelope, parts) {
  const json = Buffer.from(JSON.stringify(envelope));
  const length = parts.reduce((sum, part) => sum + part.length, 4 + json.length);
  check(length <= MAX_FRAME && json.length <= MAX_JSON, `${length} bytes, ${json.length} of JSON`, "too_large");
  const header = Buffer.alloc(12);
  header.writeBigUInt64LE(BigInt(length));
  header.writeUInt32LE(json.length, 8);
  socket.cork();
  [header, json, ...parts].forEach((part) => socket.write(part));
  const hasLeft = new Promise((resolve) => socket.write("", resolve));
  socket.uncork();
  return hasLeft;
}

const ARRAYS = new Map(Object.entries({
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array, float32: Float32Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, float64: Float64Array,
}));

// Returns the number of elements of a tensor; NaN if the shape is not valid.
function countElements(shape) {
  if (!Array.isArray(shape) || shape.length > 64 || !shape.every(isCount)) return NaN;
  return shape.includes(0) ? 0 : shape.reduce((n, size) => n * size, 1);
}

function mapInner(inner, code, convert) {
  check(Array.isArray(inner) && inner.every(isObject), "a nested tensor that is no list of tensors", code);
  const dtypes = new Set(inner.map(({ dtype }) => dtype));
  check(dtypes.size <= 1 && !dtypes.has("nested"), "a nested tensor of several dtypes, or of nested tensors", code);
  return { dtype: "nested", inner: inner.map(convert) };
}

/** Returns the named tensors of a message as an object. Numbers are views of `bytes` if their alignment allows it. */
export function decodeTensors(list, bytes) {
  check(Array.isArray(list) && list.every((tensor) => typeof tensor?.name === "string"), "a tensor without a name");
  check(new Set(list.map(({ name }) => name)).size === list.length, "two tensors with one name");
  return Object.fromEntries(list.map((tensor) => [tensor.name, decodeTensor(tensor, bytes)]));
}

function decodeTensor({ dtype, shape = [], data, inner = [] }, bytes) {
  if (dtype === "nested") return mapInner(inner, "protocol", (element) => decodeTensor(element, bytes));
  const n = countElements(shape);
  check(isCount(n), "a tensor whose shape is wrong, or larger than can be counted");
  const { offset, length } = data?.inline ?? {};
  check(isCount(offset) && isCount(length) && offset + length <= bytes.length, "elements that are not in the frame");
  const block = bytes.subarray(offset, offset + length);
  if (dtype === "string") return { dtype, shape, data: decodeStrings(block, n) };
  const TypedArray = ARRAYS.get(dtype);
  check(TypedArray !== undefined, `the unknown dtype \`${dtype}\``);
  check(length === n * TypedArray.BYTES_PER_ELEMENT, `${length} bytes for ${n} elements of ${dtype}`);
  // A typed array can only begin at a multiple of its element's size, and the host need not put tensors there.
  const { buffer, byteOffset } = block.byteOffset % 8 === 0 ? block : new Uint8Array(block);
  return { dtype, shape, data: new TypedArray(buffer, byteOffset, n) };
}

function decodeStrings(block, n) {
  const start = 8 * (n + 1);
  check(start <= block.length, `${block.length} bytes for the offsets of ${n} strings`);
  const ends = Array.from({ length: n + 1 }, (_, i) => start + Number(block.readBigUInt64LE(8 * i)));
  const areOrdered = ends.every((end, i) => (i === 0 ? end === start : ends[i - 1] <= end));
  check(areOrdered && ends[n] === block.length, "the offsets of strings decrease, or do not span their text");
  return ends.slice(1).map((end, i) => utf8.decode(block.subarray(ends[i], end)));
}

/** Returns the description of a model's outputs for a message, and the bytes after it. */
export function encodeOutputs(tensors) {
  check(isObject(tensors), "the model did not return an object with its outputs", "failed");
  const parts = [];
  let end = 0;
  const place = (bytes) => {
    const offset = Math.ceil(end / 64) * 64;
    parts.push(Buffer.alloc(offset - end), bytes);
    end = offset + bytes.length;
    return { inline: { offset, length: bytes.length } };
  };
  const outputs = Object.entries(tensors).map(([name, tensor]) => ({ name, ...encodeTensor(name, tensor, place) }));
  return [{ outputs }, parts];
}

function encodeTensor(name, { dtype, shape, data, inner = [] }, place) {
  if (dtype === "nested") return mapInner(inner, "failed", (element) => encodeTensor(name, element, place));
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
