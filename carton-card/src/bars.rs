//! A table of numbers with a bar beside each. The bars are drawn with attributes of SVG, because the content security policy allows no
//! style of an element.

use maud::{Markup, html};

use crate::text;

/// Shows numbers in order, labelled by their index.
pub(crate) fn bars(values: &[f64]) -> Markup {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(0.0_f64, f64::min);
    let high = finite().fold(0.0_f64, f64::max);
    let range = if high > low { high - low } else { 1.0 };
    let percent = |value: f64| (value - low) / range * 100.0;
    html! {
        table.bars {
            thead { tr { th scope="col" { "Index" } th scope="col" { "Value" } td {} } }
            tbody {
                @for (index, &value) in values.iter().enumerate() {
                    tr {
                        th scope="row" { (index) }
                        td.number { (text::number(value)) }
                        td.bar {
                            @if value.is_finite() {
                                svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                                    rect x=(coordinate(percent(value.min(0.0)))) y="0" height="10"
                                        width=(coordinate(percent(value.max(0.0)) - percent(value.min(0.0)))) {}
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn coordinate(value: f64) -> String {
    format!("{value:.2}")
}
