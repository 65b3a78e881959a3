// The request, and the same call for other programs.

/** The body of the request. */
function body() {
  const request = byId("request");
  if (request) {
    JSON.parse(request.value);
    return request.value;
  }
  const inputs = fields.map((field) => field.json()).filter((input) => input !== null);
  return `{"inputs": [${inputs.join(", ")}]}`;
}

const token = () => byId("token")?.value ?? "";

function update() {
  let request;
  try {
    request = body();
  } catch {
    request = null;
  }
  const isLong = request !== null && request.length > MAX_SNIPPET;
  byId("request-file").hidden = !isLong;
  const url = new URL(model.infer_path, location.origin).href;
  byId("curl").textContent = request === null ? "Fill in the inputs first." : curl(url, request, isLong);
  byId("python").textContent = request === null ? "Fill in the inputs first." : python(url, request, isLong);
}

function curl(url, request, isLong) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const lines = [`curl ${quoted(url)}`, "-H 'Content-Type: application/json'"];
  if (model.takes_token) {
    lines.push('-H "Authorization: Bearer $TOKEN"');
  }
  lines.push(isLong ? "--data-binary @request.json" : `--data-binary ${quoted(request)}`);
  return lines.join(" \\\n  ");
}

/** Writes JSON as Python does. Numbers stay as they are written. */
function pythonLiteral(json) {
  const words = { true: "True", false: "False", null: "None" };
  // Python does not know the escape of a slash.
  const text = (string) => string.replace(/\\(.)/gs, (escape, escaped) => (escaped === "/" ? "/" : escape));
  return json.replace(/"(?:[^"\\]|\\.)*"|true|false|null/gs, (part) => words[part] ?? text(part));
}

function python(url, request, isLong) {
  const headers = model.takes_token ? ['headers={"Authorization": "Bearer " + os.environ["TOKEN"]}'] : [];
  const data = isLong ? 'json=json.load(open("request.json"))' : `json=${pythonLiteral(request)}`;
  const modules = [...(isLong ? ["json"] : []), ...(model.takes_token ? ["os"] : [])];
  return [
    ...modules.map((name) => `import ${name}`),
    ...(modules.length > 0 ? [""] : []),
    "import requests",
    "",
    "answer = requests.post(",
    ...[JSON.stringify(url), data, ...headers, "timeout=60"].map((argument) => `    ${argument},`),
    ")",
    "answer.raise_for_status()",
    'for output in answer.json()["outputs"]:',
    '    print(output["name"], output["shape"], output["data"])',
  ].join("\n");
}

function clearError() {
  byId("error").hidden = true;
  byId("error").textContent = "";
  for (const control of form.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
  }
}

function showError(error) {
  byId("error").hidden = false;
  byId("error").textContent = error.message;
  if (error.control) {
    error.control.setAttribute("aria-invalid", "true");
    error.control.focus();
  }
}

/** Parses an answer. Integers that JavaScript would round stay as they are written, where the browser can tell. */
function parseAnswer(text) {
  return JSON.parse(text, (_key, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? context.source
      : value,
  );
}

async function run() {
  clearError();
  let request;
  try {
    request = body();
  } catch (error) {
    return showError(error);
  }
  const headers = { "Content-Type": "application/json" };
  if (token() !== "") {
    headers.Authorization = `Bearer ${token()}`;
  }
  const [button, status] = [byId("run"), byId("status")];
  button.disabled = true;
  status.textContent = "Running…";
  const start = performance.now();
  try {
    const response = await fetch(model.infer_path, { method: "POST", headers, body: request });
    const text = await response.text();
    let answer = null;
    try {
      answer = parseAnswer(text);
    } catch {
      // Something between here and the server answered.
    }
    if (!response.ok || !Array.isArray(answer?.outputs)) {
      const why = typeof answer?.error === "string" ? answer.error : text.slice(0, 500) || response.statusText;
      throw new Error(`${response.ok ? "unexpected answer" : `the server answered ${response.status}`}: ${why}`);
    }
    status.textContent = `Answered in ${Math.round(performance.now() - start)} ms`;
    byId("answer").hidden = false;
    byId("answer").replaceChildren(...answer.outputs.flatMap(outputElements));
  } catch (error) {
    status.textContent = "";
    byId("answer").hidden = true;
    showError(error instanceof TypeError ? new Error("the server cannot be reached") : error);
  } finally {
    button.disabled = false;
  }
}

