// Finds the words in texts of any language, by the rules of Unicode and the dictionaries that Node has in its ICU.

export const maxConcurrency = 16;

export const inputs = [{ name: "text", dtype: "string", shape: ["n"] }];
export const outputs = [
  { name: "n_words", dtype: "int64", shape: ["n"] },
  { name: "longest", dtype: "string", shape: ["n"] },
];

let segmenter;

// `model.locale` is an option such as "ja" or "de-CH". Without it the rules are those that fit most languages.
export function load({ locale }) {
  segmenter = new Intl.Segmenter(locale, { granularity: "word" });
}

const wordsIn = (text) => [...segmenter.segment(text)].filter((part) => part.isWordLike).map((part) => part.segment);

export function infer({ text }) {
  const { shape } = text;
  const words = text.data.map(wordsIn);
  const longest = words.map((list) => list.reduce((best, word) => (word.length > best.length ? word : best), ""));
  return {
    n_words: { dtype: "int64", shape, data: BigInt64Array.from(words, (list) => BigInt(list.length)) },
    longest: { dtype: "string", shape, data: longest },
  };
}

// Each text is an item of the stream.
export async function* inferStream({ text }) {
  for (const one of text.data) yield infer({ text: { shape: [1], data: [one] } });
}
