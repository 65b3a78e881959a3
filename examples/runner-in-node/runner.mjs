#!/usr/bin/env -S sh -c 'exec node "$0" "$@" 3<&0 </dev/null'
// Runs models that are JavaScript modules; README.md says what they export. The line above moves the socket from
// standard input to descriptor 3, which Node passes to no child, so that no model takes what is meant for the runner.

import { existsSync, promises as fs } from "node:fs";
import net from "node:net";
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { check, decodeTensors, encodeFrame, encodeTensors, errorCode } from "./protocol.mjs";
import { isCount, isObject, readFrames } from "./protocol.mjs";

const framework_version = process.versions.node;
const socket = new net.Socket({ fd: 3 });
const calls = new Map(); // those that run, by id
const sealed = new Map(); // inputs, by handle
let loading; // a promise of the model and its concurrency
let isGreeted = false;
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
  const model = module.infer ? module : module.default;
  check(typeof model?.infer === "function", `\`${file}\` exports no \`infer\``, "failed");
  return model;
}

async function loadModel(folder, { max_concurrency, ...options }, signature, call) {
  const model = await importModel(folder);
  const concurrency = max_concurrency ?? model.maxConcurrency ?? 1;
  check(isCount(concurrency) && concurrency > 0, `\`max_concurrency\` is ${inspect(concurrency)}`, "failed");
  const modelOptions = {};
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith("model.")) modelOptions[name.slice("model.".length)] = value;
    else call.log("warn", `this runner has no option \`${name}\``);
  }
  await model.load?.(modelOptions, signature);
  return { model, concurrency };
}

// What is answered: each returns the name of the answer, its fields, and outputs.
const CALLS = {
  async load({ options = {}, files, device, inputs, outputs }, call) {
    check(loading === undefined, "a model is loaded already", "already_loaded");
    check(files.directory, "this runner reads models from folders only", "failed");
    loading = loadModel(files.directory.path, options, { device, inputs, outputs }, call);
    loading.catch(() => (loading = undefined));
    return ["loaded", { max_concurrency: (await loading).concurrency }];
  },
  async pack({ path, scratch, pack_options = {} }, call) {
    Object.keys(pack_options).forEach((name) => call.log("warn", `this runner has no packing option \`${name}\``));
    const isFile = (await fs.stat(path)).isFile();
    if (isFile) await fs.copyFile(path, join(scratch, `model${extname(path)}`));
    const { inputs, outputs } = await importModel(isFile ? scratch : path);
    const required_framework_version = `>=${framework_version.split(".")[0]}`;
    return ["packed", { path: isFile ? scratch : path, required_framework_version, inputs, outputs }];
  },
  async infer(fields, call, model) {
    return ["inferred", {}, await model.infer(call.inputs, call)];
  },
  async infer_stream({ credits }, call, model) {
    call.addCredits(credits);
    // A model without streams makes a stream of one item.
    const stream = model.inferStream?.(call.inputs, call) ?? [model.infer(call.inputs, call)];
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
  async infer_sealed({ handle }, call, model) {
    check(sealed.has(handle), `no inputs are sealed as ${handle}`, "unknown_handle");
    return ["inferred", {}, await model.infer(sealed.get(handle), call)];
  },
};

// What has no answer, or one that waits for nothing.
const NOTICES = {
  ping: (id) => send(id, "pong"),
  cancel: (id) => calls.get(id)?.cancel(),
  credit: (id, { n }) => calls.get(id)?.addCredits(n),
  unseal: (id, { handle }) => sealed.delete(handle),
  async shutdown() {
    await Promise.all([...calls.values()].map((call) => call.ended));
    socket.end(() => process.exit(0));
  },
};

const IGNORED = ["release", "pong", "error"];

const HAS_RIGHT_TYPES = {
  load: ({ options = {}, files }) => isObject(options) && isObject(files),
  infer_stream: ({ credits }) => isCount(credits),
  credit: ({ n }) => isCount(n),
};

// What models get to know of a call, and what the runner does.
function newCall(id, inputs) {
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
  return call;
}

async function run(call, name, fields) {
  try {
    const needsModel = name !== "load" && name !== "pack";
    check(loading !== undefined || !needsModel, "no model is loaded", "not_loaded");
    const model = needsModel ? (await loading).model : undefined;
    send(call.id, ...(await CALLS[name](fields, call, model)));
  } catch (error) {
    const text = inspect(error).slice(0, 2 ** 16); // the stack, and the errors that caused it
    const { [errorCode]: ownCode, message = text } = Object(error);
    const code = ownCode ?? (call.signal.aborted ? "cancelled" : "failed");
    send(call.id, "error", { code, message: `${message}`.slice(0, 2 ** 16), causes: ownCode ? [] : [text] });
  }
  calls.delete(call.id);
}

function receive({ id, name, fields, bytes }) {
  check(isGreeted === (name !== "hello"), "`hello` is the first message, and comes once");
  if (name === "hello") {
    check(fields.protocol === "carton-runner" && Array.isArray(fields.versions), "this is not the runner protocol");
    check(fields.versions.includes(2), `the host speaks the versions [${fields.versions}], this runner [2]`);
    isGreeted = true;
  } else if (Object.hasOwn(CALLS, name) || Object.hasOwn(NOTICES, name)) {
    check(isObject(fields) && (HAS_RIGHT_TYPES[name]?.(fields) ?? true), `\`${name}\` with a field of a wrong type`);
    if (Object.hasOwn(NOTICES, name)) return void NOTICES[name](id, fields);
    check(id !== undefined && !calls.has(id), `\`${name}\` without an id of its own`);
    const takesInputs = name === "infer" || name === "infer_stream" || name === "seal";
    const call = newCall(id, takesInputs ? decodeTensors(fields.inputs, bytes) : undefined);
    calls.set(id, call);
    call.ended = run(call, name, fields);
  } else if (!IGNORED.includes(name)) {
    send(id, "error", { code: "unknown_message", message: `this runner does not know \`${name}\`` });
  }
}

socket.on("error", () => process.exit(0)); // The host is gone.
send(undefined, "hello", { protocol: "carton-runner", versions: [2], features: [], name: "node", framework_version });
try {
  for await (const frame of readFrames(socket)) receive(frame);
  process.exit(0);
} catch (error) {
  send(undefined, "error", { code: "protocol", message: error.message });
  socket.end(() => process.exit(1));
}
