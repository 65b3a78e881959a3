#!/usr/bin/env -S sh -c 'exec node "$0" "$@" 3<&0 </dev/null'
// Runs models that are JavaScript modules; README.md says what they export. The line above moves the socket from
// standard input to descriptor 3, which Node passes to no child, so that no model takes what is meant for the runner.

import { existsSync, promises as fs } from "node:fs";
import net from "node:net";
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { check, decodeTensors, encodeFrame, encodeTensors, isCount, isObject, readFrames } from "./protocol.mjs";

const MAX_ERROR = 2 ** 16; // characters

const socket = new net.Socket({ fd: 3 });
const calls = new Map(); // those that run, by id
const sealed = new Map(); // inputs, by handle
let model; // a promise of what `load` loads
let isGreeted = false;
let isClosing = false;
let nImported = 0;
let nSealed = 0;

// Sends a message in one piece. The promise is one of its having left.
function send(id, name, fields = {}, outputs = undefined) {
  const { list, parts } = outputs === undefined ? {} : encodeTensors(outputs);
  const buffers = encodeFrame({ id, message: { [name]: list ? { outputs: list } : fields } }, parts);
  socket.cork();
  buffers.forEach((buffer) => socket.write(buffer));
  const hasLeft = new Promise((resolve) => socket.write("", resolve));
  socket.uncork();
  return hasLeft;
}

async function importModel(folder) {
  const file = ["model.mjs", "model.cjs"].map((name) => join(folder, name)).find(existsSync);
  check(file !== undefined, `neither model.mjs nor model.cjs is in \`${folder}\``, "failed");
  const module = await import(`${pathToFileURL(file)}?${++nImported}`); // Node does not try the same twice.
  const exported = module.infer ? module : module.default;
  check(typeof exported?.infer === "function", `\`${file}\` exports no \`infer\``, "failed");
  return exported;
}

async function loadModel(folder, { max_concurrency, ...options }, signature, call) {
  const exported = await importModel(folder);
  const n = max_concurrency ?? exported.maxConcurrency ?? 1;
  check(isCount(n) && n > 0, `\`max_concurrency\` is ${inspect(n)}`, "failed");
  const modelOptions = {};
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith("model.")) modelOptions[name.slice("model.".length)] = value;
    else call.log("warn", `this runner has no option \`${name}\``);
  }
  await exported.load?.(modelOptions, signature);
  return { exported, n };
}

async function infer(inputs, call) {
  return (await model).exported.infer(inputs, call);
}

// What is answered: each returns the name of the answer, its fields, and outputs.
const CALLS = {
  async load({ options = {}, files, device, inputs, outputs }, call) {
    check(model === undefined, "a model is loaded already", "already_loaded");
    check(files.directory, "this runner reads models from folders only", "failed");
    model = loadModel(files.directory.path, options, { device, inputs, outputs }, call);
    model.catch(() => (model = undefined));
    return ["loaded", { max_concurrency: (await model).n }];
  },
  async pack({ path, scratch, pack_options = {} }, call) {
    Object.keys(pack_options).forEach((name) => call.log("warn", `this runner has no packing option \`${name}\``));
    const isFile = (await fs.stat(path)).isFile();
    if (isFile) await fs.copyFile(path, join(scratch, `model${extname(path)}`));
    const { inputs, outputs } = await importModel(isFile ? scratch : path);
    const required_framework_version = `>=${process.versions.node.split(".")[0]}`;
    return ["packed", { path: isFile ? scratch : path, required_framework_version, inputs, outputs }];
  },
  infer: async (fields, call) => ["inferred", {}, await infer(call.inputs, call)],
  async infer_stream({ credits }, call) {
    call.addCredits(credits);
    const { exported } = await model;
    // A model without streams makes a stream of one item.
    const stream = exported.inferStream ? exported.inferStream(call.inputs, call) : [infer(call.inputs, call)];
    for await (const outputs of stream) {
      while (call.credits === 0 && !call.signal.aborted) await new Promise((resolve) => (call.wake = resolve));
      call.signal.throwIfAborted();
      call.credits -= 1;
      await send(call.id, "stream_item", {}, outputs);
    }
    return ["stream_end"];
  },
  async seal(fields, call) {
    sealed.set(++nSealed, call.inputs);
    return ["sealed", { handle: nSealed }];
  },
  async infer_sealed({ handle }, call) {
    check(sealed.has(handle), `no inputs are sealed as ${handle}`, "unknown_handle");
    return ["inferred", {}, await infer(sealed.get(handle), call)];
  },
};

// What has no answer, or one that waits for nothing.
const NOTICES = {
  ping: (id) => send(id, "pong"),
  cancel: (id) => calls.get(id)?.cancel(),
  credit: (id, { n }) => calls.get(id)?.addCredits(n),
  unseal: (id, { handle }) => sealed.delete(handle),
  shutdown: () => (isClosing = true),
  release() {},
  pong() {},
  error() {},
};

async function run(id, name, fields, inputs) {
  const controller = new AbortController();
  const call = {
    id,
    inputs,
    signal: controller.signal,
    credits: 0,
    wake() {},
    addCredits: (n) => call.wake((call.credits += n)),
    cancel: () => call.wake(controller.abort()),
    log: (level, message) => void send(id, "log", { level: `${level}`, message: `${message}` }),
    progress(what, done, total) {
      check([done, total ?? 0].every(isCount), "progress is told in whole numbers", "failed");
      send(id, "progress", { what: `${what}`, done, total });
    },
  };
  calls.set(id, call);
  try {
    check(model !== undefined || name === "load" || name === "pack", "no model is loaded", "not_loaded");
    send(id, ...(await CALLS[name](fields, call)));
  } catch (error) {
    const text = inspect(error).slice(0, MAX_ERROR); // the stack, and the errors that caused it
    const { errorCode, message = text } = Object(error);
    const code = errorCode ?? (call.signal.aborted ? "cancelled" : "failed");
    send(id, "error", { code, message: `${message}`.slice(0, MAX_ERROR), causes: errorCode ? [] : [text] });
  }
  calls.delete(id);
  closeWhenDone();
}

function receive({ id, name, fields, bytes }) {
  const isCall = Object.hasOwn(CALLS, name);
  check(isGreeted === (name !== "hello"), "`hello` is the first message, and comes once");
  if (name === "hello") {
    check(fields.protocol === "carton-runner" && Array.isArray(fields.versions), "this is not the runner protocol");
    check(fields.versions.includes(2), `the host speaks the versions [${fields.versions}], this runner [2]`);
    isGreeted = true;
  } else if (isCall || Object.hasOwn(NOTICES, name)) {
    const { options = {}, files = {}, credits = 0, n = 0 } = fields;
    check([fields, options, files].every(isObject), `\`${name}\` with something else in the place of an object`);
    check([credits, n].every(isCount), `\`${name}\` with credits that are not a number`);
    check(!isCall || (id !== undefined && !calls.has(id)), `\`${name}\` without an id of its own`);
    const inputs = ["infer", "infer_stream", "seal"].includes(name) ? decodeTensors(fields.inputs, bytes) : undefined;
    if (isCall) run(id, name, fields, inputs);
    else NOTICES[name](id, fields);
  } else {
    send(id, "error", { code: "unknown_message", message: `this runner does not know \`${name}\`` });
  }
  closeWhenDone();
}

function closeWhenDone() {
  if (isClosing && calls.size === 0) socket.end(() => process.exit(0));
}

socket.on("error", () => process.exit(0)); // The host is gone.
send(undefined, "hello", {
  protocol: "carton-runner",
  versions: [2],
  features: [],
  name: "node",
  framework_version: process.versions.node,
});
try {
  for await (const frame of readFrames(socket)) receive(frame);
  process.exit(0);
} catch (error) {
  send(undefined, "error", { code: "protocol", message: error.message });
  socket.end(() => process.exit(1));
}
