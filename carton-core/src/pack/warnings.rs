//! Collects what packing warns of, and finds the mistakes of metadata.

use carton_format::metadata::Draft;
use pulldown_cmark::{Event, Parser, Tag};

use super::error::PackError;
use crate::Error;
use crate::packed::PackWarning;
use crate::runner::{PLATFORM, known_platforms};

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
    /// There is a mistake, and packing is strict.
    pub(super) fn add_mistakes(&mut self, mistakes: Vec<PackWarning>) -> Result<(), Error> {
        if self.is_strict && !mistakes.is_empty() {
            return Err(PackError::Mistakes { mistakes: mistakes.iter().map(ToString::to_string).collect() }.into());
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
            let mut draft = Draft::default();
            draft.required_platforms = vec![platform.to_owned()];
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
            let mut draft = Draft::default();
            draft.model_description = Some(text.to_owned());
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
