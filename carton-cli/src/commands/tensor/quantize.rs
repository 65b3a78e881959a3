//! `carton tensor quantize`: writes float tensors as int8, each with its scale or the scales of its channels, or as quantized groups
//! (spec/weights.md §2).

use std::collections::{BTreeMap, BTreeSet};

use carton_tensor::context::ProgressEvent;
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::weights::{
    self, Described, Filter, Granularity, QuantizeOptions, QuantizedTensor, SCALE_SUFFIX, Scales,
};
use carton_tensor::ztensor::QuantizedGroup;

use super::convert::{self, Written};
use super::quantize_report::{Quantized, Report};
use super::{Context, numbers};
use crate::args::{SinkArgs, TensorQuantizeArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::progress::WorkContext;
use crate::tensor_files::{
    Listed, OutputFormat, Piece, Planned, PlannedKind, Sink, Source, TensorFileError, TensorLayout, Value,
};

/// The role of a tensor that is written.
#[derive(Clone, Copy)]
enum Role {
    AsItIs,
    Integers,
    Scale,
    Group(usize),
}

/// How tensors are quantized.
struct QuantizeSettings {
    options: QuantizeOptions,
    /// The rows of a quantized group, if matrices become groups.
    group_size: Option<usize>,
}

pub(super) async fn run(arguments: TensorQuantizeArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_source(arguments.source, context).await?;
    let source = source.with_max_dense(arguments.dense.max_dense).verifying(true);
    let filter = match arguments.only.is_empty() {
        true => Filter::ALL,
        false => Filter::any_glob(&arguments.only).map_err(TensorFileError::from)?,
    };
    let mut options = QuantizeOptions::default();
    options.granularity = if arguments.per_channel { Granularity::Channel } else { Granularity::Tensor };
    options.measure = arguments.report;
    let settings = QuantizeSettings {
        options,
        group_size: arguments.group_size.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)),
    };
    let (sink, progress) = (arguments.sink, output.progress().clone());
    let report =
        interrupt::blocking(move |token| quantize(&source, &sink, &filter, &settings, &progress.context(token)))
            .await?;
    output.progress().finish();
    report.print(output)?;
    Ok(Exit::Ok)
}

/// Whether a tensor holds floats, stored dense or sparse.
fn is_float(listed: &Listed) -> bool {
    matches!(listed.format, TensorLayout::Dense | TensorLayout::SparseCsr | TensorLayout::SparseCoo)
        // An unknown logical type may mean anything, regardless of its storage type.
        && listed.element_type.is_some_and(|dtype| dtype.is_float() && listed.dtype.as_deref() == Some(dtype.name()))
}

/// Returns the tensors that are quantized already, with what belongs to them, each with the name of its scheme (spec/weights.md §2.3).
fn quantized_already(source: &Source) -> BTreeMap<&str, &'static str> {
    // A scale belongs to its tensor even if only one of them is asked for.
    let mut already = match source.file() {
        Some(file) => weights::quantized_already(
            file.entries().map(|entry| Described { name: entry.name(), dtype: entry.dtype() }),
        ),
        None => {
            let described = source.listed().iter();
            let described = described.map(|listed| Described { name: &listed.name, dtype: listed.element_type });
            weights::quantized_already(described)
        }
    };
    let listed: BTreeSet<&str> = source.listed().iter().map(|listed| listed.name.as_str()).collect();
    already.retain(|name, _| listed.contains(name));
    let groups = source.listed().iter().filter(|listed| listed.format == TensorLayout::QuantizedGroup);
    already.extend(groups.map(|listed| (listed.name.as_str(), "in groups")));
    already
}

/// Says of each scheme which tensors are written as they are because of it.
fn left_as_they_are(already: &BTreeMap<&str, &'static str>) -> Vec<String> {
    const SHOWN: usize = 5;
    let mut by_scheme: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, scheme) in already {
        by_scheme.entry(scheme).or_default().push(name);
    }
    let warning = |(scheme, names): (&str, Vec<&str>)| {
        let more = if names.len() > SHOWN { " and others" } else { "" };
        let names: Vec<&str> = names.into_iter().take(SHOWN).collect();
        format!("written as they are, because they are quantized already ({scheme}): `{}`{more}", names.join("`, `"))
    };
    by_scheme.into_iter().map(warning).collect()
}

fn quantize(
    source: &Source,
    arguments: &SinkArgs,
    filter: &Filter,
    settings: &QuantizeSettings,
    context: &WorkContext,
) -> Result<Report, Failure> {
    convert::check_output(source, &arguments.output)?;
    let format = OutputFormat::of(&arguments.output)?;
    if settings.group_size.is_some() {
        format.expect_ztensor("--group-size", &arguments.output)?;
    }
    let options = &settings.options;
    let mut warnings = source.not_written();
    let mut planned = Vec::new();
    let mut roles: Vec<(&Listed, Role)> = Vec::new();
    let already = quantized_already(source);
    for listed in convert::expanded(source, &mut warnings) {
        let name = listed.name.clone();
        if is_float(listed) && !already.contains_key(name.as_str()) && filter.accepts(&name) {
            let shape = listed.shape.clone().unwrap_or_default();
            let fits = QuantizedGroup::fits(&shape) && !shape.contains(&0);
            if let Some(group_size) = settings.group_size.filter(|_| fits) {
                planned.push(Planned { name, kind: PlannedKind::Group });
                roles.push((listed, Role::Group(group_size)));
                continue;
            }
            let (scale, scale_shape) = (format!("{name}{SCALE_SUFFIX}"), options.granularity.scale_shape(&shape));
            planned.push(Planned { name, kind: PlannedKind::Numbers(ElementType::Int8, shape) });
            roles.push((listed, Role::Integers));
            planned.push(Planned { name: scale, kind: PlannedKind::Numbers(ElementType::Float64, scale_shape) });
            roles.push((listed, Role::Scale));
        } else {
            planned.push(Planned { name, kind: convert::kind(listed, format, false) });
            roles.push((listed, Role::AsItIs));
        }
    }
    if !roles.iter().any(|(_, role)| matches!(role, Role::Integers | Role::Group(_))) {
        let schemes: BTreeSet<&str> = already.into_values().collect();
        let (place, schemes) = (source.place.clone(), schemes.into_iter().collect());
        return Err(TensorFileError::NothingToQuantize { place, schemes }.into());
    }
    if settings.group_size.is_some() && !roles.iter().any(|(_, role)| matches!(role, Role::Group(_))) {
        let what = "no tensor becomes a quantized group: none is a matrix of floats whose rows are a multiple of 4";
        warnings.push(what.to_owned());
    }
    warnings.extend(left_as_they_are(&already));
    let metadata = convert::metadata(source, format, &mut warnings)?;
    let mut sink = Sink::create(arguments, &planned, &metadata, context.cancel_token())?;
    let total = source.total();
    let (mut done, mut quantized) = (0_u64, Vec::new());
    // The scales of the tensor whose integers were written last. In a zTensor file they come next.
    let mut last: Option<(&str, Scales)> = None;
    // The names of scales for which space was reserved, by the names of their tensors.
    let mut reserved: BTreeMap<&str, &str> = BTreeMap::new();
    for position in sink.order() {
        context.advance(&ProgressEvent::new("quantizing", done, Some(total), "bytes"))?;
        let (Some(planned), Some((listed, role))) = (planned.get(position), roles.get(position)) else { continue };
        let piece = match role {
            Role::AsItIs => convert::piece(source, listed, format, false, &mut warnings)?,
            Role::Scale => {
                let scales = match last.take().filter(|(name, _)| *name == listed.name) {
                    Some((_, scales)) => scales,
                    // A safetensors file has them before the integers. They are filled in when the integers are written.
                    None if sink.reserve(&planned.name)? => {
                        reserved.insert(listed.name.as_str(), planned.name.as_str());
                        continue;
                    }
                    None => one(source, listed, options)?.scales,
                };
                Piece::Value(Value::Numbers(scales.to_tensor().map_err(Failure::new)?))
            }
            Role::Group(group_size) => {
                warn_of_lost(source, listed, &mut warnings)?;
                let matrix = weights::quantize_groups(&read(source, listed)?, *group_size, options);
                let matrix = matrix.map_err(|error| TensorFileError::not_in_groups(&listed.name, error))?;
                quantized.push(Quantized::of_group(&listed.name, &matrix));
                let group = QuantizedGroup::from_integers(&matrix.integers, 8, Some(*group_size), matrix.scales);
                Piece::Group(Box::new(group.map_err(TensorFileError::from)?))
            }
            Role::Integers => {
                warn_of_lost(source, listed, &mut warnings)?;
                let one = one(source, listed, options)?;
                quantized.push(Quantized::new(&listed.name, &one));
                match reserved.remove(listed.name.as_str()) {
                    Some(scale) => sink.fill(scale, &one.scales.to_tensor().map_err(Failure::new)?)?,
                    None => last = Some((&listed.name, one.scales)),
                }
                Piece::Value(Value::Numbers(one.tensor))
            }
        };
        sink.write(&planned.name, piece)?;
        if !matches!(role, Role::Scale) {
            done = done.saturating_add(listed.bytes.unwrap_or(0));
        }
    }
    context.check()?;
    let written = Written { path: arguments.output.clone(), tensors: planned.len(), size: sink.finish()?, warnings };
    let unchanged = roles.iter().filter(|(_, role)| matches!(role, Role::AsItIs)).count();
    Ok(Report::new(written, quantized, unchanged))
}

fn warn_of_lost(source: &Source, listed: &Listed, warnings: &mut Vec<String>) -> Result<(), Failure> {
    if let Some(reader) = source.as_ztensor() {
        let object = reader.object(&listed.name).map_err(TensorFileError::from)?;
        convert::warn_of_lost(&object, warnings)?;
    }
    Ok(())
}

fn read(source: &Source, listed: &Listed) -> Result<RawTensor, Failure> {
    let unknown = || TensorFileError::UnknownKind { name: listed.name.clone() };
    Ok(numbers(source.read(&listed.name)?).ok_or_else(unknown)?)
}

fn one(source: &Source, listed: &Listed, options: &QuantizeOptions) -> Result<QuantizedTensor, Failure> {
    let quantized = weights::quantize_all([&read(source, listed)?], options).map_err(Failure::new)?;
    let unknown = || TensorFileError::UnknownKind { name: listed.name.clone() };
    Ok(quantized.into_iter().next().ok_or_else(unknown)?)
}
