//! Arbitrary bytes as a README. If its front matter is accepted, its card is one that carton.toml can have, but for its license.

use carton_core::metadata::{Draft, Metadata};
use carton_core::model_card::{ModelCard, has_front_matter};

/// Checks these bytes. Returns whether they have a card.
pub fn check(bytes: &[u8]) -> bool {
    let found = ModelCard::of_readme(bytes);
    assert!(has_front_matter(bytes) || matches!(found, Ok(None)));
    let Ok(Some((mut card, problems))) = found else { return false };
    for problem in &problems {
        assert!(!problem.to_string().contains('\n'), "{problem}");
    }
    card.license = None;
    let mut draft = Draft::parse("[runner]\nrunner_name = 'a'\nrequired_framework_version = '*'").expect("it is valid");
    draft.card = card.clone();
    let written = draft.validate().expect("what is read can be written").to_toml();
    assert!(*Metadata::parse(&written).expect("it was written").card() == card, "{written}");
    true
}
