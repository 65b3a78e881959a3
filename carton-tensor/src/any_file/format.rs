//! The formats of tensor files, by the names and the first bytes of files.

use crate::safetensors;

/// The formats of tensor files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorFileFormat {
    /// safetensors, one file.
    Safetensors,
    /// Safetensors in several files, opened by their index (`model.safetensors.index.json`).
    Sharded,
    /// PyTorch checkpoints that are one, opened by their index (`pytorch_model.bin.index.json`).
    ShardedTorch,
    /// zTensor 1.x.
    ZTensor,
    /// zTensor 2.
    ZTensor2,
    /// A PyTorch checkpoint (`torch.save`).
    Torch,
    /// NumPy's `.npy`, which holds one array.
    Npy,
    /// NumPy's `.npz`.
    Npz,
    /// GGUF, one file or several.
    Gguf,
    /// An ONNX model.
    Onnx,
}

impl TensorFileFormat {
    /// All formats.
    pub const ALL: [Self; 10] = [
        Self::Safetensors,
        Self::Sharded,
        Self::ZTensor,
        Self::ZTensor2,
        Self::Torch,
        Self::ShardedTorch,
        Self::Npy,
        Self::Npz,
        Self::Gguf,
        Self::Onnx,
    ];

    /// The name of the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Sharded => "sharded safetensors",
            Self::ZTensor => "zTensor",
            Self::ZTensor2 => "zTensor 2",
            Self::Torch => "PyTorch",
            Self::ShardedTorch => "sharded PyTorch",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Gguf => "GGUF",
            Self::Onnx => "ONNX",
        }
    }

    /// Returns the format that the extension of a file name suggests.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let named = [
            (".safetensors", Self::Safetensors),
            (".zt", Self::ZTensor),
            (".npz", Self::Npz),
            (".npy", Self::Npy),
            (".gguf", Self::Gguf),
            (".onnx", Self::Onnx),
        ];
        named.into_iter().find(|(ending, _)| has_ending(name, ending)).map(|(_, format)| format)
    }

    /// Detects the format from the first bytes of a file. Archives of PyTorch count as `.npz`, and its other files and ONNX models are not among them:
    /// [`Content`](crate::content::Content) knows them. Files of zTensor 0.1 count as zTensor, so that opening them
    /// reports the version.
    ///
    /// ```
    /// use carton_tensor::any_file::TensorFileFormat;
    /// assert_eq!(TensorFileFormat::of_bytes(b"PK\x03\x04\x14\0\0\0\0"), Some(TensorFileFormat::Npz));
    /// // A header whose length begins with the same bytes.
    /// assert_eq!(TensorFileFormat::of_bytes(b"PK\x03\x04\0\0\0\0{"), Some(TensorFileFormat::Safetensors));
    /// ```
    #[must_use]
    pub fn of_bytes(start: &[u8]) -> Option<Self> {
        const ZIP: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
        // This check comes first, because the length of a header may begin like the magic bytes of another format.
        if safetensors::Header::is_at(start) {
            Some(Self::Safetensors)
        } else if start.starts_with(b"\x93NUMPY") {
            Some(Self::Npy)
        } else if ZIP.iter().any(|magic| start.starts_with(magic)) {
            Some(Self::Npz)
        } else if start.starts_with(b"GGUF") {
            Some(Self::Gguf)
        } else if start.starts_with(b"ZTEN") {
            Some(Self::ZTensor)
        } else if start.starts_with(b"\x89ZT2") {
            Some(Self::ZTensor2)
        } else {
            None
        }
    }
}

/// Whether a name has this ending, ignoring ASCII case.
pub(super) fn has_ending(name: &str, ending: &str) -> bool {
    let start = name.len().checked_sub(ending.len());
    start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}
