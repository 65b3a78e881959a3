//! The card of a carton: its parts, read once, and the sections that every form of the page has.

use std::collections::BTreeMap;

use carton_core::Package;
use carton_core::metadata::{Reference, TensorSpec};
use carton_core::package::{ExampleValue, Info};
use carton_core::trust::SigningStatus;
use maud::{Markup, html};

use crate::budget::Budget;
use crate::document::{Kind, document};
use crate::form::{self, Stored, StoredValue};
use crate::markdown::{self, external};
use crate::media::Media;
use crate::model_card;
use crate::read::Reader;
use crate::self_tests::{self, SelfTest};
use crate::served::{self, ServedModel};
use crate::{tensor, text};

/// Pictures and sounds of a page have this many bytes at most, together.
const MAX_MEDIA_BYTES: u64 = 8 << 20;
/// The most examples that are shown, and the most inputs and outputs of one.
const MAX_EXAMPLES: usize = 16;
const MAX_VALUES: usize = 16;
/// The most self-tests that are listed.
const MAX_SELF_TESTS: usize = 200;
/// The most files that are listed.
const MAX_FILES: usize = 200;
/// The most characters of a name, and of a description of anything but the model.
const MAX_NAME: usize = 200;
const MAX_TEXT: usize = 4_000;
/// The largest tensor that fills in the form, and the size of all of them as JSON.
const MAX_STORED_TENSOR: u64 = 128 << 10;
const MAX_STORED: u64 = 2 << 20;

/// The card of a carton. It holds everything that its pages show, and no longer needs the carton.
#[derive(Clone, Debug)]
pub struct Card {
    info: Info,
    description: Option<Markup>,
    examples: Vec<Example>,
    self_tests: Vec<SelfTest>,
    pub(crate) stored: Vec<Stored>,
}

#[derive(Clone, Debug)]
struct Example {
    label: String,
    description: Option<String>,
    inputs: Vec<(String, Markup)>,
    outputs: Vec<(String, Markup)>,
}

impl Card {
    /// Reads what the card shows: pictures of the description, values of examples, and inputs of self-tests, all up to limits. Blocks while it
    /// reads.
    ///
    /// What cannot be read, is too large or is not in the carton itself is named on the page, with the reason.
    #[must_use]
    pub fn new(package: &Package) -> Self {
        // A card of a README that cannot be read is left out, with a warning.
        let info = package.read_info().unwrap_or_else(|_| package.info());
        let mut reader = Reader::new(package, &info);
        let mut room = Budget::new(MAX_MEDIA_BYTES);
        let description = info.model_description.as_deref().filter(|text| !text.trim().is_empty());
        let description = description.map(|markdown| {
            markdown::render(markdown, &mut |path| {
                let bytes = reader.misc_within(path, &room)?;
                let media @ Media::Picture(_) = Media::of(&bytes)? else { return None };
                room.take(bytes.len() as u64).then(|| media.data_url(&bytes))
            })
        });

        let mut stored = Vec::new();
        let mut room_for_stored = Budget::new(MAX_STORED);
        let mut n_pictures = 0;
        let mut examples = Vec::new();
        for example in package.examples().take(MAX_EXAMPLES) {
            let declared = example.declared();
            let mut shown = Shown { reader: &mut reader, room: &mut room, n_pictures: &mut n_pictures };
            let mut inputs = BTreeMap::new();
            let mut read = |references: &BTreeMap<String, Reference>, is_input: bool| {
                let mut values = Vec::new();
                for (name, reference) in references.iter().take(MAX_VALUES) {
                    let (markup, value) = shown.value(name, reference);
                    values.push((name.clone(), markup));
                    if let Some(value) = value.filter(|_| is_input) {
                        inputs.insert(name.clone(), value);
                    }
                }
                values
            };
            let values = (read(&declared.inputs, true), read(&declared.sample_out, false));
            let label = example.label();
            if inputs.len() == declared.inputs.len() {
                push_stored(&mut stored, &mut room_for_stored, format!("Example: {label}"), inputs);
            }
            let description = declared.description.clone();
            examples.push(Example { label, description, inputs: values.0, outputs: values.1 });
        }

        let mut self_tests = Vec::new();
        for test in package.self_tests().take(MAX_SELF_TESTS) {
            let (label, declared) = (test.label(), test.declared());
            let read = |(name, tensor): (&String, &String)| {
                let tensor = reader.tensor_within(tensor, MAX_STORED_TENSOR)?;
                Some((name.clone(), StoredValue::Text(form::json_text(&tensor)?)))
            };
            if let Some(inputs) = declared.inputs.iter().map(read).collect() {
                push_stored(&mut stored, &mut room_for_stored, format!("Self-test: {label}"), inputs);
            }
            self_tests.push(SelfTest { label, description: declared.description.clone() });
        }
        Self { description, examples, self_tests, stored, info }
    }

    /// Makes one HTML file of the card. It has no script and refers to no other file: pictures are in it.
    #[must_use]
    pub fn standalone_html(&self) -> String {
        let body = html! {
            header.top { (self.heading(html! {})) }
            main {
                (self.description())
                (model_card::section(&self.info.card))
                (self.signature())
                (self.examples())
                (self_tests::section(&self.self_tests, self.info.self_tests.len(), None))
                (self.facts())
            }
        };
        document(self.name(), Kind::Standalone, &body)
    }

    /// Makes the page of a model that a server serves: the card with the results of the self-tests, and the form to try the model.
    #[must_use]
    pub fn page(&self, model: &ServedModel<'_>) -> String {
        let report = model.self_tests.map(self_tests::results);
        let body = html! {
            a.skip href="#content" { "Skip to the content" }
            header.top {
                nav aria-label="Breadcrumb" { a href="/" { "Models" } }
                (self.heading(served::badges(model)))
            }
            main id="content" {
                (served::problem(model))
                (self.description())
                (model_card::section(&self.info.card))
                (self.signature())
                (form::form(model, self.info(), &self.stored))
                (self.examples())
                (self_tests::section(&self.self_tests, self.info.self_tests.len(), report.as_deref()))
                (self.facts())
            }
        };
        document(&format!("{} · {}", self.name(), model.name), Kind::Interactive, &body)
    }

    /// What the carton says about itself.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    fn name(&self) -> &str {
        self.info.model_name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or("Unnamed model")
    }

    fn heading(&self, badges: Markup) -> Markup {
        html! {
            h1 { (text::cut(self.name(), MAX_NAME)) }
            @if let Some(short) = &self.info.short_description { p.lead { (text::cut(short, MAX_TEXT)) } }
            (badges)
        }
    }

    fn description(&self) -> Markup {
        html! {
            @if let Some(description) = &self.description {
                section aria-labelledby="description" {
                    h2 id="description" { "Description" }
                    div.prose { (description) }
                }
            }
        }
    }

    fn signature(&self) -> Markup {
        let (inputs, outputs) = (&self.info.inputs, &self.info.outputs);
        html! {
            section aria-labelledby="signature" {
                h2 id="signature" { "Inputs and outputs" }
                @if inputs.is_empty() && outputs.is_empty() {
                    p.missing { "The carton declares no inputs and outputs." }
                }
                (tensors("Inputs", inputs))
                (tensors("Outputs", outputs))
            }
        }
    }

    fn examples(&self) -> Markup {
        let n_more = self.info.examples.len().saturating_sub(self.examples.len());
        html! {
            @if !self.examples.is_empty() {
                section aria-labelledby="examples" {
                    h2 id="examples" { "Examples" }
                    @for example in &self.examples {
                        article.example {
                            h3 { (text::cut(&example.label, MAX_NAME)) }
                            @if let Some(text) = &example.description { p { (text::cut(text, MAX_TEXT)) } }
                            div.flow {
                                (values("Inputs", &example.inputs))
                                @if !example.outputs.is_empty() { (values("Outputs", &example.outputs)) }
                            }
                        }
                    }
                    @if n_more > 0 { p.missing { "and " (n_more) " more examples" } }
                }
            }
        }
    }

    fn facts(&self) -> Markup {
        let info = &self.info;
        let runner = &info.runner;
        html! {
            section aria-labelledby="facts" {
                h2 id="facts" { "About the carton" }
                dl.facts {
                    dt { "License" }
                    dd { @if let Some(license) = &info.license { (text::cut(license, MAX_TEXT)) } @else { "not stated" } }
                    @for (label, url) in [("Repository", &info.repository), ("Homepage", &info.homepage)] {
                        @if let Some(url) = url { dt { (label) } dd { (external(url, text::cut(url, MAX_TEXT))) } }
                    }
                    dt { "Runner" } dd { (runner.runner_name) " " (runner.required_framework_version) }
                    @if !info.required_platforms.is_empty() {
                        dt { "Platforms" } dd { (info.required_platforms.join(", ")) }
                    }
                    @if !info.sandbox.is_empty() { dt { "Asks for" } dd { (info.sandbox) } }
                    // Anyone can write whom another signature names as its signer.
                    @if let Some(signer) = info.signing.as_ref().filter(|status| status.is_trusted()).and_then(SigningStatus::signer) {
                        dt { "Signed by" } dd { (signer) }
                    }
                    dt { "SHA-256 of the manifest" }
                    dd { @if let Some(hash) = &info.manifest_sha256 { code { (hash) } } @else { "not in a carton" } }
                    @for warning in info.warnings.iter().take(MAX_VALUES) {
                        dt { "Warning" } dd { (text::cut(warning, MAX_TEXT)) }
                    }
                }
                (self.files())
            }
        }
    }

    fn files(&self) -> Markup {
        let files = &self.info.files;
        let in_all = files.iter().filter(|file| file.symlink.is_none()).filter_map(|file| file.size);
        let in_all = text::byte_size(in_all.fold(0_u64, u64::saturating_add));
        html! {
            details {
                summary { (files.len()) @if files.len() == 1 { " file, " } @else { " files, " } (in_all) }
                div.scroll tabindex="0" role="region" aria-label="Files" {
                    table {
                        thead { tr { th scope="col" { "File" } th scope="col" { "Size" } } }
                        tbody {
                            @for file in files.iter().take(MAX_FILES) {
                                tr {
                                    th scope="row" { code { (text::cut(&file.path, MAX_TEXT)) } }
                                    td.number {
                                        @match (&file.symlink, file.size) {
                                            (Some(target), _) => { "→ " (text::cut(target, MAX_TEXT)) },
                                            (None, Some(size)) => (text::byte_size(size)),
                                            (None, None) => "unknown",
                                        }
                                        @if file.linked { ", linked" }
                                    }
                                }
                            }
                        }
                    }
                }
                @if files.len() > MAX_FILES { p.missing { "and " (files.len() - MAX_FILES) " more" } }
            }
        }
    }
}

/// Keeps the inputs of an example or self-test for the form, if there is room.
fn push_stored(stored: &mut Vec<Stored>, room: &mut Budget, label: String, inputs: BTreeMap<String, StoredValue>) {
    let size: usize = inputs.values().map(StoredValue::len).sum();
    if !inputs.is_empty() && room.take(size as u64) {
        stored.push(Stored { label: text::cut(&label, MAX_NAME).into_owned(), inputs });
    }
}

/// What is needed to show the values of examples.
struct Shown<'a, 'p> {
    reader: &'a mut Reader<'p>,
    room: &'a mut Budget,
    n_pictures: &'a mut usize,
}

impl Shown<'_, '_> {
    /// Shows a value, and returns what the form can make of it.
    fn value(&mut self, name: &str, reference: &Reference) -> (Markup, Option<StoredValue>) {
        let file = match reference {
            Reference::Misc(path) => format!("misc/{path}"),
            Reference::TensorData(_) => String::new(),
        };
        let not_shown = |why: &str| html! { p.missing { @if !file.is_empty() { code { (file) } ": " } (why) } };
        match self.reader.value(reference) {
            Err(why) => (not_shown(&why), None),
            Ok(ExampleValue::Tensor(tensor)) => {
                let is_small =
                    tensor.as_numeric().is_none_or(|tensor| tensor.bytes().len() as u64 <= MAX_STORED_TENSOR);
                let stored = if is_small { form::json_text(&tensor).map(StoredValue::Text) } else { None };
                (tensor::view(name, &tensor, self.room), stored)
            }
            Ok(ExampleValue::Misc(bytes)) => match Media::of(&bytes) {
                Some(_) if !self.room.take(bytes.len() as u64) => {
                    (not_shown(&format!("{}, too large to show", text::byte_size(bytes.len() as u64))), None)
                }
                Some(media @ Media::Picture(_)) => {
                    *self.n_pictures += 1;
                    let id = format!("picture-{}", self.n_pictures);
                    let markup =
                        html! { img.picture id=(id) alt=(format!("{name}: {file}")) src=(media.data_url(&bytes)); };
                    (markup, Some(StoredValue::Picture(id)))
                }
                Some(media @ Media::Sound(_)) => {
                    let label = format!("{name}: {file}");
                    (html! { audio controls preload="none" aria-label=(label) src=(media.data_url(&bytes)) {} }, None)
                }
                None => match plain_text(&bytes) {
                    Some(text) => {
                        (html! { pre.text tabindex="0" { (text::cut(text, MAX_TEXT)) } p.kind { (file) } }, None)
                    }
                    None => (not_shown(&text::byte_size(bytes.len() as u64)), None),
                },
            },
            Ok(_) => (not_shown("not shown"), None),
        }
    }
}

/// The bytes as text, if that is what they are. Markup is not shown as text: its author meant it to be seen otherwise.
fn plain_text(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).ok()?;
    let is_markup = text.trim_start().starts_with('<');
    let is_binary = text.chars().any(|character| character.is_control() && !matches!(character, '\n' | '\r' | '\t'));
    (!is_markup && !is_binary && !text.is_empty()).then_some(text)
}

fn values(title: &str, values: &[(String, Markup)]) -> Markup {
    html! {
        div.values {
            h4 { (title) }
            @for (name, value) in values {
                div.named { p.name { code { (text::cut(name, MAX_NAME)) } } (value) }
            }
        }
    }
}

fn tensors(title: &str, specs: &[TensorSpec]) -> Markup {
    html! {
        @if !specs.is_empty() {
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table {
                    caption { (title) }
                    thead {
                        tr {
                            th scope="col" { "Name" } th scope="col" { "Type" }
                            th scope="col" { "Shape" } th scope="col" { "Description" }
                        }
                    }
                    tbody {
                        @for spec in specs {
                            tr {
                                th.wide scope="row" { code { (text::cut(&spec.name, MAX_NAME)) } }
                                td.short { code { (spec.dtype.name()) } }
                                td.wide { code { (text::declared_shape(&spec.shape)) } }
                                td {
                                    @if spec.is_optional() { "Optional. " }
                                    @if let Some(text) = &spec.description { (text::cut(text, MAX_TEXT)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
