// Tests of the runner: `node --test test.mjs`. They play the host, and need only Node and `sh`.
// With the path of a `carton` command in CARTON the runner is also installed and used by the real host.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import nodeTest from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const here = path.dirname(fileURLToPath(import.meta.url));
const echo = path.join(here, "echo");
const hello = { hello: { protocol: "carton-runner", versions: [2], features: ["shared_memory"] } };

// A time limit, so that a runner that does not answer does not block the tests.
const test = (name, run, options = {}) => nodeTest(name, { timeout: 300_000, ...options }, run);

// Encodes a frame, written from the specification and independently of the runner.
function frame(envelope, bytes = Buffer.alloc(0)) {
  const json = Buffer.isBuffer(envelope) ? envelope : Buffer.from(JSON.stringify(envelope));
  const header = Buffer.alloc(12);
  header.writeBigUInt64LE(BigInt(4 + json.length + bytes.length));
  header.writeUInt32LE(json.length, 8);
  return Buffer.concat([header, json, bytes]);
}

/** A runner process, and this side of its socket. */
class Runner {
  constructor(t) {
    // Node's "pipe" is a pair of sockets. From descriptor 3 on it can be used in both directions, so `sh` moves it to 0.
    const stdio = ["ignore", "pipe", "pipe", "pipe"];
    this.process = spawn("sh", ["-c", 'exec "$0" 0<&3 3<&-', path.join(here, "runner.mjs")], { stdio });
    this.socket = this.process.stdio[3];
    this.exited = once(this.process, "exit");
    this.stderr = "";
    this.process.stderr.on("data", (text) => (this.stderr += text));
    this.messages = this.#read();
    this.socket.on("error", () => {});
    t.after(() => this.process.kill("SIGKILL"));
  }

  async *#read() {
    let buffer = Buffer.alloc(0);
    for await (const chunk of this.socket) {
      buffer = Buffer.concat([buffer, chunk]);
      while (buffer.length >= 12 && buffer.length >= 8 + Number(buffer.readBigUInt64LE())) {
        const end = 8 + Number(buffer.readBigUInt64LE());
        const bytesAt = 12 + buffer.readUInt32LE(8);
        yield { ...JSON.parse(buffer.subarray(12, bytesAt)), bytes: buffer.subarray(bytesAt, end) };
        buffer = buffer.subarray(end);
      }
    }
  }

  send(message, id, bytes) {
    this.socket.write(frame({ id, message }, bytes));
  }

  async next() {
    return (await this.messages.next()).value;
  }

  /** Sends a call, and returns its answer. */
  async ask(message, id, bytes) {
    this.send(message, id, bytes);
    const answer = await this.next();
    assert.equal(answer.id, id);
    return answer.message;
  }

  static async greeted(t) {
    const runner = new Runner(t);
    runner.send(hello);
    const { hello: answer } = (await runner.next()).message;
    assert.deepEqual(answer.versions, [2]);
    assert.equal(answer.framework_version, process.versions.node);
    return runner;
  }

  static async loaded(t, options = {}, folder = echo) {
    const runner = await Runner.greeted(t);
    runner.send({ load: { options, files: { directory: { path: folder } } } }, 1);
    const answer = (await runner.next()).message;
    assert.ok(answer.loaded, JSON.stringify(answer));
    return runner;
  }
}

const inline = (offset, length) => ({ inline: { offset, length } });
const numbers = (name, dtype, shape, length, offset = 0) => ({ name, dtype, shape, data: inline(offset, length) });
const byte = numbers("x", "uint8", [1], 1);
const infer = (...inputs) => ({ infer: { inputs } });

async function temporaryFolder(t) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "runner-in-node-"));
  t.after(() => fs.rm(folder, { recursive: true }));
  return folder;
}

test("returns every dtype, shape and alignment as it came", async (t) => {
  const runner = await Runner.loaded(t);
  const integers = { int8: 1, uint8: 1, int16: 2, uint16: 2, int32: 4, uint32: 4, int64: 8, uint64: 8 };
  const sizes = { ...integers, float32: 4, float64: 8 };
  const bytes = Buffer.from(Array.from({ length: 200 }, (_, i) => (i * 37) % 256));
  for (const [dtype, size] of Object.entries(sizes)) {
    const empty = [...Array(40).fill(2 ** 50), 0];
    for (const [shape, offset] of [[[2, 3], 0], [[2, 3], 1], [[], 64], [[0, 5], 3], [empty, 0]]) {
      const length = shape.includes(0) ? 0 : shape.reduce((n, dimension) => n * dimension, size);
      runner.send(infer(numbers("x", dtype, shape, length, offset)), 2, bytes);
      const answer = await runner.next();
      const [output] = answer.message.inferred.outputs;
      assert.deepEqual({ ...output, data: undefined }, { name: "x", dtype, shape, data: undefined });
      const { offset: at, length: n } = output.data.inline;
      assert.equal(at % 64, 0);
      assert.deepEqual(answer.bytes.subarray(at, at + n), bytes.subarray(offset, offset + length));
    }
  }
});

// "a", "", a byte order mark followed by NUL and é, and an emoji, encoded as the specification shows.
const text = Buffer.from("a" + "\ufeff\0\u00e9" + "\u{1f600}");
const strings = Buffer.concat([Buffer.from(BigUint64Array.from([0n, 1n, 1n, 7n, 11n]).buffer), text]);

test("returns strings with NUL, byte order marks and emoji", async (t) => {
  const runner = await Runner.loaded(t);
  runner.send(infer(numbers("s", "string", [2, 2], strings.length), numbers("none", "string", [0], 8)), 2, strings);
  const { message, bytes } = await runner.next();
  const [s, none] = message.inferred.outputs.map(({ data }) => data.inline);
  assert.deepEqual(bytes.subarray(s.offset, s.offset + s.length), strings);
  assert.deepEqual(bytes.subarray(none.offset, none.offset + none.length), Buffer.alloc(8));
  assert.deepEqual([s.offset % 64, none.offset % 64], [0, 0]);
});

test("returns nested tensors, and names that mean something in JavaScript", async (t) => {
  const runner = await Runner.loaded(t);
  const inner = [{ dtype: "uint8", shape: [2], data: inline(0, 2) }, { dtype: "uint8", shape: [], data: inline(2, 1) }];
  const nested = { name: "__proto__", dtype: "nested", inner };
  const empty = { name: "10", dtype: "nested", inner: [] };
  runner.send(infer(nested, empty), 2, Buffer.from([7, 8, 9]));
  const { message, bytes } = await runner.next();
  const outputs = Object.fromEntries(message.inferred.outputs.map((output) => [output.name, output]));
  assert.deepEqual(outputs["10"], empty);
  const values = Object.entries(outputs).find(([name]) => name === "__proto__")[1].inner;
  assert.deepEqual(values.map(({ shape }) => shape), [[2], []]);
  assert.deepEqual(values.map(({ data }) => bytes[data.inline.offset]), [7, 9]);
});

test("reads frames that come byte by byte", async (t) => {
  const runner = new Runner(t);
  runner.socket.setNoDelay?.(true);
  for (const one of frame({ message: hello })) {
    runner.socket.write(Buffer.from([one]));
    await new Promise(setImmediate);
  }
  runner.send({ ping: {} }, 5);
  assert.ok((await runner.next()).message.hello);
  assert.deepEqual((await runner.next()).message, { pong: {} });
});

test("answers calls that cannot be run, and lives on", async (t) => {
  const runner = await Runner.greeted(t);
  const code = async (message, id = 9) => (await runner.ask(message, id, Buffer.alloc(8))).error?.code;
  const load = (folder) => ({ load: { files: { directory: { path: folder } } } });
  assert.equal(await code(infer(byte)), "not_loaded");
  assert.equal(await code(load(os.tmpdir())), "failed");
  assert.equal(await code({ load: { files: { ranges: { sources: [], entries: [] } } } }), "failed");
  assert.equal(await code(load(echo)), undefined);
  assert.equal(await code(load(echo)), "already_loaded");
  assert.equal(await code({ infer_sealed: { handle: 3 } }), "unknown_handle");
  assert.equal(await code({ constructor: {} }), "unknown_message");
  assert.equal(await code({ from_the_future: 1 }, undefined), "unknown_message");
  assert.deepEqual(await runner.ask({ ping: {} }, 9), { pong: {} });
});

test("ignores fields that it does not know, and messages that need no answer", async (t) => {
  const runner = await Runner.loaded(t);
  for (const message of [{ release: {} }, { pong: {} }, { error: { code: "failed", message: "x" } }, { cancel: {} }]) {
    runner.send(message, 77);
  }
  runner.send({ infer: { inputs: [{ ...byte, unit: "s" }], options: 7, n: "many", credits: -1 } }, 3, Buffer.from([6]));
  const { id, message, bytes } = await runner.next();
  assert.deepEqual([id, Object.keys(message), bytes[0]], [3, ["inferred"], 6]);
});

test("ends the connection when the host breaks the protocol", async (t) => {
  const header = (length, jsonLength) => {
    const bytes = Buffer.alloc(12);
    bytes.writeBigUInt64LE(BigInt(length));
    bytes.writeUInt32LE(jsonLength, 8);
    return bytes;
  };
  const call = (message, bytes) => frame({ id: 4, message }, bytes);
  const u64s = (...values) => Buffer.from(BigUint64Array.from(values).buffer);
  const string = (...offsets) =>
    call(infer(numbers("s", "string", [2], 26)), Buffer.concat([u64s(...offsets), Buffer.from("é")]));
  const waiting = call({ infer_stream: { inputs: [byte], credits: 0 } }, Buffer.alloc(1));
  const nested = (inner) => ({ name: "n", dtype: "nested", inner });
  const hostile = {
    "a length over the limit": header(2 ** 40, 10),
    "JSON over the limit": header(2 ** 25, 2 ** 24 + 1),
    "JSON longer than the frame": header(10, 100),
    "no JSON": frame(Buffer.from("{")),
    "JSON that is not UTF-8": frame(Buffer.from([0x22, 0xff, 0x22])),
    "no object": frame(Buffer.from("null")),
    "two messages": call({ ping: {}, pong: {} }),
    "an id that is not a number": frame({ id: -1, message: { ping: {} } }),
    "a release of nothing": frame({ release: [{ region: 1, offset: 0 }], message: { ping: {} } }),
    "a second hello": frame({ message: hello }),
    "a call without an id": frame({ message: infer() }),
    "the id of a call that runs": Buffer.concat([waiting, waiting]),
    "fields that are no object": call({ infer: 7 }),
    "inputs that are no list": call({ infer: { inputs: {} } }),
    "a tensor without a name": call(infer({ dtype: "uint8", shape: [0], data: inline(0, 0) })),
    "a name twice": call(infer(byte, byte), Buffer.alloc(1)),
    "an unknown dtype": call(infer({ ...byte, dtype: ["uint8"] }), Buffer.alloc(1)),
    "no list for a shape": call(infer({ ...byte, shape: 1 }), Buffer.alloc(1)),
    "a negative size": call(infer({ ...byte, shape: [-1] }), Buffer.alloc(1)),
    "too many dimensions": call(infer({ ...byte, shape: Array(65).fill(1) }), Buffer.alloc(1)),
    "too many elements": call(infer({ ...byte, shape: [2 ** 40, 2 ** 40] }), Buffer.alloc(1)),
    "a length that is not the shape's": call(infer({ ...byte, shape: [2] }), Buffer.alloc(1)),
    "elements behind the frame": call(infer({ ...byte, data: inline(1, 1) }), Buffer.alloc(1)),
    "shared memory": call(infer({ ...byte, data: { shared: { owner: "host", region: 1, offset: 0, length: 1 } } })),
    "strings without offsets": call(infer(numbers("s", "string", [2 ** 40], 8)), Buffer.alloc(8)),
    "strings that do not begin at 0": string(1n, 2n, 2n),
    "strings that end early": string(0n, 0n, 1n),
    "offsets that decrease": string(0n, 3n, 2n),
    "strings that are not UTF-8": string(0n, 1n, 2n),
    "nested in nested": call(infer(nested([{ dtype: "nested", inner: [] }]))),
    "nested of two dtypes": call(infer(nested([byte, { ...byte, dtype: "int8" }])), Buffer.alloc(1)),
    "options that are no object": call({ load: { options: 7, files: { directory: { path: echo } } } }),
    "a stream without a number of credits": call({ infer_stream: { inputs: [], credits: "1" } }),
  };
  for (const [what, bytes] of Object.entries(hostile)) {
    const runner = await Runner.loaded(t);
    runner.socket.write(bytes);
    const { id, message } = await runner.next();
    assert.equal(message.error?.code, "protocol", what);
    assert.equal(id, undefined, what);
    assert.deepEqual(await runner.exited, [1, null], what);
  }
});

test("refuses hosts of other protocols and versions", async (t) => {
  for (const wrong of [{ ...hello.hello, versions: [1, 3] }, { ...hello.hello, protocol: "http" }, null]) {
    const runner = new Runner(t);
    runner.send({ hello: wrong });
    assert.ok((await runner.next()).message.hello);
    assert.equal((await runner.next()).message.error.code, "protocol");
    await runner.exited;
  }
});

test("runs 64 calls at once, answers pings meanwhile, and stops what is cancelled", async (t) => {
  const runner = await Runner.loaded(t, { "model.sleep_ms": 300 });
  for (let id = 100; id < 164; id++) runner.send(infer(byte), id, Buffer.from([id]));
  runner.send({ cancel: {} }, 107);
  runner.send({ cancel: {} }, 9999);
  runner.send({ ping: {} }, 1000);
  const messages = [];
  while (messages.length < 65) {
    const next = await runner.next();
    if (next.message.progress === undefined) messages.push(next);
  }
  assert.deepEqual(messages.slice(0, 2).map(({ id }) => id).sort(), [1000, 107]);
  assert.equal(messages.find(({ id }) => id === 107).message.error.code, "cancelled");
  for (const { id, bytes } of messages.slice(2)) assert.equal(bytes[0], id);
});

test("streams as far as credits reach", async (t) => {
  const runner = await Runner.loaded(t);
  const inputs = ["a", "b", "c"].map((name) => ({ ...byte, name }));
  runner.send({ infer_stream: { inputs, credits: 1 } }, 3, Buffer.from([5]));
  assert.equal((await runner.next()).message.stream_item.outputs[0].name, "a");
  assert.deepEqual(await runner.ask({ ping: {} }, 4), { pong: {} }); // and no further item before it
  runner.send({ credit: { n: 2 } }, 3);
  assert.equal((await runner.next()).message.stream_item.outputs[0].name, "b");
  assert.equal((await runner.next()).message.stream_item.outputs[0].name, "c");
  assert.deepEqual(await runner.next().then(({ message }) => message), { stream_end: {} });
  runner.send({ credit: { n: 2 } }, 3);
  runner.send({ infer_stream: { inputs, credits: 0 } }, 5, Buffer.from([5]));
  runner.send({ cancel: {} }, 5);
  assert.equal((await runner.next()).message.error.code, "cancelled");
});

test("keeps sealed inputs until they are unsealed", async (t) => {
  const runner = await Runner.loaded(t);
  const { handle } = (await runner.ask({ seal: { inputs: [byte] } }, 2, Buffer.from([42]))).sealed;
  for (const id of [3, 4]) {
    runner.send({ infer_sealed: { handle } }, id);
    assert.equal((await runner.next()).bytes[0], 42);
  }
  runner.send({ unseal: { handle } });
  assert.equal((await runner.ask({ infer_sealed: { handle } }, 5)).error.code, "unknown_handle");
});

test("tells what a model throws and returns wrongly, and that it died", async (t) => {
  const failing = await Runner.loaded(t, { "model.fail": "no such word" });
  const { error } = await failing.ask(infer(), 2);
  assert.deepEqual([error.code, error.message], ["failed", "no such word"]);
  assert.match(error.causes[0], /RangeError: no such word\n +at .*model\.mjs.*it was asked to/s);

  const crashing = await Runner.loaded(t, { "model.crash": 3 });
  crashing.send(infer(), 2);
  assert.deepEqual(await crashing.exited, [3, null]);

  const folder = await temporaryFolder(t);
  const wrongly = [
    "return 7",
    "return undefined",
    "return { x: undefined }",
    "return { x: { dtype: 'int64', shape: [1], data: [1] } }",
    "return { x: { dtype: 'int8', shape: [2], data: new Int8Array(1) } }",
    "return { x: { dtype: 'float16', shape: [], data: [1] } }",
    "return { s: { dtype: 'string', shape: [1], data: [1] } }",
    "throw null",
    "throw Object.assign(new Error(), { errorCode: 7, message: 7n })",
  ];
  const functions = wrongly.map((body) => `() => { ${body}; }`);
  await fs.writeFile(path.join(folder, "model.cjs"), `exports.infer = () => [${functions}].at(n++)(); let n = 0;`);
  const wrong = await Runner.loaded(t, {}, folder);
  for (const body of wrongly) assert.equal((await wrong.ask(infer(), 2)).error?.code, "failed", body);
});

test("warns about options that nobody knows", async (t) => {
  const runner = await Runner.greeted(t);
  const options = { threads: 4, "model.sleep_ms": 0, max_concurrency: 3 };
  runner.send({ load: { options, files: { directory: { path: echo } } } }, 1);
  const { id, message } = await runner.next();
  assert.deepEqual([id, message.log.level], [1, "warn"]);
  assert.match(message.log.message, /threads/);
  assert.deepEqual((await runner.next()).message, { loaded: { max_concurrency: 3 } });
});

test("refuses devices that a model cannot use", async (t) => {
  const runner = await Runner.greeted(t);
  const load = (device, folder) => ({ load: { device, files: { directory: { path: folder } } } });
  const folder = await temporaryFolder(t);
  await fs.writeFile(path.join(folder, "model.cjs"), "exports.infer = () => ({});");
  let number = 0;
  for (const device of ["0", "GPU-12ab", "foo", ""]) {
    const { error } = await runner.ask(load(device, folder), ++number);
    assert.deepEqual([error.code, error.hint], ["unavailable", "use the device `cpu`"]);
    assert.match(error.message, new RegExp(`^device \`${device}\` cannot be used`));
  }
  // A model with `load` decides itself, except about names that are not devices.
  await fs.writeFile(
    path.join(folder, "model.mjs"),
    "export const load = (options, { device }) => { throw new Error(`no ${device} here`); }; export const infer = () => ({});",
  );
  assert.equal((await runner.ask(load("foo", folder), ++number)).error.code, "unavailable");
  assert.equal((await runner.ask(load("1", folder), ++number)).error.message, "no 1 here");
  assert.ok((await runner.ask(load("cpu", path.join(here, "echo")), ++number)).loaded);
});

test("packs a folder as it is, and a file as model.mjs", async (t) => {
  const runner = await Runner.greeted(t);
  const words = path.join(here, "words");
  const scratch = await temporaryFolder(t);
  const { packed } = await runner.ask({ pack: { path: words, scratch } }, 1);
  assert.equal(packed.path, words);
  assert.deepEqual(packed.inputs, [{ name: "text", dtype: "string", shape: ["n"] }]);
  const file = (await runner.ask({ pack: { path: path.join(words, "model.mjs"), scratch } }, 2)).packed;
  assert.equal(file.path, scratch);
  assert.deepEqual(await fs.readdir(scratch), ["model.mjs"]);
  assert.equal((await runner.ask({ pack: { path: "/nowhere", scratch } }, 3)).error.code, "failed");
});

test("ends with the connection, and after a shutdown when the last call is done", async (t) => {
  for (const how of ["end", "destroy"]) {
    const dropped = await Runner.loaded(t, { "model.sleep_ms": 1_000_000 });
    dropped.send(infer(), 2);
    assert.ok((await dropped.next()).message.progress);
    dropped.socket[how]();
    assert.deepEqual(await dropped.exited, [0, null]);
  }

  const asked = await Runner.loaded(t, { "model.sleep_ms": 100 });
  asked.send(infer(byte), 2, Buffer.from([1]));
  asked.send({ shutdown: {} });
  const names = [];
  for (let next; (next = await asked.next()); ) names.push(Object.keys(next.message)[0]);
  assert.deepEqual(names, ["progress", "inferred"]);
  assert.deepEqual(await asked.exited, [0, null]);
});

test("keeps its socket from the model and the programs that it starts", async (t) => {
  const folder = await temporaryFolder(t);
  // The program reads its standard input, and lists its other descriptors.
  const program = "cat; ls -l /dev/fd/ | grep -c socket:";
  const model = `
    import { spawnSync } from "node:child_process";
    export function infer() {
      const { stdout } = spawnSync("sh", ["-c", "${program}"], { stdio: ["inherit", "pipe", "inherit"] });
      return { stdout: { dtype: "string", shape: [], data: [stdout.toString()] } };
    }`;
  await fs.writeFile(path.join(folder, "model.mjs"), model);
  const runner = await Runner.loaded(t, {}, folder);
  runner.send(infer(), 2);
  const { bytes } = await runner.next();
  // The only socket is standard error, for which Node uses a socket too.
  assert.equal(bytes.subarray(16).toString(), "1\n");
});

async function withCarton(t) {
  const folder = await temporaryFolder(t);
  const inFolder = (...names) => path.join(folder, ...names);
  const env = { ...process.env, CARTON_RUNNER_DIR: inFolder("runners"), CARTON_CACHE_DIR: inFolder("cache") };
  const run = promisify(execFile);
  const carton = (...args) => run(process.env.CARTON, args, { env });

  await fs.cp(here, inFolder("runner"), { recursive: true });
  const { stdout: descriptor } = await run(process.execPath, [path.join(here, "descriptor.mjs")]);
  await fs.writeFile(inFolder("runner", "runner.toml"), descriptor);
  await carton("runner", "install", inFolder("runner"));

  const words = path.join(here, "words");
  const metadata = ["--metadata", path.join(words, "carton.toml")];
  await carton("pack", path.join(words, "model.mjs"), "--runner", "node", ...metadata, "-o", inFolder("words.carton"));
  await carton("run", inFolder("words.carton"), "--self-test");
  const { stdout } = await carton("run", inFolder("words.carton"), "-i", 'text=["one two"]', "--json");
  assert.deepEqual(JSON.parse(stdout).outputs.n_words.data, [2]);
  await assert.rejects(carton("run", inFolder("words.carton"), "-i", 'text="no list"'), { code: 1 });

  await carton("pack", echo, "--runner", "node", "-o", inFolder("echo.carton"));
  const failing = (option) => carton("run", inFolder("echo.carton"), "-i", "x=[1]", "--opt", option);
  await assert.rejects(failing("model.fail=not today"), { code: 1, stderr: /not today/ });
  await assert.rejects(failing("model.crash=3"), { code: 6, stderr: /exit status 3/ });
}

const skip = process.env.CARTON ? false : "CARTON does not name a `carton` command";
test("is installed and run by Carton", withCarton, { skip });
