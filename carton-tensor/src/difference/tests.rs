#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::any_file::{TensorFile, TensorFileError};
use crate::context::CancelToken;
use crate::files::RawTensor;
use crate::safetensors::{self, Metadata};
use crate::ztensor::{DigestAlgorithm, StoreAs, Writer};
use crate::{Element, NumericTensor, bf16, f16, npy};

#[derive(Debug)]
enum Failed {
    File(TensorFileError),
    Cancelled,
}

impl From<TensorFileError> for Failed {
    fn from(error: TensorFileError) -> Self {
        Self::File(error)
    }
}

impl From<Cancelled> for Failed {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

fn raw<T: Element>(elements: &[T]) -> RawTensor {
    RawTensor::from(&NumericTensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap())
}

fn safetensors_file(tensor: &RawTensor) -> TensorFile {
    let mut bytes = Vec::new();
    safetensors::write([("x", tensor)], &Metadata::default(), &mut bytes).unwrap();
    TensorFile::new(bytes, "x.safetensors").unwrap()
}

fn ztensor_file(tensor: &RawTensor, store: StoreAs) -> TensorFile {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add("x", tensor, store).unwrap();
    TensorFile::new(writer.finish().unwrap(), "x.zt").unwrap()
}

fn npz_file(tensor: &RawTensor) -> TensorFile {
    let mut bytes = std::io::Cursor::new(Vec::new());
    npy::write_npz(&mut bytes, [("x", &tensor.to_numeric().unwrap().into())]).unwrap();
    TensorFile::new(bytes.into_inner(), "x.npz").unwrap()
}

fn compare_with(a: &TensorFile, b: &TensorFile, options: &DifferenceOptions) -> Compared {
    compare_entries::<Failed>(&a.entry("x").unwrap(), &b.entry("x").unwrap(), options, &|_| Ok(())).unwrap()
}

fn compare(a: &TensorFile, b: &TensorFile) -> Compared {
    compare_with(a, b, &DifferenceOptions::default())
}

/// The number of differing elements, and the index, the elements and the difference of the largest.
fn found(compared: Compared) -> (u64, Vec<usize>, String, String, Option<f64>) {
    let Compared::Elements(found) = compared else { panic!("{compared:?}") };
    let largest = found.largest.unwrap();
    (found.differing, largest.index, largest.a, largest.b, largest.difference)
}

/// Elements in several pieces, and the second of two files has one other.
#[test]
fn one_element_is_found_in_every_pair_of_formats() {
    let n_elements = 2 * (1 << 17) + 100;
    let elements: Vec<f32> = (0..n_elements).map(|n| (n % 1000) as f32).collect();
    for position in [0, (1 << 17) - 1, 1 << 17, n_elements - 1] {
        let mut changed = elements.clone();
        changed[position] += 0.5;
        let files = |elements: &[f32]| {
            let tensor = raw(elements);
            [
                safetensors_file(&tensor),
                ztensor_file(&tensor, StoreAs::RAW),
                ztensor_file(&tensor, StoreAs::RAW.zstd(1)),
                npz_file(&tensor),
            ]
        };
        let (before, after) = (files(&elements), files(&changed));
        for a in &before {
            for b in &before {
                assert_eq!(compare(a, b), Compared::Same { by_digest: false });
            }
            for b in &after {
                let (n, index, ..) = found(compare(a, b));
                assert_eq!((n, index), (1, vec![position]));
            }
        }
    }
}

#[test]
fn types_are_compared_by_value_if_one_holds_both() {
    #[track_caller]
    fn check(a: RawTensor, b: RawTensor, expected: Option<(u64, &str, &str)>) {
        let compared = compare(&ztensor_file(&a, StoreAs::RAW), &ztensor_file(&b, StoreAs::RAW));
        match (expected, compared) {
            (None, Compared::No(_)) | (Some((0, ..)), Compared::Same { .. }) => {}
            (Some((n, a, b)), compared @ Compared::Elements(_)) => {
                let (differing, _, found_a, found_b, _) = found(compared);
                assert_eq!((differing, found_a.as_str(), found_b.as_str()), (n, a, b));
            }
            (expected, compared) => panic!("{expected:?}, {compared:?}"),
        }
    }
    let half = f16::from_f32(0.1);
    check(raw(&[half]), raw(&[half.to_f32()]), Some((0, "", "")));
    check(raw(&[half]), raw(&[0.1_f32]), Some((1, "0.0999755859375", "0.10000000149011612")));
    check(raw(&[bf16::from_f32(1.0)]), raw(&[f16::from_f32(1.5)]), Some((1, "1.0", "1.5")));
    check(raw(&[-1_i8, 3]), raw(&[-1_i64, 4]), Some((1, "3", "4")));
    check(raw(&[u64::MAX]), raw(&[255_u8]), Some((1, "18446744073709551615", "255")));
    check(raw(&[u64::MAX]), raw(&[-1_i8]), None);
    check(raw(&[1_i64]), raw(&[1.0_f64]), None);
    check(raw(&[i32::MAX]), raw(&[f64::from(i32::MAX)]), Some((0, "", "")));
    check(raw(&[crate::Complex::new(1.0_f32, 0.1)]), raw(&[crate::Complex::new(1.0_f64, 0.0)]), {
        Some((1, "1+0.10000000149011612i", "1+0i"))
    });
    check(raw(&[crate::Complex::new(1.0_f32, 0.0)]), raw(&[1.0_f32]), None);
    check(raw(&[crate::BoolByte::from(true)]), raw(&[1_u8]), Some((0, "", "")));
    // An `int64` that a `float64` does not hold is compared as it is.
    check(raw(&[(1_i64 << 53) + 1]), raw(&[1_i64 << 53]), Some((1, "9007199254740993", "9007199254740992")));
}

#[test]
fn types_of_less_than_a_byte_are_compared_element_by_element() {
    let tensor = |bytes: &[u8]| RawTensor::new(ElementType::Float4E2m1, vec![bytes.len() * 2], bytes.to_vec().into());
    let (a, b) = (tensor(&[0x21; 200_000]).unwrap(), {
        let mut bytes = vec![0x21; 200_000];
        // The higher half of a byte is the second of its elements: 1.0 becomes 6.0.
        bytes[150_000] = 0x71;
        tensor(&bytes).unwrap()
    });
    for (a, b) in
        [(safetensors_file(&a), safetensors_file(&b)), (ztensor_file(&a, StoreAs::RAW.zstd(1)), safetensors_file(&b))]
    {
        let expected = (1, vec![300_001], "1.0".to_owned(), "6.0".to_owned(), Some(5.0));
        assert_eq!(found(compare(&a, &b)), expected);
    }
}

#[test]
fn nan_and_zeros_follow_the_rule_of_self_tests() {
    let file = |elements: &[f32]| safetensors_file(&raw(elements));
    assert_eq!(compare(&file(&[f32::NAN, 0.0]), &file(&[-f32::NAN, -0.0])), Compared::Same { by_digest: false });
    let (n, index, a, b, difference) = found(compare(&file(&[1.0, 5.0, 1.0]), &file(&[9.0, 5.0, f32::NAN])));
    assert_eq!((n, index, a.as_str(), b.as_str()), (2, vec![2], "1.0", "NaN"));
    assert!(difference.unwrap().is_nan());
    let close = DifferenceOptions::default().tolerance(Tolerance::new(0.1, 0.0));
    assert_eq!(
        compare_with(&file(&[1.0, f32::NAN]), &file(&[1.05, f32::NAN]), &close),
        Compared::Same { by_digest: false }
    );
    let Compared::Elements(both) = compare(&file(&[100.0, 0.5, 0.0]), &file(&[90.0, 1.0, 1.0])) else { panic!() };
    let (largest, relative) = (both.largest.unwrap(), both.largest_relative.unwrap());
    assert_eq!((largest.index, largest.difference), (vec![0], Some(10.0)));
    assert_eq!((relative.index, relative.difference), (vec![1], Some(1.0)));
}

fn elements(compared: Compared) -> ElementsDifference {
    let Compared::Elements(found) = compared else { panic!("{compared:?}") };
    *found
}

/// The numbers are those of `numpy.dot(a, b) / (numpy.linalg.norm(a) * numpy.linalg.norm(b))` in float64.
#[test]
fn the_cosine_is_that_of_numpy() {
    #[track_caller]
    fn check(a: RawTensor, b: RawTensor, expected: Option<f64>, not_finite: u64) {
        let found = elements(compare(&safetensors_file(&a), &safetensors_file(&b)));
        let is_near = match (found.cosine, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() < 1e-15,
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_near && found.not_finite == not_finite, "{found:?}, {expected:?}");
    }
    check(raw(&[1.0_f32, 2.0, 3.0]), raw(&[1.0_f32, 2.0, 4.0]), Some(0.991_460_133_983_667_5), 0);
    check(raw(&[1.0_f64, -2.0]), raw(&[-1.0_f64, 2.0 + 1e-9]), Some(-1.0), 0);
    check(raw(&[1_i64, 2]), raw(&[2_i64, -1]), Some(0.0), 0);
    check(raw(&[f16::from_f32(1.5), f16::ONE]), raw(&[1.5_f32, 1.25]), Some(0.994_309_153_919_809_1), 0);
    check(
        raw(&[bf16::from_f32(1.5), bf16::ONE]),
        raw(&[bf16::from_f32(1.5), bf16::NEG_ONE]),
        Some(0.384_615_384_615_384_7),
        0,
    );
    let complex = |re: f32, im: f32| crate::Complex::new(re, im);
    // numpy.vdot(a, b).real / (numpy.linalg.norm(a) * numpy.linalg.norm(b))
    check(
        raw(&[complex(1.0, 2.0), complex(0.5, 0.0)]),
        raw(&[complex(1.0, -2.0), complex(0.0, 0.5)]),
        Some(-0.571_428_571_428_571_4),
        0,
    );
    check(raw(&[0.0_f32, 0.0]), raw(&[1.0_f32, 0.0]), None, 0);
    check(raw(&[1e200_f64, 1.0]), raw(&[1e200_f64, 2.0]), None, 0);
    // Elements that are not finite are left out of both.
    check(
        raw(&[1.0_f32, f32::NAN, 2.0, 5.0]),
        raw(&[1.0_f32, 7.0, 3.0, f32::INFINITY]),
        Some(0.989_949_493_661_166_5),
        2,
    );
}

/// Blocks in which all elements differ, and others with elements that are not finite, against a loop over all elements.
#[test]
fn every_element_counts() {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    let n_elements = 5 * 2048 + 13;
    let mut a: Vec<f32> = (0..n_elements).map(|_| next()).collect();
    let mut b: Vec<f32> = a.iter().map(|number| number + next() * 0.01).collect();
    (a[17], b[17], a[4100]) = (0.0, 0.004, 0.0);
    let check = |a: &[f32], b: &[f32], rtol: f64, atol: f64| {
        let (mut differing, mut largest, mut relative) = (0, (0.0, 0), (0.0, 0));
        for (position, (a, b)) in a.iter().zip(b).enumerate() {
            if (a - b).abs() <= atol as f32 + rtol as f32 * a.abs() || a == b {
                continue;
            }
            differing += 1;
            let distance = (f64::from(*a) - f64::from(*b)).abs();
            let severity = |difference: f64| if difference.is_nan() { f64::INFINITY } else { difference };
            if severity(distance) > largest.0 {
                largest = (severity(distance), position);
            }
            let of_a = severity(distance / f64::from(a.abs()));
            if *a != 0.0 && of_a > relative.0 {
                relative = (of_a, position);
            }
        }
        let options = DifferenceOptions::default().tolerance(Tolerance::new(rtol, atol));
        let found = elements(compare_with(&safetensors_file(&raw(a)), &safetensors_file(&raw(b)), &options));
        let (found_largest, found_relative) = (found.largest.unwrap(), found.largest_relative.unwrap());
        assert_eq!((found.differing, found_largest.index), (differing, vec![largest.1]));
        assert_eq!(found_relative.index, [relative.1]);
    };
    for tolerance in [(0.0, 0.0), (0.01, 0.0), (0.0, 0.002)] {
        check(&a, &b, tolerance.0, tolerance.1);
    }
    b[9000] = f32::INFINITY;
    check(&a, &b, 0.0, 0.0);
    b[3000] = f32::NAN;
    check(&a, &b, 0.0, 0.001);
}

/// Sums of floats depend on their order, which the kind of file and the number of threads must not change.
#[test]
fn the_cosine_is_the_same_however_tensors_are_read() {
    let numbers = |seed: u64| -> RawTensor {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 16_777_216.0 - 0.3
        };
        raw(&(0..(3 << 17) + 77).map(|_| next()).collect::<Vec<f32>>())
    };
    let (a, b) = (numbers(1), numbers(2));
    let expected = elements(compare(&safetensors_file(&a), &safetensors_file(&b))).cosine.unwrap();
    for n_threads in [1, 2, 5] {
        let options = DifferenceOptions { n_threads: Some(n_threads), ..DifferenceOptions::default() };
        for store in [StoreAs::RAW, StoreAs::RAW.zstd(1)] {
            let found = elements(compare_with(&safetensors_file(&a), &ztensor_file(&b, store), &options));
            assert_eq!(found.cosine.map(f64::to_bits), Some(expected.to_bits()));
        }
    }
    let in_memory = |tensor: &RawTensor| tensor.to_numeric().unwrap().into();
    let found = elements(compare_tensors(&in_memory(&a), &in_memory(&b), &DifferenceOptions::default()));
    assert_eq!(found.cosine.map(f64::to_bits), Some(expected.to_bits()));
}

/// Tensors whose files state the same SHA-256 are not read: the bytes of one are damaged here.
#[test]
fn stated_digests_are_compared_first() {
    let tensor = raw(&[1.0_f32; 100]);
    let store = StoreAs::RAW.digest(DigestAlgorithm::Sha256);
    let whole = ztensor_file(&tensor, store);
    let mut bytes = whole.bytes().read(0..whole.bytes().len()).unwrap().to_vec();
    let (_, range) = whole.entry("x").unwrap().location().unwrap();
    bytes[range.start as usize] ^= 1;
    let damaged = TensorFile::new(bytes, "damaged.zt").unwrap();
    assert_eq!(compare(&whole, &damaged), Compared::Same { by_digest: true });
    let all = DifferenceOptions::default().read_all(true);
    assert!(matches!(compare_with(&whole, &damaged, &all), Compared::Elements(_)));
    let crc = ztensor_file(&tensor, StoreAs::RAW.digest(DigestAlgorithm::Crc32c));
    assert_eq!(compare(&crc, &crc), Compared::Same { by_digest: false });
}

/// Whichever of the two is damaged, its error is returned, and nothing waits for ever.
#[test]
fn a_damaged_tensor_is_an_error() {
    let elements: Vec<u32> = (0..1_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
    let whole = ztensor_file(&raw(&elements), StoreAs::RAW.zstd(1));
    let mut bytes = whole.bytes().read(0..whole.bytes().len()).unwrap().to_vec();
    let stored = whole.entry("x").unwrap().as_ztensor().unwrap().component("data").unwrap().stored();
    bytes[stored.start as usize + 9..stored.end as usize].fill(0xff);
    let damaged = TensorFile::new(bytes, "damaged.zt").unwrap();
    for (a, b) in [(&whole, &damaged), (&damaged, &whole)] {
        let (a, b) = (a.entry("x").unwrap(), b.entry("x").unwrap());
        let error = compare_entries::<Failed>(&a, &b, &DifferenceOptions::default(), &|_| Ok(())).unwrap_err();
        assert!(
            matches!(&error, Failed::File(TensorFileError::ZTensor { place, .. }) if place == "damaged.zt"),
            "{error:?}"
        );
    }
}

#[test]
fn the_work_can_be_cancelled() {
    let elements = vec![0_u8; 1 << 20];
    let plain = safetensors_file(&raw(&elements));
    let compressed = ztensor_file(&raw(&elements), StoreAs::RAW.zstd(1));
    let token = CancelToken::default();
    token.cancel();
    for other in [&plain, &compressed] {
        let (a, b) = (plain.entry("x").unwrap(), other.entry("x").unwrap());
        let result = compare_entries::<Failed>(&a, &b, &DifferenceOptions::default(), &|_| token.check());
        assert!(matches!(result, Err(Failed::Cancelled)), "{result:?}");
    }
}

#[test]
fn tensors_in_memory_are_compared() {
    let compare = |a: &Tensor, b: &Tensor| compare_tensors(a, b, &DifferenceOptions::default());
    let strings = |elements: [&str; 2]| Tensor::from_strings(elements, vec![2]).unwrap();
    assert_eq!(compare(&strings(["a", "b"]), &strings(["a", "b"])), Compared::Same { by_digest: false });
    let expected = (1, vec![1], "\"b\"".to_owned(), "\"\\u{1b}[2J\"".to_owned(), None);
    assert_eq!(found(compare(&strings(["a", "b"]), &strings(["a", "\u{1b}[2J"]))), expected);
    let nested = |last: f32| {
        Tensor::nested(vec![Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap(), Tensor::scalar(last)]).unwrap()
    };
    assert_eq!(compare(&nested(1.0), &nested(1.0)), Compared::Same { by_digest: false });
    let Compared::Elements(all) = compare(&nested(1.0), &nested(3.0)) else { panic!() };
    let largest = all.largest.unwrap();
    assert_eq!((all.elements, all.differing, largest.tensor, largest.difference), (3, 1, Some(1), Some(2.0)));
    assert!(matches!(compare(&nested(1.0), &strings(["a", "b"])), Compared::Otherwise(_)));
}

#[test]
fn lists_are_compared_by_name() {
    let form =
        |name: &str, dtype: &str, shape: &[usize]| TensorForm::new(name, Some(dtype.to_owned()), Some(shape.to_vec()));
    let a = [form("gone", "float32", &[1]), form("same", "float32", &[2]), form("longer", "float32", &[2])];
    let b = [form("new", "float32", &[1]), form("longer", "float32", &[3]), form("same", "float32", &[2])];
    let mut called = Vec::new();
    let found = compare_lists::<()>(&a, &b, |a, _| {
        called.push(a.name.clone());
        Ok(Compared::Same { by_digest: false })
    });
    let found = found.unwrap();
    assert_eq!((called, found.same), (vec!["same".to_owned()], 1));
    let changes: Vec<_> = found.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.change)).collect();
    assert_eq!(
        changes,
        [("gone", TensorChange::Removed), ("longer", TensorChange::Shape), ("new", TensorChange::Added)]
    );
}
