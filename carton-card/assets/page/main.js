// The form of a model's page: reads the fields, sends the call by the Open Inference Protocol, and shows the answer.
//
// All text from the model, the server and the fields gets into the page as text, never as HTML. Elements of tensors stay text on their way
// into a request, because JavaScript rounds integers of 64 bits.

"use strict";

const MAX_BARS = 100;
const MAX_CELLS = 1000;
const MAX_SIDE = 1024;
// Longer values are kept, not shown: a text area with a million numbers stops the browser.
const MAX_SHOWN_VALUES = 20_000;
const MAX_SNIPPET = 4_000;

const form = document.getElementById("form");
const model = JSON.parse(form.dataset.model);
const byId = (id) => document.getElementById(id);

/** A mistake in a field, shown beside it. */
class FieldError extends Error {
  constructor(field, message) {
    super(`${field.input.name}: ${message}`);
    this.control = field.control;
  }
}

