//! A low-rank adapter: which tensors of a model it changes, and how (spec/weights.md §9).

use std::collections::BTreeMap;
use std::path::Path;

use carton_tensor::any_file::TensorFileError;
use carton_tensor::checkpoint::{FollowLinks, path_in};
use carton_tensor::element_count;
use carton_tensor::files::{FileBytes, SharedBytes};
use carton_tensor::weights::{Compute, LowRank};

use crate::adapter_config::AdapterConfig;
use crate::blended::blendable;
use crate::error::TensorFilesError;
use crate::merge_error::MergeError;
use crate::open::open_path;
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::shown_name;

/// What every name of PEFT's begins with: its model, and the model that is wrapped.
const PREFIX: &str = "base_model.model.";
/// The settings, which are beside the tensors.
const CONFIG: &str = "adapter_config.json";
/// The file of tensors in the folder of an adapter.
const TENSORS: &str = "adapter_model.safetensors";
/// The longest settings that are read.
const LONGEST_CONFIG: u64 = 4 << 20;

/// An adapter, with what it does to the tensors of a model.
pub(crate) struct Adapter {
    source: TensorSource,
    changes: BTreeMap<String, Change>,
    /// A factor of what is added.
    scale: f64,
}

/// What becomes of a tensor of the model.
enum Change {
    /// The product of two matrices is added.
    Product(Product),
    /// The tensor of this name is added, times a factor.
    Added(String, f64),
    /// The tensor of this name is in its place.
    Replaced(String),
}

struct Product {
    /// The names of the two matrices: of rank × inputs, and of outputs × rank.
    a: String,
    b: String,
    /// Outputs, rank and inputs.
    sizes: [usize; 3],
    /// Whether the weights are inputs × outputs.
    is_transposed: bool,
    factor: f64,
}

/// The tensors of one layer, by their names.
#[derive(Default)]
struct Layer<'a> {
    a: Option<&'a str>,
    b: Option<&'a str>,
    bias: Option<&'a str>,
    is_embedding: bool,
}

/// A change in numbers, ready to be applied to pieces of the tensor.
pub(crate) enum Applied<F> {
    Product(LowRank<F>),
    /// A product that is rounded to the type of the weights before it is added, as PEFT does for embeddings.
    RoundedProduct(LowRank<F>),
    Added(Vec<F>, F),
    Replaced(Vec<F>),
}

impl Adapter {
    /// Opens an adapter: its folder, or its file of tensors, with the settings beside it. What it adds is multiplied by `scale`.
    ///
    /// # Errors
    /// It cannot be read, or is more than a product that is added.
    pub(crate) fn open(path: &Path, scale: f64, links: FollowLinks) -> Result<Self, TensorFilesError> {
        if !scale.is_finite() {
            return Err(wrong(path, format!("its scale is {scale}")));
        }
        let folder = match (path.is_dir(), path.parent()) {
            (true, _) => path,
            (false, Some(parent)) if !parent.as_os_str().is_empty() => parent,
            (false, _) => Path::new("."),
        };
        let text = read_config(folder, links)?;
        let config = AdapterConfig::parse(&text).map_err(|problem| wrong(&folder.join(CONFIG), problem))?;
        let tensors = match (path.is_dir(), path.join(TENSORS)) {
            (true, file) if file.is_file() => {
                let unusable = |source| TensorFileError::Io { place: file.display().to_string(), source };
                path_in(path, TENSORS, links).map_err(unusable)?
            }
            _ => path.to_path_buf(),
        };
        let source = open_path(&tensors, None, false, links)?.verifying(true);
        let changes = find_changes(&source, &config).map_err(|problem| wrong(&tensors, problem))?;
        if changes.is_empty() {
            return Err(wrong(&tensors, "it has no tensors".to_owned()));
        }
        Ok(Self { source, changes, scale })
    }

    /// The file of tensors, as messages name it.
    pub(crate) fn place(&self) -> &str {
        self.source.place()
    }

    /// The tensors of the adapter.
    pub(crate) const fn source(&self) -> &TensorSource {
        &self.source
    }

    /// Whether it changes a tensor of the model.
    pub(crate) fn changes(&self, name: &str) -> bool {
        self.changes.contains_key(name)
    }

    /// Checks that each tensor that is changed is one of the model, and of the shape that the change has.
    ///
    /// # Errors
    /// It names a tensor that is not in the model, or that cannot be changed so.
    pub(crate) fn check(&mut self, model: &TensorSource) -> Result<(), TensorFilesError> {
        let Self { source, changes, .. } = self;
        for (name, change) in changes.iter() {
            let refused = |what: String| MergeError::Adapter {
                place: source.place().to_owned(),
                problem: format!("`{}` {what}", shown_name(change.tensor())),
            };
            let Some(listed) = model.get(name) else {
                let (name, place) = (shown_name(name), model.place());
                return Err(refused(format!("changes `{name}`, which `{place}` does not have")).into());
            };
            let from = blendable(model, listed)?;
            if !from.is_float() || from.bits() < 16 {
                return Err(refused(format!("changes `{}`, which is of {from}", shown_name(name))).into());
            }
            let shape = listed.shape.as_deref().unwrap_or_default();
            let of_change = source.get(change.tensor()).and_then(|info| info.shape.as_deref()).unwrap_or_default();
            let fits = match change {
                Change::Product(product) => product.fits(source, shape),
                Change::Added(..) | Change::Replaced(_) => shape == of_change,
            };
            if !fits {
                let name = shown_name(name);
                return Err(refused(format!("is {of_change:?}, which does not fit `{name}`, {shape:?}")).into());
            }
        }
        orient(source, changes, model)
    }

    /// The change of a tensor of the model, in numbers of type `F`. `None` if it is not changed.
    ///
    /// # Errors
    /// The tensors of the adapter cannot be read.
    pub(crate) fn applied<F: Compute>(&self, name: &str) -> Result<Option<Applied<F>>, TensorFilesError> {
        let Some(change) = self.changes.get(name) else { return Ok(None) };
        Ok(Some(match change {
            Change::Product(product) => {
                let (a, b) = (self.numbers::<F>(&product.a)?, self.numbers::<F>(&product.b)?);
                let made = LowRank::new(b, a, product.sizes, F::of(self.scale * product.factor));
                let made = made.ok_or_else(|| self.changed(&product.a))?;
                match (product.is_embedding(), product.is_transposed) {
                    (true, _) => Applied::RoundedProduct(made.transposed()),
                    (false, true) => Applied::Product(made.transposed()),
                    (false, false) => Applied::Product(made),
                }
            }
            Change::Added(tensor, factor) => Applied::Added(self.numbers(tensor)?, F::of(self.scale * factor)),
            Change::Replaced(tensor) => Applied::Replaced(self.numbers(tensor)?),
        }))
    }

    fn numbers<F: Compute>(&self, name: &str) -> Result<Vec<F>, TensorFilesError> {
        let tensor = self.source.read(name)?.into_numbers().ok_or_else(|| self.changed(name))?;
        F::decode(tensor.dtype(), tensor.bytes()).ok_or_else(|| self.changed(name))
    }

    fn changed(&self, name: &str) -> TensorFilesError {
        TensorFilesError::Changed(format!("tensor `{}` of `{}` is another one", shown_name(name), self.place()))
    }
}

impl Change {
    /// The tensor of the adapter that messages name.
    fn tensor(&self) -> &str {
        match self {
            Self::Product(product) => &product.a,
            Self::Added(name, _) | Self::Replaced(name) => name,
        }
    }
}

impl Product {
    fn is_embedding(&self) -> bool {
        self.a.ends_with(".lora_embedding_A")
    }

    /// Whether the product has the shape of the weights: outputs × inputs, of a convolution with further dimensions, or inputs × outputs.
    fn fits(&self, source: &TensorSource, shape: &[usize]) -> bool {
        let of_a = source.get(&self.a).and_then(|info| info.shape.as_deref()).unwrap_or_default();
        let [outputs, _, inputs] = self.sizes;
        let is_plain =
            shape.split_first().is_some_and(|(first, rest)| *first == outputs && Some(rest) == of_a.get(1..));
        is_plain && !self.is_embedding() || shape == [inputs, outputs]
    }
}

fn wrong(path: &Path, problem: String) -> TensorFilesError {
    MergeError::Adapter { place: path.display().to_string(), problem }.into()
}

/// Reads the settings in a folder, by the rule for links to the files of a checkpoint.
fn read_config(folder: &Path, links: FollowLinks) -> Result<SharedBytes, TensorFilesError> {
    let path = folder.join(CONFIG);
    let unreadable = |source| TensorFileError::Io { place: path.display().to_string(), source };
    let file = FileBytes::open(path_in(folder, CONFIG, links).map_err(unreadable)?).map_err(unreadable)?;
    if file.len() > LONGEST_CONFIG {
        return Err(wrong(&path, format!("it has {} bytes, expected at most {LONGEST_CONFIG}", file.len())));
    }
    Ok(file.read(0..file.len()).map_err(unreadable)?)
}

/// Finds what an adapter does by the names of its tensors. The orientation of square products is left open.
fn find_changes(source: &TensorSource, config: &AdapterConfig) -> Result<BTreeMap<String, Change>, String> {
    let mut layers: BTreeMap<&str, Layer<'_>> = BTreeMap::new();
    let mut changes = BTreeMap::new();
    for info in source.tensors() {
        let shown = shown_name(&info.name);
        let dtype = blendable(source, info).map_err(|error| error.to_string())?;
        if !dtype.is_float() {
            return Err(format!("`{shown}` is of {dtype}"));
        }
        let Some(name) = info.name.strip_prefix(PREFIX) else {
            return Err(format!("`{shown}` does not begin with `{PREFIX}`, as the names of PEFT do"));
        };
        let name_of = |suffix| name.strip_suffix(suffix);
        if let Some(module) = name_of(".lora_A.weight") {
            layers.entry(module).or_default().a = Some(&info.name);
        } else if let Some(module) = name_of(".lora_B.weight") {
            layers.entry(module).or_default().b = Some(&info.name);
        } else if let Some(module) = name_of(".lora_B.bias") {
            layers.entry(module).or_default().bias = Some(&info.name);
        } else if let Some(module) = name_of(".lora_embedding_A") {
            let layer = layers.entry(module).or_default();
            layer.a = Some(&info.name);
            layer.is_embedding = true;
        } else if let Some(module) = name_of(".lora_embedding_B") {
            layers.entry(module).or_default().b = Some(&info.name);
        } else if name.contains(".lora_magnitude_vector") {
            return Err(format!("`{shown}` is of DoRA, which is not merged"));
        } else if name.contains(".lora_") {
            return Err(format!("`{shown}` is of a kind that is not merged"));
        } else {
            // Biases and whole modules that were trained.
            let target = name.replace(".base_layer.", ".");
            insert(&mut changes, target, Change::Replaced(info.name.clone()))?;
        }
    }
    for (module, layer) in layers {
        let (factor, rank) = config.scaling(module)?;
        let [Some(a), Some(b)] = [layer.a, layer.b] else {
            return Err(format!("`{}` has one of the two matrices of a product", shown_name(module)));
        };
        let product = product([a, b], source, rank, factor);
        let product = product.map_err(|problem| format!("the product of `{}`: {problem}", shown_name(module)))?;
        // Weights of embeddings are inputs × outputs.
        let product = Product { is_transposed: layer.is_embedding || config.fan_in_fan_out, ..product };
        insert(&mut changes, format!("{module}.weight"), Change::Product(product))?;
        if let Some(bias) = layer.bias {
            insert(&mut changes, format!("{module}.bias"), Change::Added(bias.to_owned(), factor))?;
        }
    }
    Ok(changes)
}

fn insert(changes: &mut BTreeMap<String, Change>, name: String, change: Change) -> Result<(), String> {
    match changes.insert(name.clone(), change) {
        None => Ok(()),
        Some(_) => Err(format!("two of its tensors change `{}`", shown_name(&name))),
    }
}

fn product([a, b]: [&str; 2], source: &TensorSource, expected: u64, factor: f64) -> Result<Product, String> {
    let shape = |name| source.get(name).and_then(|info: &TensorInfo| info.shape.clone()).unwrap_or_default();
    let (of_a, of_b) = (shape(a), shape(b));
    let sizes = || -> Option<[usize; 3]> {
        let (rank, inputs) = of_a.split_first().filter(|(_, inputs)| !inputs.is_empty())?;
        let [outputs, of_rank, ones @ ..] = of_b.as_slice() else { return None };
        // The second matrix of a convolution is one of a single point.
        let fits = rank == of_rank && ones.iter().all(|length| *length == 1);
        Some([*outputs, *rank, element_count(inputs)?]).filter(|_| fits)
    };
    let sizes = sizes().ok_or_else(|| format!("{of_b:?} and {of_a:?} are no factors"))?;
    if sizes[1] as u64 != expected {
        return Err(format!("its rank is {}, and {CONFIG} says {expected}", sizes[1]));
    }
    let (a, b) = (a.to_owned(), b.to_owned());
    Ok(Product { a, b, sizes, is_transposed: false, factor })
}

/// Decides whether products are transposed. The shape of the weights says so, unless they are square: then it is what the settings say, as long as no
/// other layer contradicts them. PEFT knows the type of each layer, which files do not state.
fn orient(
    source: &TensorSource,
    changes: &mut BTreeMap<String, Change>,
    model: &TensorSource,
) -> Result<(), TensorFilesError> {
    let (mut contradicts, mut square) = (None, None);
    for (name, change) in changes {
        let Change::Product(product) = change else { continue };
        let is_embedding = product.is_embedding();
        let [outputs, _, inputs] = product.sizes;
        let shape = model.get(name).and_then(|info| info.shape.clone()).unwrap_or_default();
        if is_embedding || shape.len() != 2 {
            product.is_transposed = is_embedding;
        } else if outputs == inputs {
            square = Some(name.clone());
        } else {
            let is_transposed = shape == [inputs, outputs];
            if is_transposed != product.is_transposed {
                contradicts = Some(name.clone());
            }
            product.is_transposed = is_transposed;
        }
    }
    match (contradicts, square) {
        (Some(other), Some(name)) => Err(MergeError::Adapter {
            place: source.place().to_owned(),
            problem: format!(
                "whether the product for `{}` is transposed is not certain: `fan_in_fan_out` of {CONFIG} says it, and `{}` contradicts it",
                shown_name(&name),
                shown_name(&other)
            ),
        }
        .into()),
        _ => Ok(()),
    }
}
