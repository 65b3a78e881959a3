//! What a server knows about a model beyond its carton, and how the pages show it.

use carton_core::self_test::SelfTestReport;
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::document::{Kind, document};

/// The characters of a path's segment that are not written as `%XX`.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Whether a model answers calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State<'a> {
    /// The model answers calls.
    #[default]
    Ready,
    /// The model is being loaded.
    Loading,
    /// The model answers no calls, for this reason.
    NotReady(&'a str),
}

/// A model of a server, for its page and for the list of models. Setters add to the name.
#[derive(Clone, Debug)]
pub struct ServedModel<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: Option<&'a str>,
    pub(crate) state: State<'a>,
    pub(crate) short_description: Option<&'a str>,
    pub(crate) self_tests: Option<&'a SelfTestReport>,
    pub(crate) takes_token: bool,
    pub(crate) page_path: String,
    pub(crate) infer_path: String,
}

impl<'a> ServedModel<'a> {
    /// A model that is ready. Its page is `/models/NAME`, and it is called at `/v2/models/NAME/infer`.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        let segment = utf8_percent_encode(name, SEGMENT);
        Self {
            name,
            version: None,
            state: State::Ready,
            short_description: None,
            self_tests: None,
            takes_token: false,
            page_path: format!("/models/{segment}"),
            infer_path: format!("/v2/models/{segment}/infer"),
        }
    }

    /// Sets the version that is shown.
    #[must_use]
    pub fn version(mut self, version: &'a str) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets whether the model answers calls.
    #[must_use]
    pub fn state(mut self, state: State<'a>) -> Self {
        self.state = state;
        self
    }

    /// Sets the line about the model in the list of models.
    #[must_use]
    pub fn short_description(mut self, line: &'a str) -> Self {
        self.short_description = Some(line);
        self
    }

    /// Sets the last results of the self-tests.
    #[must_use]
    pub fn self_tests(mut self, report: &'a SelfTestReport) -> Self {
        self.self_tests = Some(report);
        self
    }

    /// Whether calls need a bearer token. The form then has a field for it.
    #[must_use]
    pub fn takes_token(mut self, takes_token: bool) -> Self {
        self.takes_token = takes_token;
        self
    }

    /// Sets the path of the model's page, percent-encoded.
    #[must_use]
    pub fn page_path(mut self, path: impl Into<String>) -> Self {
        self.page_path = path.into();
        self
    }

    /// Sets the path that the form sends calls to, percent-encoded.
    #[must_use]
    pub fn infer_path(mut self, path: impl Into<String>) -> Self {
        self.infer_path = path.into();
        self
    }
}

/// Makes the page that lists the models of a server.
#[must_use]
pub fn index_page<'a>(models: impl IntoIterator<Item = &'a ServedModel<'a>>) -> String {
    let models: Vec<_> = models.into_iter().collect();
    let body = html! {
        header.top { h1 { "Models" } }
        main {
            @if models.is_empty() { p.missing { "This server has no models." } }
            ul.models {
                @for model in models {
                    li {
                        h2 { a href=(model.page_path) { (model.name) } }
                        (badges(model))
                        @if let Some(line) = model.short_description { p { (line) } }
                        (problem(model))
                    }
                }
            }
        }
    };
    document("Models", Kind::Served, &body)
}

/// The version and the state.
pub(crate) fn badges(model: &ServedModel<'_>) -> Markup {
    let (class, state) = match model.state {
        State::Ready => ("good", "Ready"),
        State::Loading => ("wait", "Loading"),
        State::NotReady(_) => ("bad", "Not ready"),
    };
    html! {
        p.badges {
            span.badge.(class) { (state) }
            @if let Some(version) = model.version { span.badge { "Version " (version) } }
        }
    }
}

/// Why the model is not ready.
pub(crate) fn problem(model: &ServedModel<'_>) -> Markup {
    html! { @if let State::NotReady(reason) = model.state { p.problem { (reason) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let name = "a/b\"><script>?#é";
        let page = index_page([&ServedModel::new(name).state(State::NotReady("<b>\"no")).short_description("<i>")]);
        assert!(page.contains("href=\"/models/a%2Fb%22%3E%3Cscript%3E%3F%23%C3%A9\""), "{page}");
        assert!(page.contains("a/b&quot;&gt;&lt;script&gt;?#é") && page.contains("&lt;b&gt;&quot;no"), "{page}");
        assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains("<i>"), "{page}");
    }
}
