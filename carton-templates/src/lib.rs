//! Recognizes the model files of frameworks by their content, and writes the Python model that runs each: a folder with the file, a module
//! `main.py` and the packages that it needs in `requirements.txt`. A user can read, change and keep that folder.
//!
//! Nothing of a model is executed here, and its files are not changed. Of a file only what decides is read: its first and last bytes, or the
//! names and small entries of an archive.
//!
//! # Modules
//! - `error`: what can go wrong.
//! - `candidate`: a file or folder that may be a model, and the parts of it that recognizers look at.
//! - `template`: the Python model of one kind of files, and how it is written.
//! - `text`, `version`: texts of model files in messages, names and requirements; versions of packages that files state.
//! - `xgboost`: models of XGBoost.
//! - `pickle`, `skops`: what such files name, without loading them.
//! - `aotinductor`: packages of AOTInductor, which are in archives of PyTorch.
//! - `lightgbm`, `catboost`, `sklearn`, `mlflow`, `keras`, `torch`, `torchserve`, `hugging_face`, `tensorflow`, `spacy`: as `xgboost`, each kind of files has a
//!   module with one function, `recognize`, and its Python model in `templates/`.
//! - `not_run`: models that are known, and for which there is no template.
//! - `recognize`: the order in which kinds are tried.

mod aotinductor;
mod candidate;
mod catboost;
mod error;
mod hugging_face;
mod keras;
mod lightgbm;
mod mlflow;
mod not_run;
mod pickle;
mod recognize;
mod sklearn;
mod skops;
mod spacy;
mod template;
mod tensorflow;
#[cfg(test)]
mod tests;
mod text;
mod torch;
mod torchserve;
mod version;
mod xgboost;

pub use error::TemplateError;
pub use recognize::recognize;
pub use template::{Recognized, Template};
