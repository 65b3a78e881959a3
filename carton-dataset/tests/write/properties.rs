//! Property tests: writes arbitrary columns and rows, and reads them back.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, FixedSizeListBuilder, Float32Builder, Int64Builder, ListBuilder, UInt16Builder,
};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use carton_dataset::TailStrategy;
use carton_tensor::files::ElementType;
use proptest::prelude::*;

use crate::support::{batch_mode, dataset, key_value_mode, shards};

/// A column of one kind. The elements of its row `row` identify column and row.
fn column(kind: usize, position: usize, rows: &[usize], length: usize) -> ArrayRef {
    let value = |row: usize, element: usize| (position * 1_000_000 + row * 100 + element) as u32;
    match kind {
        0 => {
            let mut builder = Int64Builder::new();
            rows.iter().for_each(|row| builder.append_value(value(*row, 0).into()));
            Arc::new(builder.finish())
        }
        1 => {
            let mut builder = FixedSizeListBuilder::new(Float32Builder::new(), length as i32);
            for row in rows {
                (0..length).for_each(|element| builder.values().append_value((value(*row, element) % 65_536) as f32));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        2 => {
            let mut builder = ListBuilder::new(UInt16Builder::new());
            for row in rows {
                (0..length).for_each(|element| builder.values().append_value(value(*row, element) as u16));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = BinaryBuilder::new();
            for row in rows {
                let bytes: Vec<u8> = (0..length).flat_map(|element| value(*row, element).to_le_bytes()).collect();
                builder.append_value(bytes);
            }
            Arc::new(builder.finish())
        }
    }
}

/// The expected bytes of a row in such a column.
fn expected(kind: usize, position: usize, row: usize, length: usize) -> Vec<u8> {
    let value = |element: usize| (position * 1_000_000 + row * 100 + element) as u32;
    match kind {
        0 => i64::from(value(0)).to_le_bytes().to_vec(),
        1 => (0..length).flat_map(|element| ((value(element) % 65_536) as f32).to_le_bytes()).collect(),
        2 => (0..length).flat_map(|element| (value(element) as u16).to_le_bytes()).collect(),
        _ => (0..length).flat_map(|element| value(element).to_le_bytes()).collect(),
    }
}

/// The rows `0..n_rows`, cut into record batches, each a slice of a larger one.
fn batches(columns: &[(usize, usize)], n_rows: usize, cuts: &[usize]) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    let mut start = 0;
    for cut in cuts.iter().copied().cycle() {
        let end = (start + cut).min(n_rows);
        // Adds a row before and one after, which the slice cuts off again.
        let rows: Vec<usize> = (start..end + 2).map(|row| row.wrapping_sub(1) % 1000).collect();
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("row {row:04}"))));
        let tensors = columns
            .iter()
            .enumerate()
            .map(|(position, (kind, length))| (format!("c{position}"), column(*kind, position, &rows, *length)));
        let batch = RecordBatch::try_from_iter([("name".to_owned(), names)].into_iter().chain(tensors)).unwrap();
        batches.push(batch.slice(1, end - start));
        start = end;
        if start == n_rows {
            return batches;
        }
    }
    batches
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_row_is_found_again(
        columns in prop::collection::vec((0..4_usize, 1..5_usize), 1..4),
        n_rows in 0..40_usize,
        cuts in prop::collection::vec(1..9_usize, 1..4),
        batch_size in 1..12_usize,
        target in 1..6000_u64,
    ) {
        let mut options = batch_mode(batch_size, TailStrategy::Write);
        options.columns = Some((0..columns.len()).map(|position| format!("c{position}")).collect());
        for (position, (kind, _)) in columns.iter().enumerate() {
            if *kind == 3 {
                options.dtypes.insert(format!("c{position}"), ElementType::Uint32);
            }
        }
        let folder = tempfile::tempdir().unwrap();
        dataset(folder.path(), &options, batches(&columns, n_rows, &cuts)).unwrap();
        let shards_found = shards(folder.path());
        prop_assert_eq!(shards_found.len(), n_rows.div_ceil(batch_size));
        for (position, (kind, length)) in columns.iter().enumerate() {
            let name = format!("c{position}");
            let found: Vec<u8> = shards_found.iter().flat_map(|shard| shard[&name].2.clone()).collect();
            let rows: Vec<u8> = (0..n_rows).flat_map(|row| expected(*kind, position, row, *length)).collect();
            prop_assert_eq!(found, rows);
            let n_found: usize = shards_found.iter().map(|shard| shard[&name].1[0]).sum();
            prop_assert_eq!(n_found, n_rows);
        }

        options.mode = key_value_mode(target).mode;
        let folder = tempfile::tempdir().unwrap();
        let manifest = dataset(folder.path(), &options, batches(&columns, n_rows, &cuts)).unwrap();
        prop_assert_eq!(manifest.total_samples(), n_rows as u64);
        let mut found: Vec<(String, Vec<u8>)> = shards(folder.path())
            .into_iter().flatten().map(|(name, tensor)| (name, tensor.2)).collect();
        found.sort();
        let mut rows: Vec<(String, Vec<u8>)> = (0..n_rows)
            .flat_map(|row| columns.iter().enumerate().map(move |(position, (kind, length))| {
                (format!("row {row:04}__c{position}"), expected(*kind, position, row, *length))
            }))
            .collect();
        rows.sort();
        prop_assert_eq!(found, rows);
    }
}
