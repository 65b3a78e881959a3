//! Checks the rules of a file's format, and the digests in it.

use std::collections::BTreeSet;
use std::error::Error;
use std::ops::ControlFlow;

use carton_core::ErrorKind;
use carton_tensor::any_file::{TensorFile, TensorFileFormat};
use carton_tensor::context::{Context, ProgressEvent};
use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{self, Checks, Encoding, Format, QuantizedGroup, QuantizedGroupError, ZTensorError};
use carton_tensor::ztensor2;
use serde::Serialize;

use crate::deep::{DeepFindings, examine_all};
use crate::error::TensorFilesError;
use crate::source::TensorSource;

/// What [`verify()`] found.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// Whether there is no problem, and nothing that could not be checked.
    pub passed: bool,
    /// The number of tensors.
    pub tensors: usize,
    /// The size of all tensors in bytes, as far as it is known.
    pub bytes: u64,
    /// The number of digests that match.
    pub digests: usize,
    /// The problems, one line each.
    pub problems: Vec<String>,
    /// What could not be checked, and may be whole or damaged: one line each, with the reason.
    pub unchecked: Vec<String>,
    /// Features that the version stated in a zTensor file forbids, but that can be read: each rule once, in one line. Digests whose
    /// algorithms are not known. What is read of other formats though some libraries refuse it. They are not damage.
    pub findings: Vec<String>,
    /// What the numbers of the tensors have, if they were asked for. It is no damage either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep: Option<DeepFindings>,
}

/// How a file is checked.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Whether to read the numbers of all tensors too, and to look for those that are not finite, for tensors of one number, and for copies.
    pub deep: bool,
}

/// Checks every rule of the format of the file, and the digests in it.
///
/// # Errors
/// The file cannot be read; the work was cancelled. What is wrong with the file is in the report.
pub fn verify(
    source: &TensorSource,
    options: &VerifyOptions,
    context: &Context,
) -> Result<Verification, TensorFilesError> {
    let listed = source.tensors();
    let total = source.total();
    let mut report = Verification { tensors: listed.len(), bytes: total, ..Verification::default() };
    if let Some(reader) = source.as_ztensor() {
        let verified = reader.verify_some(|name| source.get(name).is_some(), context.cancel_token())?;
        report.digests = verified.n_verified;
        for failure in verified.failures.into_iter().map(TensorFilesError::from) {
            match failure.is_malformed() {
                true => report.problems.push(in_one_line(&failure)),
                false => return Err(failure),
            }
        }
    }
    if let Some(Err(error)) = source.as_ztensor().map(|reader| reader.manifest().attributes()) {
        report.problems.push(in_one_line(&error));
    }
    if let Some(reader) = source.as_ztensor() {
        let findings = reader.findings()?;
        report.findings = findings.iter().map(ToString::to_string).collect();
        report.findings.extend(source.unknown_digests("not compared"));
    }
    report.findings.extend(source.file().into_iter().flat_map(TensorFile::findings));
    if let Some(reader) = source.as_ztensor2() {
        verify_2(source, reader, &mut report, context)?;
    }
    report
        .findings
        .extend(source.left_out().map(|left_out| format!("left out, because they are no tensors: {left_out}")));
    let unread = |name: &String| format!("`{name}`: it is no array (.npy)");
    report.unchecked.extend(source.other_entries().iter().map(unread));
    let mut done = 0_u64;
    let mut seen = BTreeSet::new();
    for listed in listed {
        context.advance(&ProgressEvent::new("verifying", done, Some(total), "bytes"))?;
        done = done.saturating_add(listed.bytes.unwrap_or(0));
        let result = match source.file().map(TensorFile::format) {
            // Opening the file has checked everything.
            Some(TensorFileFormat::Safetensors | TensorFileFormat::Sharded | TensorFileFormat::Gguf) => Ok(()),
            // All bytes were read, also those of layouts that are not known.
            Some(TensorFileFormat::ZTensor2) => Ok(()),
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
                    result => result.map_err(TensorFilesError::from),
                },
                None => source.check(&listed.name),
            },
        };
        match result {
            Ok(()) => {}
            // An error other than a malformed file, such as an IO error, says nothing about the file's validity.
            Err(failure) if failure.kind() != ErrorKind::Integrity => return Err(failure),
            Err(failure) => report.problems.push(in_one_line(&failure)),
        }
    }
    if options.deep {
        report.deep = Some(examine_all(source, context)?);
    }
    report.passed = report.problems.is_empty() && report.unchecked.is_empty();
    Ok(report)
}

/// Checks a file of zTensor 2.
fn verify_2(
    source: &TensorSource,
    reader: &ztensor2::Reader,
    report: &mut Verification,
    context: &Context,
) -> Result<(), TensorFilesError> {
    let verified = reader.verify_some(|name| source.get(name).is_some(), context.cancel_token())?;
    report.digests = verified.n_verified;
    for failure in verified.failures.into_iter().map(TensorFilesError::from) {
        match failure.is_malformed() {
            true => report.problems.push(in_one_line(&failure)),
            false => return Err(failure),
        }
    }
    report.unchecked.extend(verified.unchecked);
    // There may be too many to decode them.
    let listed = source.tensors().iter().filter_map(|listed| reader.object(&listed.name).ok()?.attributes().err());
    let undecoded = reader.manifest().attributes().err().into_iter().chain(listed);
    report.unchecked.extend(undecoded.map(|error| error.to_string()));
    report.findings.extend(source.unknown_digests("not compared"));
    Ok(())
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

/// An error and its causes.
fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    // Errors that only wrap another have its text.
    texts.dedup();
    texts.join(": ")
}
