//! The order in which kinds are tried. The first that recognizes the model decides.

use std::path::Path;

use crate::candidate::Candidate;
use crate::{Recognized, TemplateError, catboost, lightgbm, sklearn, xgboost};

type Recognizer = fn(&Candidate) -> Result<Option<Recognized>, TemplateError>;

const RECOGNIZERS: [Recognizer; 4] = [xgboost::recognize, lightgbm::recognize, catboost::recognize, sklearn::recognize];

/// Returns what the file or folder at `path` is, by its content; `None` if no template knows it.
///
/// # Errors
/// It cannot be read, or is broken in a way that is certain.
pub fn recognize(path: &Path) -> Result<Option<Recognized>, TemplateError> {
    let candidate = Candidate::new(path)?;
    for recognizer in RECOGNIZERS {
        if let Some(found) = recognizer(&candidate)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
