//! `carton tensor verify`: checks the rules of a file's format, and the digests in it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use carton_tensor::any_file::{TensorFile, TensorFileFormat};
use carton_tensor::context::ProgressEvent;
use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{self, Checks, Encoding, Format, QuantizedGroup, QuantizedGroupError, ZTensorError};
use serde::Serialize;

use super::Context;
use crate::args::TensorVerifyArgs;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::interrupt;
use crate::output::Role;
use crate::progress::WorkContext;
use crate::tensor_files::{Source, TensorFileError};
use crate::text::{byte_size, count, one_line};

/// The output of `--json`.
#[derive(Default, Serialize)]
struct Report {
    passed: bool,
    tensors: usize,
    bytes: u64,
    /// The number of digests that match.
    digests: usize,
    /// The problems, one line each.
    problems: Vec<String>,
    /// What could not be checked, and may be whole or damaged: one line each, with the reason.
    unchecked: Vec<String>,
    /// Features that the version stated in a zTensor file forbids, but that can be read: each rule once, in one line. Digests whose
    /// algorithms are not known. They are not damage.
    findings: Vec<String>,
}

pub(super) async fn run(arguments: TensorVerifyArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path: PathBuf = arguments.source.source.clone();
    // Opening a malformed file fails here, with the same exit code.
    let source = super::open_source(arguments.source, context).await?;
    let progress = output.progress().clone();
    let report = interrupt::blocking(move |token| verify(&source, &progress.context(token))).await?;
    output.progress().finish();
    let exit = match (report.problems.is_empty(), report.unchecked.is_empty()) {
        (false, _) => Exit::Integrity,
        (true, false) => Exit::Failure,
        (true, true) => Exit::Ok,
    };
    if output.is_json() {
        output.json(&report)?;
        return Ok(exit);
    }
    let bad = |problem: &String| format!("{} {}\n", output.paint(Role::Bad, "BAD"), one_line(problem));
    let mut text: String = report.problems.iter().map(bad).collect();
    for unchecked in &report.unchecked {
        text.push_str(&format!("{} {}\n", output.paint(Role::Notice, "UNCHECKED"), one_line(unchecked)));
    }
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
        let unchecked = match report.unchecked.len() {
            0 => String::new(),
            unchecked => format!(", {unchecked} not checked"),
        };
        text.push_str(&format!("{path}: {}{unchecked}\n", count(report.problems.len(), "problem")));
    }
    output.text(&text)?;
    Ok(exit)
}

fn verify(source: &Source, context: &WorkContext) -> Result<Report, Failure> {
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
        report.findings.extend(source.unknown_digests("not compared"));
    }
    let unread = |name: &String| format!("`{name}`: it is no array (.npy)");
    report.unchecked.extend(source.other_entries().iter().map(unread));
    let mut done = 0_u64;
    let mut seen = BTreeSet::new();
    for listed in listed {
        context.advance(&ProgressEvent::new("verifying", done, Some(total), "bytes"))?;
        done = done.saturating_add(listed.bytes.unwrap_or(0));
        let result = match source.file().map(TensorFile::format) {
            // Opening the file has checked everything.
            Some(TensorFileFormat::Safetensors | TensorFileFormat::Sharded) => Ok(()),
            _ if listed.unusable.is_some() => {
                let reason = listed.unusable.as_deref().unwrap_or_default();
                report.unchecked.push(format!("`{}`: {reason}", listed.name));
                Ok(())
            }
            _ => match source.as_ztensor() {
                Some(reader) => match check_object(reader, &listed.name, &mut seen) {
                    // For other commands this error means that the group cannot be dequantized.
                    Err(error @ ZTensorError::QuantizedGroup(QuantizedGroupError::Attribute { .. })) => {
                        report.problems.push(error.to_string());
                        Ok(())
                    }
                    result => result.map_err(|error| TensorFileError::from(error).into()),
                },
                None => source.check(&listed.name).map_err(Failure::from),
            },
        };
        match result {
            Ok(()) => {}
            // An error other than a malformed file, such as an IO error, says nothing about the file's validity.
            Err(failure) if failure.exit() != Exit::Integrity => return Err(failure),
            Err(failure) => {
                let causes: Vec<String> = std::iter::once(failure.message()).chain(failure.causes()).collect();
                report.problems.push(causes.join(": "));
            }
        }
    }
    report.passed = report.problems.is_empty() && report.unchecked.is_empty();
    Ok(report)
}

/// The bytes of a component that are checked at a time.
const PIECE: usize = 1 << 20;

/// A blob: its start and end, whether it is compressed, whether it has bools, and its expected size.
type CheckedBlob = (u64, u64, bool, bool, Option<u64>);

/// Decodes attributes, decompresses compressed components, and checks the rules for the elements of an object. `seen` are the blobs of
/// dense objects that were already checked, because objects may share them.
fn check_object(reader: &ztensor::Reader, name: &str, seen: &mut BTreeSet<CheckedBlob>) -> Result<(), ZTensorError> {
    let object = reader.object(name)?;
    let attributes = object.attributes()?;
    match object.format() {
        Format::SparseCsr => drop(reader.csr(name)?),
        Format::SparseCoo => drop(reader.coo(name)?),
        Format::QuantizedGroup => match reader.quantized_group(name) {
            // Groups with unknown packings can be read component by component, and may have any attributes.
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
                    let checks = Checks { digests: false, bools: true };
                    reader.visit_component(&component, checks, PIECE, &mut |_| ControlFlow::Continue(()))?;
                }
            }
        }
    }
    Ok(())
}
