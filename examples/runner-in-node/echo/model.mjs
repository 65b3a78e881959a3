// A model for tests of a runner: returns its inputs, and misbehaves on request. Its options:
//
// - `model.sleep_ms`: how long a call takes, unless it is cancelled
// - `model.fail`: what each call throws
// - `model.crash`: the status with which the process exits at the first call
// - `model.log`: what each call logs

import { setTimeout as sleep } from "node:timers/promises";

export const maxConcurrency = 64;

let options = {};

export function load(given) {
  options = given;
}

async function misbehave({ signal, log, progress }) {
  const { crash, fail, sleep_ms, log: text } = options;
  if (text !== undefined) log("info", text);
  if (crash !== undefined) process.exit(Number(crash));
  if (fail) throw new RangeError(fail, { cause: new Error("it was asked to") });
  if (sleep_ms) {
    progress("sleeping", 0, sleep_ms);
    await sleep(sleep_ms, undefined, { signal });
  }
}

export async function infer(inputs, call) {
  await misbehave(call);
  return inputs;
}

// Each input is a separate item.
export async function* inferStream(inputs, call) {
  for (const [name, tensor] of Object.entries(inputs)) {
    await misbehave(call);
    yield { [name]: tensor };
  }
}
