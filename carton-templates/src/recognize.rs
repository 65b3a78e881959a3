//! The order in which kinds are tried. The first that recognizes the model decides.

use std::path::Path;

use crate::candidate::Candidate;
use crate::{
    Recognized, TemplateError, catboost, hugging_face, keras, lightgbm, mlflow, not_run, sklearn, spacy, tensorflow,
    torch, torchserve, xgboost,
};

type Recognizer = fn(&Candidate) -> Result<Option<Recognized>, TemplateError>;

const RECOGNIZERS: [Recognizer; 12] = [
    xgboost::recognize,
    lightgbm::recognize,
    catboost::recognize,
    // The folder of an MLflow model may hold a model of any other kind.
    mlflow::recognize,
    keras::recognize,
    torch::recognize,
    torchserve::recognize,
    hugging_face::recognize,
    tensorflow::recognize,
    spacy::recognize,
    sklearn::recognize,
    not_run::recognize,
];

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
