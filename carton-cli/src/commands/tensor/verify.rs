//! `carton tensor verify`: the rules of the format, and the digests in it.

use std::path::PathBuf;
use std::sync::Arc;

use carton_tensor::files::{ElementType, TensorFile, TensorFileFormat};
use carton_tensor::ztensor::{self, Checks, Encoding, Format, QuantizedGroup, ZTensorError};
use serde::Serialize;

use super::{Context, checkpoint};
use crate::args::TensorVerifyArgs;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::interrupt::{self, Wanted};
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
}

pub(super) async fn run(arguments: TensorVerifyArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path: PathBuf = arguments.source.source.clone();
    // A file that is malformed is not even opened: that ends here, with the same exit code.
    let source = super::open_source(arguments.source, context).await?;
    let progress = output.progress().clone();
    let report = interrupt::blocking(move |wanted| verify(&source, &progress, wanted)).await?;
    output.progress().finish();
    let exit = if report.passed { Exit::Ok } else { Exit::Integrity };
    if output.is_json() {
        output.json(&report)?;
        return Ok(exit);
    }
    let bad = |problem: &String| format!("{} {}\n", output.paint(Role::Bad, "BAD"), one_line(problem));
    let mut text: String = report.problems.iter().map(bad).collect();
    let path = one_line(&path.display().to_string());
    if report.passed {
        let digests = match report.digests {
            0 => "no digests".to_owned(),
            digests => format!("{} right", count(digests, "digest")),
        };
        let (tensors, bytes) = (count(report.tensors, "tensor"), byte_size(report.bytes));
        text.push_str(&format!("{} {path}: {tensors}, {bytes}, {digests}\n", output.paint(Role::Good, "OK")));
    } else {
        text.push_str(&format!("{path}: {}\n", count(report.problems.len(), "problem")));
    }
    output.text(&text)?;
    Ok(exit)
}

fn verify(source: &Source, progress: &Arc<ProgressDisplay>, wanted: &Wanted) -> Result<Report, Failure> {
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
    let mut done = 0_u64;
    for listed in listed {
        checkpoint(wanted)?;
        progress.update("verifying", done, Some(total), true);
        done = done.saturating_add(listed.bytes.unwrap_or(0));
        let result = match source.file().map(TensorFile::format) {
            // What opening it checked is all that there is.
            Some(TensorFileFormat::Safetensors | TensorFileFormat::Sharded) => Ok(()),
            // What it is was checked, and what it holds is nothing that is known here.
            _ if listed.unusable.is_some() => Ok(()),
            _ => match source.as_ztensor() {
                Some(reader) => match look_at(reader, &listed.name) {
                    // Elsewhere this says that such a group cannot be dequantized.
                    Err(error @ ZTensorError::QuantizedAttribute { .. }) => {
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

/// Decodes attributes, decompresses what is compressed, and checks what the elements of an object must be.
fn look_at(reader: &ztensor::Reader, name: &str) -> Result<(), ZTensorError> {
    let object = reader.object(name)?;
    let attributes = object.attributes()?;
    match object.format() {
        Format::SparseCsr => drop(reader.csr(name)?),
        Format::SparseCoo => drop(reader.coo(name)?),
        Format::QuantizedGroup => match reader.quantized_group(name) {
            // Packings that are not known can be read component by component, and may have any attributes.
            Err(ZTensorError::QuantizedAttribute { .. }) if !QuantizedGroup::has_known_packing(&attributes) => {}
            result => drop(result?),
        },
        Format::Dense | Format::Other(_) => {
            for component in object.components() {
                if component.encoding() != Encoding::Raw || component.element_type() == ElementType::Bool {
                    reader.read_component(&component, Checks { digests: false, bools: true })?;
                }
            }
        }
    }
    Ok(())
}
