// The fields of the inputs.

class Field {
  constructor(element) {
    const index = Number(element.dataset.input);
    this.input = model.inputs[index];
    this.control = byId(`input-${index}`);
    this.hint = byId(`input-${index}-hint`);
    this.howTo = this.hint.textContent;
    // Values that are too many for the control.
    this.kept = null;
    this.picture = null;
    // Counts what was chosen. A picture that is read slowly is not shown in place of a later choice.
    this.choice = 0;
    this.control.addEventListener("input", () => {
      this.choice += 1;
      this.kept = null;
      this.note(this.howTo);
      update();
    });
    if (this.input.is_bytes) {
      this.files = byId(`input-${index}-bytes`);
      this.files.addEventListener("change", () => this.chooseBytes());
    }
    if (this.input.picture !== null) {
      this.file = byId(`input-${index}-file`);
      this.range = byId(`input-${index}-range`);
      this.invert = byId(`input-${index}-invert`);
      this.canvas = byId(`input-${index}-canvas`);
      this.file.addEventListener("change", () => this.chooseFile());
      for (const option of [this.range, this.invert]) {
        option.addEventListener("change", () => this.picture && this.usePicture(this.picture));
      }
    }
  }

  note(text) {
    this.hint.textContent = text;
  }

  clear() {
    this.choice += 1;
    this.kept = null;
    this.picture = null;
    this.control.value = "";
    this.note(this.howTo);
    if (this.file) {
      this.file.value = "";
      this.canvas.hidden = true;
    }
    if (this.files) {
      this.files.value = "";
    }
  }

  /** Fills in a text. */
  setText(text) {
    this.clear();
    const isText = this.input.datatype === "BYTES";
    // One string is shown as itself.
    const single = isText && /^\[*"(?:[^"\\]|\\.)*"\]*$/.test(text) ? JSON.parse(text.replace(/^\[*|\]*$/g, "")) : null;
    this.control.value = single !== null && !single.trimStart().startsWith("[") ? single : text;
  }

  async chooseFile() {
    const [file] = this.file.files;
    if (file) {
      await this.read(createImageBitmap(file), `${file.name} is not a picture that this browser can read`);
    }
  }

  /** Fills in the bytes of the chosen files, unless something else is chosen until they are read. */
  async chooseBytes() {
    this.choice += 1;
    const choice = this.choice;
    try {
      const texts = await Promise.all([...this.files.files].map(base64OfFile));
      if (choice === this.choice && texts.length > 0) {
        this.useBytes(texts);
      }
    } catch {
      if (choice === this.choice) {
        showError(new FieldError(this, "a file cannot be read"));
      }
    }
  }

  useBytes(texts) {
    const isOne = texts.length === 1;
    const data = JSON.stringify(texts);
    if (data.length <= MAX_SHOWN_VALUES) {
      this.kept = null;
      this.control.value = isOne ? texts[0] : data;
      this.note(this.howTo);
    } else {
      this.control.value = "";
      const found = isOne && this.input.shape !== null ? [] : [texts.length];
      this.kept = { shape: fittingShape(found, this.input.shape), data };
      this.note(`The bytes of ${isOne ? "the file" : `${texts.length} files`}. What is written here replaces them.`);
    }
    update();
  }

  /** Shows a picture when it is read, unless something else is chosen until then. */
  async read(reading, otherwise) {
    this.choice += 1;
    const choice = this.choice;
    try {
      const picture = await reading;
      if (choice === this.choice) {
        this.usePicture(picture);
      }
    } catch {
      if (choice === this.choice) {
        showError(new FieldError(this, otherwise));
      }
    }
  }

  /** Scales a picture to the declared shape, and fills in its values. */
  usePicture(picture) {
    const { channels, channels_first: isFirst, height, width } = this.input.picture;
    const rows = height ?? Math.min(picture.naturalHeight ?? picture.height, MAX_SIDE);
    const columns = width ?? Math.min(picture.naturalWidth ?? picture.width, MAX_SIDE);
    this.canvas.width = columns;
    this.canvas.height = rows;
    this.canvas.hidden = false;
    const context = this.canvas.getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    if (channels !== 4) {
      context.fillStyle = "#fff";
      context.fillRect(0, 0, columns, rows);
    }
    context.drawImage(picture, 0, 0, columns, rows);
    const image = context.getImageData(0, 0, columns, rows);
    const pixels = image.data;
    for (let start = 0; start < pixels.length; start += 4) {
      if (channels === 1) {
        const gray = Math.round(0.299 * pixels[start] + 0.587 * pixels[start + 1] + 0.114 * pixels[start + 2]);
        pixels.fill(gray, start, start + 3);
      }
      if (this.invert.checked) {
        for (let channel = start; channel < start + 3; channel++) {
          pixels[channel] = 255 - pixels[channel];
        }
      }
    }
    context.putImageData(image, 0, 0);

    const isFloat = /^(FP|BF)/.test(this.input.datatype);
    const scale = Number(this.range.value) / 255;
    const value = (pixel, channel) => {
      const scaled = pixels[pixel * 4 + channel] * scale;
      return isFloat ? Math.round(scaled * 10_000) / 10_000 : Math.round(scaled);
    };
    const pixelIndices = [...Array(rows * columns).keys()];
    const channelIndices = [...Array(channels).keys()];
    const values = isFirst
      ? channelIndices.flatMap((channel) => pixelIndices.map((pixel) => value(pixel, channel)))
      : pixelIndices.flatMap((pixel) => channelIndices.map((channel) => value(pixel, channel)));
    const inner = isFirst ? [channels, rows, columns] : [rows, columns, channels];
    const shape = this.input.shape.length === 4 ? [1, ...inner] : inner;
    this.picture = picture;
    if (values.length <= MAX_SHOWN_VALUES) {
      this.kept = null;
      this.control.value = nested(values, shape);
      this.note(this.howTo);
    } else {
      this.control.value = "";
      this.kept = { shape, data: `[${values.join(",")}]` };
      this.note(`${values.length} values of the picture, shape [${shape.join(", ")}]. What is written here replaces them.`);
    }
    update();
  }

  /** The input of the request as JSON; null if the field of an optional input is empty. */
  json() {
    let tensor = this.kept;
    if (tensor === null) {
      const text = this.control.value;
      const isText = this.input.datatype === "BYTES";
      if (text.trim() === "" && this.input.optional) {
        return null;
      }
      if (text.trim() === "" && !isText) {
        throw new FieldError(this, "a value is needed");
      }
      try {
        const read = this.input.is_bytes ? base64Of : isText ? stringsOf : numbersOf;
        tensor = read(text, this.input.shape, this.input.datatype);
      } catch (error) {
        throw new FieldError(this, error.message);
      }
    }
    const { name, datatype } = this.input;
    const head = [["name", name], ["shape", tensor.shape], ["datatype", datatype]];
    if (this.input.is_bytes) {
      head.push(["parameters", { content_type: "base64" }]);
    }
    const members = head.map(([key, value]) => `"${key}": ${JSON.stringify(value)}`);
    return `{${members.join(", ")}, "data": ${tensor.data}}`;
  }
}

/** The bytes of a file as base64. */
function base64OfFile(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

/** Writes values as nested lists. */
function nested(values, shape) {
  let lists = values;
  for (const size of shape.slice().reverse()) {
    const next = [];
    for (let start = 0; start < lists.length; start += size) {
      next.push(`[${lists.slice(start, start + size).join(",")}]`);
    }
    lists = next;
  }
  return lists[0];
}

const fields = [...form.querySelectorAll("[data-input]")].map((element) => new Field(element));

function fillIn(stored) {
  for (const field of fields) {
    field.clear();
    const value = stored.inputs[field.input.name];
    if (value?.text !== undefined) {
      field.setText(value.text);
    } else if (value?.picture !== undefined && field.input.picture !== null) {
      const picture = byId(value.picture);
      field.read(picture.decode().then(() => picture), "the picture of the example cannot be read");
    }
  }
  clearError();
  update();
}

