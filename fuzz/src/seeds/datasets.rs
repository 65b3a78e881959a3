//! Seeds of datasets, and of the rows from which they are written.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, Float64Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    StringViewArray, StructArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field};
use carton_dataset::index::{IndexLayout, IndexRow, write};
use carton_dataset::{Manifest, Shard, TensorSchema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::Seed;
use crate::generate::names::COLUMN_END;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds =
        vec![Seed::new("dataset_manifest", "manifest", manifest()), Seed::new("tensor_index", "index", index())];
    for (name, n_samples, separator, columns) in [
        ("two", "2", "__", ["x", "y"]),
        ("fewer", "9", "/", ["in/x", "in/y"]),
        ("one", "!9", "_", ["id", "user_id"]),
        ("none-between", "2", "", ["emb", "é"]),
    ] {
        seeds.push(Seed::new("sample_names", name, names(n_samples, separator, columns)));
    }
    for (name, length, metadata) in [
        ("plain", 6, r#"{"shape":[2,3]}"#),
        ("permuted", 24, r#"{"shape":[2,3,4],"permutation":[2,1,0],"dim_names":["a","b","c"]}"#),
        ("empty", 0, r#"{"shape":[5,0],"permutation":[1,0]}"#),
    ] {
        seeds.push(Seed::new("extension_type", name, [&[length], metadata.as_bytes()].concat()));
    }
    for (name, compression) in
        [("plain", None), ("lz4", Some(CompressionType::LZ4_FRAME)), ("zstd", Some(CompressionType::ZSTD))]
    {
        seeds.push(Seed::new("arrow", format!("{name}.stream"), stream(compression)));
        seeds.push(Seed::new("arrow", format!("{name}.file"), ipc_file(compression)));
    }
    let builder = || WriterProperties::builder().set_created_by(String::new());
    for (name, columns, properties) in [
        ("plain", None, builder().set_dictionary_enabled(false)),
        ("dictionaries", None, builder()),
        ("snappy", None, builder().set_compression(Compression::SNAPPY)),
        ("gzip", None, builder().set_compression(Compression::GZIP(Default::default()))),
        ("brotli", None, builder().set_compression(Compression::BROTLI(Default::default()))),
        ("lz4", None, builder().set_compression(Compression::LZ4_RAW)),
        (
            "zstd-2",
            None,
            builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_writer_version(WriterVersion::PARQUET_2_0),
        ),
        ("delta-texts", Some([2, 3]), deltas(builder(), Encoding::DELTA_BYTE_ARRAY)),
        ("delta-lengths", Some([2, 3]), deltas(builder(), Encoding::DELTA_LENGTH_BYTE_ARRAY)),
        ("delta-numbers", Some([0, 1]), deltas(builder(), Encoding::DELTA_BINARY_PACKED)),
    ] {
        let rows = rows();
        let rows = columns.map_or(rows.clone(), |columns| rows.project(&columns).expect("there are so many"));
        let mut writer =
            ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties.build())).expect("it has such columns");
        writer.write(&rows).expect("there is memory");
        seeds.push(Seed::new("parquet", name, writer.into_inner().expect("there is memory")));
    }
    seeds
}

fn deltas(
    builder: parquet::file::properties::WriterPropertiesBuilder,
    encoding: Encoding,
) -> parquet::file::properties::WriterPropertiesBuilder {
    builder.set_dictionary_enabled(false).set_encoding(encoding)
}

fn rows() -> RecordBatch {
    let n = 8_i64;
    let mut lists = ListBuilder::new(Float64Builder::new());
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 3);
    for row in 0..n {
        lists.values().append_slice(&vec![row as f64; row as usize % 4]);
        lists.append(row % 7 > 0);
        vectors.values().append_slice(&[row as f32, 0.5, f32::NAN]);
        vectors.append(true);
    }
    let keys = Int32Array::from_iter_values((0..n as i32).map(|row| row % 2));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n));
    let truths: ArrayRef = Arc::new(BooleanArray::from_iter((0..n).map(|row| Some(row % 2 == 0))));
    let field = |name, kind| Arc::new(Field::new(name, kind, true));
    let pairs = vec![(field("id", DataType::Int64), Arc::clone(&ids)), (field("truth", DataType::Boolean), truths)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", ids),
        ("small", Arc::new(Int32Array::from_iter((0..n as i32).map(|row| (row % 3 > 0).then_some(row))))),
        ("name", Arc::new(StringArray::from_iter_values((0..n).map(|row| format!("row {row}"))))),
        ("bytes", Arc::new(BinaryArray::from_iter((0..n).map(|row| (row % 3 > 0).then(|| row.to_le_bytes()))))),
        ("list", Arc::new(lists.finish())),
        ("vector", Arc::new(vectors.finish())),
        ("word", Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values(["a", "b"]))))),
        ("view", Arc::new(StringViewArray::from_iter_values((0..n).map(|row| "long enough ".repeat(row as usize))))),
        ("pair", Arc::new(StructArray::from(pairs))),
    ];
    RecordBatch::try_from_iter(columns).expect("they are of one length")
}

fn stream(compression: Option<CompressionType>) -> Vec<u8> {
    let (rows, options) = (rows(), IpcWriteOptions::default().try_with_compression(compression).expect("it is known"));
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options).expect("there is memory");
    (0..2).for_each(|_| writer.write(&rows).expect("there is memory"));
    writer.into_inner().expect("there is memory")
}

fn ipc_file(compression: Option<CompressionType>) -> Vec<u8> {
    let (rows, options) = (rows(), IpcWriteOptions::default().try_with_compression(compression).expect("it is known"));
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &rows.schema(), options).expect("there is memory");
    (0..2).for_each(|_| writer.write(&rows).expect("there is memory"));
    writer.into_inner().expect("there is memory")
}

const SHARDS: [&str; 2] = [
    "part-00000-0000-550e8400-e29b-41d4-a716-446655440000.safetensors",
    "part-00001-0000-550e8400-e29b-41d4-a716-446655440001.safetensors",
];

fn manifest() -> Vec<u8> {
    let shard = |path: &str| Shard { shard_path: path.to_owned(), samples_count: 2, bytes: 72 };
    let tensor = |dtype: &str, shape: &[u64]| TensorSchema { dtype: dtype.to_owned(), shape: shape.to_vec() };
    let schema = [("x".to_owned(), tensor("F32", &[2, 3])), ("y".to_owned(), tensor("I64", &[]))].into();
    let shards = SHARDS.into_iter().chain(["other.safetensors"]).map(shard).collect();
    Manifest::new(shards, schema).and_then(|manifest| manifest.to_json()).expect("it is valid")
}

/// The names of the tensors of two samples, or of one sample if there cannot be more.
fn names(n_samples: &str, separator: &str, columns: [&str; 2]) -> String {
    let samples = if n_samples.starts_with('!') { &["a"][..] } else { &["a", "b-1"] };
    let names = samples.iter().flat_map(|sample| columns.map(|column| format!("{sample}{separator}{column}")));
    let names: Vec<String> = names.collect();
    format!("{n_samples}\n{separator}\n{}\n{}", columns.join(&COLUMN_END.to_string()), names.join("\n"))
}

fn index() -> Vec<u8> {
    let row = |key: &str, file: &str, shape: &[u64]| IndexRow {
        tensor_key: key.into(),
        file_name: file.into(),
        shape: shape.into(),
        dtype: "F32".into(),
    };
    let rows = ["a", "b", "c"].into_iter().flat_map(|key| SHARDS.map(|file| row(key, file, &[2, 3])));
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("index");
    write(&path, rows.chain([row("scalar", SHARDS[0], &[])]), IndexLayout::File).expect("it is valid");
    std::fs::read(path).expect("it was written")
}
