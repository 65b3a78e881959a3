//! Self-tests and their results, as cards show them.

use carton_core::self_test::{SelfTestOutcome, SelfTestReport};
use maud::{Markup, html};

use crate::text;

/// A self-test of a carton.
#[derive(Clone, Debug)]
pub(crate) struct SelfTest {
    pub(crate) label: String,
    pub(crate) description: Option<String>,
}

/// The result of a self-test, as the page shows it.
#[derive(Clone, Debug)]
pub(crate) struct TestResult {
    name: String,
    class: &'static str,
    outcome: &'static str,
    milliseconds: f64,
    problems: Vec<String>,
}

pub(crate) fn results(report: &SelfTestReport) -> Vec<TestResult> {
    let result = |test: &carton_core::self_test::SelfTestResult| {
        let (class, outcome) = match test.outcome {
            SelfTestOutcome::Passed => ("good", "Passed"),
            SelfTestOutcome::Ran => ("wait", "Ran, nothing to compare"),
            SelfTestOutcome::Failed => ("bad", "Failed"),
            _ => ("wait", "Unknown"),
        };
        TestResult {
            name: test.name.clone(),
            class,
            outcome,
            milliseconds: test.seconds * 1000.0,
            problems: test.problems(),
        }
    };
    report.self_tests.iter().map(result).collect()
}

/// Lists the self-tests, with their results if there are any. `n_tests` is the number of all, of which `tests` may be the first.
pub(crate) fn section(tests: &[SelfTest], n_tests: usize, results: Option<&[TestResult]>) -> Markup {
    html! {
        section aria-labelledby="self-tests" {
            h2 id="self-tests" { "Self-tests" }
            @if tests.is_empty() {
                p.missing { "The carton has no self-tests." }
            } @else {
                @if results.is_none() { p.missing { "No results: the self-tests were not run for this page." } }
                ul.tests { @for (index, test) in tests.iter().enumerate() { (self_test(test, results.and_then(|results| results.get(index)))) } }
                @if n_tests > tests.len() { p.missing { "and " (n_tests - tests.len()) " more" } }
            }
        }
    }
}

fn self_test(test: &SelfTest, result: Option<&TestResult>) -> Markup {
    const MAX_TEXT: usize = 2_000;
    // A report of another carton would have other names.
    let result = result.filter(|result| result.name == test.label);
    html! {
        li {
            p {
                strong { (text::cut(&test.label, MAX_TEXT)) }
                @if let Some(TestResult { class, outcome, milliseconds, .. }) = result {
                    " " span.badge.(class) { (outcome) } " " span.missing { (text::number(*milliseconds)) " ms" }
                }
            }
            @if let Some(text) = &test.description { p { (text::cut(text, MAX_TEXT)) } }
            @if let Some(result) = result {
                @for problem in result.problems.iter().take(20) { p.problem { (text::cut(problem, MAX_TEXT)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_beside_their_tests() {
        let tests = [
            SelfTest { label: "<a>".to_owned(), description: None },
            SelfTest { label: "b".to_owned(), description: None },
        ];
        let result = |name: &str| TestResult {
            name: name.to_owned(),
            class: "bad",
            outcome: "Failed",
            milliseconds: 1.5,
            problems: vec!["<script>".to_owned()],
        };
        let page = section(&tests, 3, Some(&[result("<a>"), result("another")])).0;
        assert!(page.contains("&lt;a&gt;</strong> <span class=\"badge bad\">Failed</span>"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 1, "{page}");
        assert!(page.contains("and 1 more"), "{page}");
        assert!(section(&tests, 2, None).0.contains("No results"));
    }
}
