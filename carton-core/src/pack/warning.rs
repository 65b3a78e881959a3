//! What packing warns of.

use std::fmt;
use std::path::PathBuf;

use carton_tensor::SymbolicShape;
use carton_tensor::content::Content;
use pulldown_cmark::{Event, Parser, Tag};

use crate::Error;
use crate::digest::Sha256Digest;
use crate::metadata::{Draft, Metadata};
use crate::runner::{PLATFORM, known_platforms};
use crate::unknown_keys::UnknownKey;

/// Something about a packed model that may be unintended, that differs from what the model says of itself, or that keeps other readers from
/// opening the carton. The text form is one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackWarning {
    /// The metadata has a key that means nothing.
    UnknownKey(UnknownKey),
    /// A file of the model is a pointer of Git LFS, not the file itself.
    GitLfsPointer {
        /// The path in the model.
        path: PathBuf,
    },
    /// A description refers to a file that is not in the carton.
    MissingFile {
        /// What the description is of, such as `model_description`.
        place: String,
        /// The path in `misc/`.
        path: String,
    },
    /// One of the required platforms is no target triple that the compiler of this library knows. Platforms are compared as texts, so that
    /// the model runs on none by that name.
    UnknownPlatform {
        /// The text.
        platform: String,
        /// The most similar triple, if one is similar enough.
        nearest: Option<&'static str>,
    },
    /// An input is optional although its declaration does not say so.
    OptionalInput {
        /// The input.
        input: String,
        /// The first self-test or example that leaves it out.
        left_out_by: String,
    },
    /// The model returns an output whose shape is not the one that it declares. The carton declares a shape that holds.
    ShapeCorrected {
        /// The output.
        output: String,
        /// What the model declares.
        declared: SymbolicShape,
        /// What the carton declares.
        corrected: SymbolicShape,
        /// What the model returned, and for which sizes.
        found: String,
    },
    /// On an input of zeros, the model contradicts outputs that cannot be corrected, because the metadata declares them, or because more than
    /// their shapes differ.
    OutputDiffers {
        /// The difference.
        difference: String,
    },
    /// The carton has a file that holds many tensors, so that only readers that know such files can open it
    /// (spec/carton-format-extensions.md, "Tensor files").
    TensorFile,
    /// Options of the runner are lists or tables. Readers that know only numbers, strings, booleans and dates, such as the first
    /// implementation, cannot open the carton.
    NestedOptions {
        /// Their names, sorted.
        names: Vec<String>,
    },
    /// Some of the [known links](super::Pack::known_links) match no file that can be left out.
    Unmatched {
        /// Their digests, sorted.
        digests: Vec<Sha256Digest>,
    },
}

impl PackWarning {
    /// Whether this is a mistake in the metadata, which [`Pack::strict`](super::Pack::strict) refuses.
    #[must_use]
    pub fn is_mistake(&self) -> bool {
        matches!(self, Self::UnknownKey(_) | Self::MissingFile { .. } | Self::UnknownPlatform { .. })
    }

    /// What keeps other readers from opening a carton with this metadata.
    pub(crate) fn of_format(metadata: &Metadata, has_tensor_file: bool) -> Vec<Self> {
        let names = metadata.nested_options();
        let nested = (!names.is_empty()).then_some(Self::NestedOptions { names });
        has_tensor_file.then_some(Self::TensorFile).into_iter().chain(nested).collect()
    }
}

impl fmt::Display for PackWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey(key) => write!(f, "metadata, {key}"),
            Self::GitLfsPointer { path } => write!(
                f,
                "`{}` is {}, not the file itself: run `git lfs pull` in the model's repository, and pack it again",
                path.display(),
                Content::GitLfsPointer
            ),
            Self::MissingFile { place, path } => {
                write!(f, "`{place}` refers to `@misc/{}`, which is not in the carton", path.escape_debug())
            }
            Self::UnknownPlatform { platform, nearest } => {
                write!(f, "`required_platforms`: `{platform}` is no known target triple; ")?;
                match nearest {
                    Some(nearest) => write!(f, "did you mean `{nearest}`?"),
                    None => write!(f, "one is `{PLATFORM}`, this machine's"),
                }
            }
            Self::OptionalInput { input, left_out_by } => write!(
                f,
                "input `{}` is optional, because {} leaves it out: state it by `optional = true` or `optional = false` in its [[input]]",
                input.escape_debug(),
                left_out_by.escape_debug()
            ),
            Self::ShapeCorrected { output, declared, corrected, found } => write!(
                f,
                "output `{}`: the model declares shape {declared} and returns {found}; the carton declares {corrected}",
                output.escape_debug()
            ),
            Self::OutputDiffers { difference } => {
                write!(f, "for an input of zeros, the model returns something else than the carton declares: {difference}")
            }
            Self::TensorFile => f.write_str(
                "the carton's tensors are in one file, which only readers that know of it can read: others cannot open the carton",
            ),
            Self::NestedOptions { names } => {
                let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
                write!(
                    f,
                    "a list or table is stored as a runner option ({}): readers that know only numbers, strings, booleans and dates \
                     cannot open the carton",
                    names.join(", ")
                )
            }
            Self::Unmatched { digests } => {
                let files = if digests.len() == 1 { "file" } else { "files" };
                write!(f, "not among the packed files that can be left out: {} linked {files}", digests.len())?;
                digests.first().map_or(Ok(()), |first| write!(f, ", such as {first}"))
            }
        }
    }
}

/// The warnings of one packing. Each is logged when it is found.
pub(super) struct Warnings {
    is_strict: bool,
    found: Vec<PackWarning>,
}

impl Warnings {
    pub(super) fn new(is_strict: bool) -> Self {
        Self { is_strict, found: Vec::new() }
    }

    pub(super) fn add(&mut self, warning: PackWarning) {
        tracing::warn!(target: "carton::pack", "{warning}");
        self.found.push(warning);
    }

    pub(super) fn extend(&mut self, warnings: impl IntoIterator<Item = PackWarning>) {
        warnings.into_iter().for_each(|warning| self.add(warning));
    }

    /// Adds what is wrong with the metadata.
    ///
    /// # Errors
    /// [`Error::Mistakes`] if there is a mistake and packing is strict.
    pub(super) fn add_mistakes(&mut self, mistakes: Vec<PackWarning>) -> Result<(), Error> {
        if self.is_strict && !mistakes.is_empty() {
            return Err(Error::Mistakes { mistakes: mistakes.iter().map(ToString::to_string).collect() });
        }
        self.extend(mistakes);
        Ok(())
    }

    pub(super) fn into_found(self) -> Vec<PackWarning> {
        self.found
    }
}

/// The mistakes of the metadata that are visible without the model and the files: unknown keys and platforms.
pub(super) fn mistakes(draft: &Draft) -> Vec<PackWarning> {
    let keys = draft.unknown_keys.iter().cloned().map(PackWarning::UnknownKey);
    let is_unknown =
        |platform: &&String| platform.as_str() != PLATFORM && !known_platforms().any(|known| known == *platform);
    let platforms = draft.required_platforms.iter().filter(is_unknown);
    let platforms = platforms.map(|platform| PackWarning::UnknownPlatform {
        platform: platform.clone(),
        nearest: nearest_platform(platform),
    });
    keys.chain(platforms).collect()
}

/// Returns the known triple that was probably meant: the only one that has all parts of the text in this order, as
/// `x86_64-unknown-linux-gnu` has those of `x86_64-linux-gnu`, or else one that differs by a letter.
fn nearest_platform(platform: &str) -> Option<&'static str> {
    const ALIKE: f64 = 0.97;
    // The text is not validated yet, and comparing costs the product of the lengths.
    if platform.len() > 100 {
        return None;
    }
    let has_all_parts = |known: &&str| {
        let mut parts = known.split('-');
        platform.split('-').all(|part| parts.any(|known| known == part))
    };
    let mut longer = known_platforms().filter(has_all_parts);
    if let (Some(only), None) = (longer.next(), longer.next()) {
        return Some(only);
    }
    let alike = known_platforms().map(|known| (strsim::jaro_winkler(platform, known), known));
    let alike = alike.filter(|(how, _)| *how > ALIKE).max_by(|(one, _), (other, _)| one.total_cmp(other));
    alike.map(|(_, known)| known)
}

/// The references of descriptions to files of `misc/` that are not there.
pub(super) fn missing_files(draft: &Draft, has_file: impl Fn(&str) -> bool) -> Vec<PackWarning> {
    let mut missing = Vec::new();
    for (place, text) in descriptions(draft) {
        for path in misc_paths(text).filter(|path| !has_file(path)) {
            let warning = PackWarning::MissingFile { place: place.clone(), path };
            if missing.len() < MAX_MISSING && !missing.contains(&warning) {
                missing.push(warning);
            }
        }
    }
    missing
}

/// How many missing files are listed.
const MAX_MISSING: usize = 50;

/// The texts of the metadata that are Markdown, each with the key that it is the value of.
fn descriptions(draft: &Draft) -> impl Iterator<Item = (String, &str)> {
    let model = draft.model_description.iter().map(|text| ("model_description".to_owned(), text.as_str()));
    let specs = [("input", &draft.inputs), ("output", &draft.outputs)].into_iter().flat_map(|(list, specs)| {
        let described = specs.iter().flatten().enumerate();
        described.filter_map(move |(index, spec)| Some((format!("{list}[{index}]"), spec.description.as_deref()?)))
    });
    let tests = draft.self_tests.iter().enumerate();
    let tests = tests.filter_map(|(index, test)| Some((format!("self_test[{index}]"), test.description.as_deref()?)));
    let examples = draft.examples.iter().enumerate();
    let examples =
        examples.filter_map(|(index, example)| Some((format!("example[{index}]"), example.description.as_deref()?)));
    model.chain(specs.chain(tests).chain(examples).map(|(place, text)| (format!("{place}.description"), text)))
}

/// The files of `misc/` that pictures and links of a Markdown text refer to, as `@misc/PATH`.
fn misc_paths(markdown: &str) -> impl Iterator<Item = String> {
    let targets = Parser::new(markdown).filter_map(|event| match event {
        Event::Start(Tag::Image { dest_url, .. } | Tag::Link { dest_url, .. }) => Some(dest_url),
        _ => None,
    });
    targets.filter_map(|target| {
        let path = target.strip_prefix("@misc/")?;
        Some(percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn platforms_that_do_not_exist() {
        let check = |platform: &str, expected: Option<Option<&'static str>>| {
            let draft = Draft { required_platforms: vec![platform.to_owned()], ..Draft::default() };
            let found = mistakes(&draft);
            let expected = expected
                .map(|nearest| PackWarning::UnknownPlatform { platform: platform.to_owned(), nearest })
                .into_iter();
            assert_eq!(found, expected.collect::<Vec<_>>());
        };
        for known in [PLATFORM, "aarch64-apple-darwin", "x86_64-pc-windows-msvc", "riscv64gc-unknown-linux-gnu"] {
            check(known, None);
        }
        check("x86_64-linux-gnu", Some(Some("x86_64-unknown-linux-gnu")));
        check("aarch64-apple-darwn", Some(Some("aarch64-apple-darwin")));
        check("aarch64-linux", Some(None));
        check("pdp-11", Some(None));
    }

    #[test]
    fn files_that_descriptions_refer_to() {
        let check = |text: &str, expected: &[&str]| {
            let draft = Draft { model_description: Some(text.to_owned()), ..Draft::default() };
            let found = missing_files(&draft, |path| path == "cat.png" || path == "a b.png");
            let expected = expected.iter().map(|path| PackWarning::MissingFile {
                place: "model_description".to_owned(),
                path: (*path).to_owned(),
            });
            assert_eq!(found, expected.collect::<Vec<_>>(), "{text}");
        };
        check("![cat](@misc/cat.png) [cat](<@misc/a b.png>) ![](@misc/a%20b.png)", &[]);
        check("![dog](@misc/dog.png \"title\") and again ![dog](@misc/dog.png)", &["dog.png"]);
        check("# Title\n\n[data][1]\n\n[1]: @misc/sub/data.csv\n", &["sub/data.csv"]);
        check("| a |\n|---|\n| ![x](@misc/x.png) |\n", &["x.png"]);
        // Texts that show how a reference is written refer to nothing.
        check("Write `![x](@misc/x.png)`, or\n\n    ![y](@misc/y.png)\n\nor @misc/z.png.", &[]);
        check("![elsewhere](https://example.com/@misc/x.png) ![](misc/x.png)", &[]);
    }

    #[test]
    fn descriptions_of_everything_are_read() {
        let text = "[[input]]\nname = 'x'\ndtype = 'int8'\nshape = []\ndescription = '![](@misc/1)'\n\
                    [[output]]\nname = 'x'\ndtype = 'int8'\nshape = []\ndescription = '![](@misc/2)'\n\
                    [[self_test]]\ninputs = {}\ndescription = '![](@misc/3)'\n\
                    [[example]]\ndescription = '![](@misc/4)'\n";
        let missing = missing_files(&Draft::parse(text).unwrap(), |_| false);
        let texts: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let expected = ["input[0]", "output[0]", "self_test[0]", "example[0]"].into_iter().zip(1..);
        let expected = expected
            .map(|(place, n)| format!("`{place}.description` refers to `@misc/{n}`, which is not in the carton"));
        assert_eq!(texts, expected.collect::<Vec<_>>());
    }
}
