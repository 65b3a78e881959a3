#!/usr/bin/env -S sh -c 'exec node "$0" "$@" 3<&0 </dev/null'
// Runs models that are JavaScript modules; README.md says what they export. The line above moves the socket from
// standard input to descriptor 3, which Node passes to no child, so that no model reads data that is meant for the runner.

import { existsSync, promises as fs } from "node:fs";
import net from "node:net";
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { RunnerError, check, decodeTensors, encodeOutputs } from "./protocol.mjs";
import { isCount, isObject, readFrames, sendFrame } from "./protocol.mjs";

const framework_version = process.versions.node;
const socket = new net.Socket({ fd: 3 });
const calls = new Map(); // those that run, by id
const sealed = new Map(); // inputs, by handle
const GPU = /^(\d+|(GPU|MIG)-[\w/-]+)$/; // an index or a name
let loading; // a promise of the model and its concurrency
let isGreeted = false;
let nSealed = 0;

const send = (id, name, fields = {}, parts = []) => sendFrame(socket, { id, message: { [name]: fields } }, parts);

async function importModel(folder) {
  const file = ["model.mjs", "model.cjs"].map((name) => join(folder, name)).find(existsSync);
  check(file !== undefined, `neither model.mjs nor model.cjs is in \`${folder}\``, "failed");
  const module = await import(`${pathToFileURL(file)}?${process.hrtime.bigint()}`); // It does not try the same twice.
  const model = module.infer ? module : module.default;
  check(typeof model?.infer === "function", `\`${file}\` exports no \`infer\``, "failed");
  return model;
}

async function loadModel(folder, { max_concurrency, ...options }, signature, call) {
  const model = await importModel(folder);
  // Only a model with `load` can use a GPU, because only `load` gets the device.
  const { device } = signature;
  const isUsable = [undefined, null, "cpu"].includes(device) || (model.load && GPU.test(device));
  check(isUsable, `device \`${device}\` cannot be used: the model runs on the CPU`, "unavailable", "use the device `cpu`");
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

// The handlers of calls. Each returns its answer: the name, the fields, and the bytes that its tensors refer to.
const CALLS = {
  async load({ options = {}, files, device, inputs, outputs }, call) {
    check(loading === undefined, "a model is loaded already", "already_loaded");
    check(files.directory, "this runner reads models from folders only", "failed");
    loading = loadModel(files.directory.path, options, { device, inputs, outputs }, call);
    loading.catch(() => (loading = undefined));
    return ["loaded", { max_concurrency: (await loading).concurrency }];
  },
  async pack({ path: given, scratch, pack_options = {} }, call) {
    Object.keys(pack_options).forEach((name) => call.log("warn", `this runner has no packing option \`${name}\``));
    const isFile = (await fs.stat(given)).isFile();
    if (isFile) await fs.copyFile(given, join(scratch, `model${extname(given)}`));
    const path = isFile ? scratch : given;
    const { inputs, outputs } = await importModel(path);
    return ["packed", { path, required_framework_version: `>=${parseInt(framework_version)}`, inputs, outputs }];
  },
  infer: async (fields, call, { model }) => ["inferred", ...encodeOutputs(await model.infer(call.inputs, call))],
  async infer_stream({ credits }, call, { model }) {
    call.addCredits(credits);
    // A model without streams makes a stream of one item.
    for await (const outputs of model.inferStream?.(call.inputs, call) ?? [model.infer(call.inputs, call)]) {
      while (call.credits === 0 && !call.signal.aborted) await new Promise((resolve) => (call.wake = resolve));
      call.signal.throwIfAborted();
      call.credits -= 1;
      await send(call.id, "stream_item", ...encodeOutputs(outputs));
    }
    return ["stream_end"];
  },
  async seal(fields, call) {
    sealed.set(++nSealed, call.inputs);
    return ["sealed", { handle: nSealed }];
  },
  async infer_sealed({ handle }, call, { model }) {
    check(sealed.has(handle), `no inputs are sealed as ${handle}`, "unknown_handle");
    return ["inferred", ...encodeOutputs(await model.infer(sealed.get(handle), call))];
  },
};

// The handlers of messages without an answer, or with an immediate one.
const NOTICES = {
  hello(id, { protocol, versions }) {
    const speaksOurs = protocol === "carton-runner" && Array.isArray(versions) && versions.includes(2);
    check(speaksOurs, `the host speaks the versions [${versions}] of ${protocol}, this runner [2] of carton-runner`);
    isGreeted = true;
  },
  ping: (id) => send(id, "pong"),
  cancel: (id) => calls.get(id)?.cancel(),
  credit: (id, { n }) => calls.get(id)?.addCredits(n),
  unseal: (id, { handle }) => sealed.delete(handle),
  shutdown: () =>
    Promise.all(Array.from(calls.values(), (call) => call.ended)).then(() => socket.end(() => process.exit())),
  release() {}, pong() {}, error() {},
};

const HAS_RIGHT_TYPES = {
  load: ({ options = {}, files }) => isObject(options) && isObject(files),
  infer_stream: ({ credits }) => isCount(credits),
  credit: ({ n }) => isCount(n),
};

// Makes the object of a call, with the properties for the model and those for the runner.
function newCall(id, inputs) {
  const controller = new AbortController();
  const call = { id, inputs, signal: controller.signal, credits: 0, wake() {} };
  call.addCredits = (n) => call.wake((call.credits += n));
  call.cancel = () => call.wake(controller.abort());
  call.log = (level, message) => void send(id, "log", { level: `${level}`, message: `${message}` });
  call.progress = (what, done, total) => {
    check([done, total ?? 0].every(isCount), "progress is told in whole numbers", "failed");
    send(id, "progress", { what: `${what}`, done, total });
  };
  return call;
}

async function run(call, name, fields) {
  try {
    check(loading || name === "load" || name === "pack", "no model is loaded", "not_loaded");
    send(call.id, ...(await CALLS[name](fields, call, loading && (await loading))));
  } catch (error) {
    const text = inspect(error).slice(0, 2 ** 16); // the stack, and the errors that caused it
    const ofModel = [call.signal.aborted ? "cancelled" : "failed", [text]];
    const [code, causes, hint] = error instanceof RunnerError ? [error.code, [], error.hint] : ofModel;
    send(call.id, "error", { code, message: String(error?.message ?? text).slice(0, 2 ** 16), causes, hint });
  }
  calls.delete(call.id);
}

function receive({ id, name, fields, bytes }) {
  check(isGreeted === (name !== "hello"), "`hello` is the first message, and comes once");
  const [isCall, isNotice] = [CALLS, NOTICES].map((known) => Object.hasOwn(known, name));
  if (!isCall && !isNotice) return void send(id, "error", { code: "unknown_message", message: `unknown: \`${name}\`` });
  check(isObject(fields) && (HAS_RIGHT_TYPES[name]?.(fields) ?? true), `\`${name}\` with a field of a wrong type`);
  if (isNotice) return void NOTICES[name](id, fields);
  check(id !== undefined && !calls.has(id), `\`${name}\` without an id of its own`);
  const takesInputs = ["infer", "infer_stream", "seal"].includes(name);
  const call = newCall(id, takesInputs ? decodeTensors(fields.inputs, bytes) : undefined);
  calls.set(id, call);
  call.ended = run(call, name, fields);
}

["end", "error"].forEach((event) => socket.on(event, () => process.exit())); // The host is gone.
send(undefined, "hello", { protocol: "carton-runner", versions: [2], features: [], name: "node", framework_version });
try {
  for await (const frame of readFrames(socket)) receive(frame);
} catch (error) {
  process.exitCode = 1;
  send(undefined, "error", { code: "protocol", message: error.message });
  socket.end(() => process.exit());
}
