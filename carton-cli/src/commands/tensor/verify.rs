//! `carton tensor verify`: the rules of the format, and the digests in it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use carton_core::CancelToken;
use carton_tensor::files::{ElementType, TensorFile, TensorFileFormat};
use carton_tensor::ztensor::{self, Checks, Encoding, Format, QuantizedGroup, QuantizedGroupError, ZTensorError};
use serde::Serialize;

use super::{Context, checkpoint};
use crate::args::TensorVerifyArgs;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::interrupt;
use crate::output::{Role, byte_size, count, one_line};
use crate::progress::ProgressDisplay;
use crate::tensor_files::{Source, TensorFileError};

/// What `--json` prints.
#[derive(Default, Serialize)]
struct Report {
    passed: bool,
    tensors: usize,
    bytes: u64,
    /// How many digests were found right.
    digests: usize,
    /// Each thing that is wrong, in one line.
    problems: Vec<String>,
    /// What the version that a zTensor file states forbids, and what can be read nevertheless: each rule once, in one line. No damage.
    findings: Vec<String>,
}

pub(super) async fn run(arguments: TensorVerifyArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path: PathBuf = arguments.source.source.clone();
    // A file that is malformed is not even opened: that ends here, with the same exit code.
    let source = super::open_source(arguments.source, context).await?;
    let progress = output.progress().clone();
    let report = interrupt::blocking(move |cancel_token| verify(&source, &progress, cancel_token)).await?;
    output.progress().finish();
    let exit = if report.passed { Exit::Ok } else { Exit::Integrity };
    if output.is_json() {
        output.json(&report)?;
        return Ok(exit);
    }
    let bad = |problem: &String| format!("{} {}\n", output.paint(Role::Bad, "BAD"), one_line(problem));
    let mut text: String = report.problems.iter().map(bad).collect();
    for finding in &report.findings {
        text.push_str(&format!("{} {}\n", output.paint(Role::Notice, "NOTE"), one_line(finding)));
    }
    let path = one_line(&path.display().to_string());
    if report.passed {
        let digests = match report.digests {
            0 => "no digests".to_owned(),
            digests => format!("{} right", count(digests, "digest")),
        };
        let notes = match report.findings.len() {
            0 => String::new(),
            notes => format!("; {}, no damage", count(notes, "note")),
        };
        let (tensors, bytes) = (count(report.tensors, "tensor"), byte_size(report.bytes));
        text.push_str(&format!("{} {path}: {tensors}, {bytes}, {digests}{notes}\n", output.paint(Role::Good, "OK")));
    } else {
        text.push_str(&format!("{path}: {}\n", count(report.problems.len(), "problem")));
    }
    output.text(&text)?;
    Ok(exit)
}

fn verify(source: &Source, progress: &Arc<ProgressDisplay>, cancel_token: &CancelToken) -> Result<Report, Failure> {
    let listed = source.listed();
    let total = source.total();
    let mut report = Report { tensors: listed.len(), bytes: total, ..Report::default() };
    if let Some(reader) = source.as_ztensor() {
        let verified = reader.verify_all();
        report.digests = verified.n_verified;
        for failure in verified.failures.into_iter().map(TensorFileError::from) {
            match failure.is_malformed() {
                true => report.problems.push(causes_in_one_line(&failure)),
                false => return Err(failure.into()),
            }
        }
    }
    if let Some(Err(error)) = source.as_ztensor().map(|reader| reader.manifest().attributes()) {
        report.problems.push(error.to_string());
    }
    if let Some(reader) = source.as_ztensor() {
        let findings = reader.findings().map_err(TensorFileError::from)?;
        report.findings = findings.iter().map(ToString::to_string).collect();
    }
    let mut done = 0_u64;
    let mut seen = BTreeSet::new();
    for listed in listed {
        checkpoint(cancel_token)?;
        progress.update("verifying", done, Some(total), true);
        done = done.saturating_add(listed.bytes.unwrap_or(0));
        let result = match source.file().map(TensorFile::format) {
            // What opening it checked is all that there is.
            Some(TensorFileFormat::Safetensors | TensorFileFormat::Sharded) => Ok(()),
            // What it is was checked, and what it holds is nothing that is known here.
            _ if listed.unusable.is_some() => Ok(()),
            _ => match source.as_ztensor() {
                Some(reader) => match look_at(reader, &listed.name, &mut seen) {
                    // Elsewhere this says that such a group cannot be dequantized.
                    Err(error @ ZTensorError::QuantizedGroup(QuantizedGroupError::Attribute { .. })) => {
                        report.problems.push(error.to_string());
                        Ok(())
                    }
                    result => result.map_err(|error| TensorFileError::from(error).into()),
                },
                None => source.read(&listed.name).map(drop).map_err(Failure::from),
            },
        };
        match result {
            Ok(()) => {}
            // What keeps a file from being read says nothing about it.
            Err(failure) if failure.exit() != Exit::Integrity => return Err(failure),
            Err(failure) => {
                let causes: Vec<String> = std::iter::once(failure.message()).chain(failure.causes()).collect();
                report.problems.push(causes.join(": "));
            }
        }
    }
    report.passed = report.problems.is_empty();
    Ok(report)
}

/// A blob by where it is, whether it is compressed and has bools, and the size that it should have.
type Seen = (u64, u64, bool, bool, Option<u64>);

/// Decodes attributes, decompresses what is compressed, and checks what the elements of an object must be.
/// `seen` are the blobs of dense objects that this was done to, because objects may share them.
fn look_at(reader: &ztensor::Reader, name: &str, seen: &mut BTreeSet<Seen>) -> Result<(), ZTensorError> {
    let object = reader.object(name)?;
    let attributes = object.attributes()?;
    match object.format() {
        Format::SparseCsr => drop(reader.csr(name)?),
        Format::SparseCoo => drop(reader.coo(name)?),
        Format::QuantizedGroup => match reader.quantized_group(name) {
            // Packings that are not known can be read component by component, and may have any attributes.
            Err(ZTensorError::QuantizedGroup(QuantizedGroupError::Attribute { .. }))
                if !QuantizedGroup::has_known_packing(&attributes) => {}
            result => drop(result?),
        },
        Format::Dense | Format::Other(_) => {
            for component in object.components() {
                let is_bool = component.element_type() == ElementType::Bool;
                let is_compressed = component.encoding() != Encoding::Raw;
                let (stored, length) = (component.stored(), component.length());
                let blob = (stored.start, stored.end, is_compressed, is_bool, length);
                if (is_compressed || is_bool) && seen.insert(blob) {
                    reader.read_component(&component, Checks { digests: false, bools: true })?;
                }
            }
        }
    }
    Ok(())
}
