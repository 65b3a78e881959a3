//! What both formats say in words.

use carton_core::metadata::TensorSpec;
use carton_core::model_card::EvaluationResult;
use carton_core::package::Info;
use carton_core::trust::SigningStatus;

/// What each document says of itself.
pub(crate) const NOTICE: &str = "This document describes a carton: what its author states about the model, and what its files are. \
    It certifies nothing. Statements of the author (data, metrics, uses, limits, energy, base models, licenses) are repeated as they are and were \
    not checked; hashes are those that the carton's MANIFEST states; self-tests are listed and were not run for it; what is not known is left \
    out.";

/// What the hash of a carton is of.
pub(crate) const HASH: &str = "The hash of the carton: the SHA-256 of its MANIFEST, which has that of each file.";

/// What several hashes of a package mean.
pub(crate) const ANY_OF: &str = "One of these, by which file of the package is installed.";

/// The name of the model, or what stands for it.
pub(crate) fn model_name(info: &Info) -> String {
    match (&info.model_name, &info.manifest_sha256) {
        (Some(name), _) => name.clone(),
        (None, Some(hash)) => format!("unnamed carton sha256:{hash}"),
        (None, None) => "unnamed model".to_owned(),
    }
}

/// The license of the model, as its author states it: in carton.toml, or else in the README.
pub(crate) fn license(info: &Info) -> Option<&str> {
    info.license.as_deref().or(info.card.license.as_deref()).filter(|license| !license.trim().is_empty())
}

/// What an input or output is: `float32 ["batch", 64]`.
pub(crate) fn tensor(spec: &TensorSpec) -> String {
    format!("{} {}", spec.dtype, spec.shape)
}

/// What a metric was measured on: `ylecun/mnist test`.
pub(crate) fn measured_on(result: &EvaluationResult) -> String {
    let parts = [&result.dataset, &result.config, &result.split];
    parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// What is known of who signed the carton: the status, and the signer with the word for how far that is known.
pub(crate) struct Signing {
    pub(crate) status: &'static str,
    /// `signer`, or `claimed-signer` where anyone can have written it.
    pub(crate) signer: Option<(&'static str, String)>,
}

/// `None` if nobody looked for a signature.
pub(crate) fn signing(info: &Info) -> Option<Signing> {
    let status = info.signing.as_ref()?;
    let word = if status.is_trusted() { "signer" } else { "claimed-signer" };
    Some(Signing {
        status: match status {
            SigningStatus::Unsigned { .. } => "unsigned",
            SigningStatus::Trusted { .. } => "trusted",
            SigningStatus::Untrusted { is_broken: true, .. } => "broken",
            _ => "untrusted",
        },
        signer: status.signer().map(|signer| (word, signer)),
    })
}

/// Whether the stated energy was used for fine-tuning, in the words that the Hub's documentation has. Everything else is training.
pub(crate) fn is_fine_tuning(training_type: Option<&str>) -> bool {
    let words = training_type.map(|text| text.trim().to_ascii_lowercase().replace(['-', ' ', '_'], ""));
    words.as_deref() == Some("finetuning")
}
