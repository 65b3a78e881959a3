//! Tests the kernels on every instruction set of this CPU against plain code and independent tables. `tests/weights_numpy.rs` compares
//! them with NumPy.

#![allow(clippy::unwrap_used)]

use half::{bf16, f16};

use super::block::Source;
use super::widen::*;
use super::*;

/// Widens the elements, and checks that every instruction set gives the same.
fn widened<S: Source<Wide = f32>>(bytes: &[u8]) -> Vec<f32> {
    let at = |level: Level| {
        let mut wide = vec![0.0; bytes.len() * 8 / S::BITS];
        S::widen(level.instructions(), bytes, &mut wide);
        wide
    };
    let best = at(Level::best());
    for level in Level::available() {
        at(level).into_iter().zip(&best).for_each(|(one, &other)| assert_same(one, other, level));
    }
    best
}

#[track_caller]
fn assert_same(actual: f32, expected: f32, what: impl std::fmt::Debug) {
    assert!(
        actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan(),
        "{what:?}: {actual} {expected}"
    );
}

#[test]
fn halves_are_widened_as_the_half_crate_does() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for (bits, (half, brain)) in (0..=u16::MAX).zip(widened::<F16>(&bytes).into_iter().zip(widened::<Bf16>(&bytes))) {
        assert_same(half, f16::from_bits(bits).to_f32(), bits);
        assert_same(brain, bf16::from_bits(bits).to_f32(), bits);
    }
    for n_elements in [0, 1, 7, 8, 9, 15, 16, 17, 31] {
        assert_eq!(widened::<F16>(&0x3c00_u16.to_le_bytes().repeat(n_elements)), vec![1.0; n_elements]);
    }
}

/// Compares all kernels on many patterns of a narrow type with plain loops over the widened numbers.
fn check_narrow<S: Source<Wide = f32>>(n_elements: usize) {
    let bytes: Vec<u8> = (0..n_elements * S::BITS / 8).map(|index| (index * 31 % 251) as u8).collect();
    let numbers = widened::<S>(&bytes);
    let expected = plain_moments(&numbers);
    let magnitude = numbers.iter().filter(|number| number.is_finite()).fold(0.0_f32, |one, other| one.max(other.abs()));
    let n_other = expected.n_nan + expected.n_infinite;
    let scale = Scale::of(magnitude);
    let mut one_by_one = vec![0_i8; n_elements];
    for (out, number) in one_by_one.chunks_mut(1).zip(numbers.chunks(1)) {
        quantize::<F32>(Level::best(), bytemuck::cast_slice(number), Quantized { scale, out, others: true });
    }
    for level in Level::available() {
        let found = moments::<S>(level, &bytes);
        assert_eq!(
            (found.n_finite, found.n_nan, found.n_infinite, found.min, found.max),
            (expected.n_finite, expected.n_nan, expected.n_infinite, expected.min, expected.max)
        );
        assert!((found.mean - expected.mean).abs() <= 1e-12 * f64::from(magnitude), "{found:?}, {expected:?}");
        assert_eq!(largest::<S>(level, &bytes), Largest { magnitude, n_other });
        for others in [true, n_other > 0] {
            let mut out = vec![99; n_elements];
            quantize::<S>(level, &bytes, Quantized { scale, out: &mut out, others });
            assert_eq!(out, one_by_one);
        }
    }
}

#[test]
fn narrow_types_are_looked_at_whole() {
    // Larger than a large block.
    check_narrow::<F4>(270_004);
    check_narrow::<F8E5m2>(270_004);
    for n_elements in [4, 60, 68, 16_388] {
        check_narrow::<F4>(n_elements);
        check_narrow::<F6E2m3>(n_elements);
        check_narrow::<F6E3m2>(n_elements);
        check_narrow::<F8E5m2>(n_elements);
        check_narrow::<F8E8m0>(n_elements);
        check_narrow::<Bf16>(n_elements);
        check_narrow::<F16>(n_elements);
    }
}

#[test]
fn every_number_is_looked_at_once_on_every_instruction_set() {
    for n_elements in (0..300).chain([4096, 16_383, 16_384, 16_385, 17_000, 70_001]) {
        // Whole numbers, whose sums are exact in any order.
        let numbers: Vec<f32> = (0..n_elements).map(|index| (index % 1023) as f32 - 300.0).collect();
        let halves: Vec<f16> = numbers.iter().map(|&number| f16::from_f32(number)).collect();
        let doubles: Vec<f64> = numbers.iter().map(|&number| f64::from(number)).collect();
        let sum: f64 = doubles.iter().sum();
        let largest_magnitude = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let scale = Scale::of(127.0_f32);
        let clamped: Vec<i8> = numbers.iter().map(|number| number.clamp(-128.0, 127.0) as i8).collect();
        for level in Level::available() {
            for moments in [
                moments::<F32>(level, bytemuck::cast_slice(&numbers)),
                moments::<F16>(level, bytemuck::cast_slice(&halves)),
                moments::<F64>(level, bytemuck::cast_slice(&doubles)),
            ] {
                assert_eq!(moments.n_finite, n_elements as u64);
                assert!((moments.mean * n_elements as f64 - sum).abs() < 1e-6, "{level:?}, {n_elements}: {moments:?}");
            }
            for magnitude in [
                largest::<F32>(level, bytemuck::cast_slice(&numbers)).magnitude,
                largest::<F16>(level, bytemuck::cast_slice(&halves)).magnitude,
                largest::<F64>(level, bytemuck::cast_slice(&doubles)).magnitude as f32,
            ] {
                assert_eq!(magnitude, largest_magnitude, "{level:?}, {n_elements}");
            }
            let mut out = [vec![99; n_elements], vec![99; n_elements], vec![99; n_elements]];
            let [single, half, double] = &mut out;
            quantize::<F32>(level, bytemuck::cast_slice(&numbers), Quantized { scale, out: single, others: false });
            quantize::<F16>(level, bytemuck::cast_slice(&halves), Quantized { scale, out: half, others: false });
            let scale = Scale::of(127.0_f64);
            quantize::<F64>(level, bytemuck::cast_slice(&doubles), Quantized { scale, out: double, others: false });
            assert!(out.iter().all(|out| *out == clamped), "{level:?}, {n_elements}");
        }
    }
}

type Widen = fn(&[u8]) -> Vec<f32>;

/// Computes a value in float64 from sign, exponent and mantissa, as the formats define them.
fn by_definition(bits: u8, exponent_bits: u32, mantissa_bits: u32, bias: i32) -> f32 {
    let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    let exponent = i32::from(bits >> mantissa_bits & ((1 << exponent_bits) - 1));
    let magnitude =
        if exponent == 0 { mantissa * 2_f64.powi(1 - bias) } else { (1.0 + mantissa) * 2_f64.powi(exponent - bias) };
    let negative = bits >> (exponent_bits + mantissa_bits) & 1 == 1;
    (if negative { -magnitude } else { magnitude }) as f32
}

#[test]
fn small_floats_are_widened_by_definition() {
    let bytes: Vec<u8> = (0..=255).collect();
    let all: [(Widen, (u32, u32, i32)); 4] = [
        (widened::<F8E4m3>, (4, 3, 7)),
        (widened::<F8E5m2>, (5, 2, 15)),
        (widened::<F8E4m3Fnuz>, (4, 3, 8)),
        (widened::<F8E5m2Fnuz>, (5, 2, 16)),
    ];
    for (index, (widen, (exponent, mantissa, bias))) in all.into_iter().enumerate() {
        for (bits, number) in (0..=255).zip(widen(&bytes)) {
            let expected = match (index, bits) {
                (0, 0x7f | 0xff) | (2 | 3, 0x80) => f32::NAN,
                (1, 0x7c) => f32::INFINITY,
                (1, 0xfc) => f32::NEG_INFINITY,
                (1, 0x7d..=0x7f | 0xfd..) => f32::NAN,
                _ => by_definition(bits, exponent, mantissa, bias),
            };
            assert_same(number, expected, (index, bits));
        }
    }
    for (bits, number) in (0..=255_u8).zip(widened::<F8E8m0>(&bytes)) {
        let expected = if bits == 255 { f32::NAN } else { 2_f64.powi(i32::from(bits) - 127) as f32 };
        assert_same(number, expected, bits);
    }
    for (byte, pair) in (0..=255_u8).zip(widened::<F4>(&bytes).chunks_exact(2)) {
        assert_same(pair[0], by_definition(byte & 15, 2, 1, 1), byte);
        assert_same(pair[1], by_definition(byte >> 4, 2, 1, 1), byte);
    }
    for bits in 0..64_u8 {
        let group = u32::from(bits) | u32::from(63 - bits) << 6 | u32::from(bits ^ 21) << 12 | u32::from(bits) << 18;
        let group = &group.to_le_bytes()[..3];
        let expected = [bits, 63 - bits, bits ^ 21, bits];
        for (index, &bits) in expected.iter().enumerate() {
            assert_same(widened::<F6E2m3>(group)[index], by_definition(bits, 2, 3, 1), bits);
            assert_same(widened::<F6E3m2>(group)[index], by_definition(bits, 3, 2, 3), bits);
        }
    }
}

/// Numbers that are hard to sum: a large mean with a small spread, a single outlier, and some that are not finite.
fn cases() -> Vec<Vec<f32>> {
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    let mut cases = vec![vec![], vec![0.0], vec![-3.5], vec![f32::NAN], vec![f32::INFINITY, f32::NAN]];
    cases.push([[0.0; 20_000], [-0.0; 20_000]].concat());
    for n in [1, 15, 16, 17, 4095, 4096, 4097, 16_383, 16_384, 16_385, 40_000] {
        cases.push((0..n).map(|_| random()).collect());
        cases.push((0..n).map(|_| 1e6 + random()).collect());
        cases.push((0..n).map(|index| if index == 0 { 1e30 } else { random() }).collect());
        cases.push((0..n).map(|index| if index == n / 2 { -1e30 } else { random() }).collect());
        cases.push((0..n).map(|index| if index % 5 == 2 { f32::NAN } else { 1e3 + random() }).collect());
        cases.push((0..n).map(|index| if index % 977 == 0 { f32::NEG_INFINITY } else { random() }).collect());
        cases.push((0..n).map(|_| f32::MIN_POSITIVE / 64.0 * random()).collect());
        cases.push(vec![0.1; n]);
        cases.push(vec![f32::NAN; n]);
    }
    cases
}

/// Computes the moments in two passes with compensated sums.
fn plain_moments(values: &[f32]) -> Moments {
    let finite: Vec<f64> = values.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value)).collect();
    let sum = |terms: &mut dyn Iterator<Item = f64>| {
        let (mut sum, mut rest) = (0.0_f64, 0.0);
        for term in terms {
            let next = sum + term;
            rest += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
            sum = next;
        }
        sum + rest
    };
    let n = finite.len() as f64;
    let mean = if finite.is_empty() { 0.0 } else { sum(&mut finite.iter().copied()) / n };
    let mut squares = sum(&mut finite.iter().map(|value| (value - mean) * (value - mean)));
    // Removes the rounding error of the mean.
    let off = sum(&mut finite.iter().map(|value| value - mean));
    if !finite.is_empty() {
        squares -= off * off / n;
    }
    Moments {
        n_finite: finite.len() as u64,
        mean,
        squares,
        min: finite.iter().copied().fold(f64::INFINITY, f64::min),
        max: finite.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        n_nan: values.iter().filter(|value| value.is_nan()).count() as u64,
        n_infinite: values.iter().filter(|value| value.is_infinite()).count() as u64,
    }
}

#[test]
fn moments_are_as_good_as_two_compensated_passes() {
    for values in cases() {
        let expected = plain_moments(&values);
        let wide: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
        for level in Level::available() {
            for actual in [
                moments::<F32>(level, bytemuck::cast_slice(&values)),
                moments::<F64>(level, bytemuck::cast_slice(&wide)),
            ] {
                let context = format!("{level:?}, {} numbers: {actual:?}, expected {expected:?}", values.len());
                assert_eq!(
                    (actual.n_finite, actual.n_nan, actual.n_infinite, actual.min, actual.max),
                    (expected.n_finite, expected.n_nan, expected.n_infinite, expected.min, expected.max),
                    "{context}"
                );
                let spread = (expected.squares / expected.n_finite.max(1) as f64).sqrt();
                assert!((actual.mean - expected.mean).abs() <= 1e-13 * (spread + expected.mean.abs()), "{context}");
                // Equal numbers have no spread. What the compensated sums leave is the rounding error of the mean.
                let tolerance = 2e-12 * expected.squares + 1e-25 * expected.mean * expected.mean;
                assert!((actual.squares - expected.squares).abs() <= tolerance, "{context}");
            }
        }
    }
}

#[test]
fn a_spread_far_below_the_mean_is_found() {
    // The textbook formula gives 0 or a negative number here, even in float64.
    let values: Vec<f64> = (0..100_000).map(|index| 1e9 + f64::from(index % 2)).collect();
    for level in Level::available() {
        let moments = moments::<F64>(level, bytemuck::cast_slice(&values));
        assert_eq!((moments.mean, moments.standard_deviation()), (1e9 + 0.5, 0.5));
    }
}

#[test]
fn instruction_sets_and_addresses_agree_to_the_last_bit() {
    for values in cases() {
        let mut bytes = vec![0];
        bytes.extend_from_slice(bytemuck::cast_slice(&values));
        let aligned = moments::<F32>(Level::best(), bytemuck::cast_slice(&values));
        let scale = Scale::of(largest::<F32>(Level::best(), bytemuck::cast_slice(&values)).magnitude);
        for level in Level::available() {
            let actual = moments::<F32>(level, &bytes[1..]);
            assert_eq!(actual, aligned);
            let bits = |moments: Moments| [moments.mean, moments.min, moments.max].map(f64::to_bits);
            assert_eq!(bits(actual), bits(aligned));
            let mut quantized = [vec![1_i8; values.len()], vec![2; values.len()]];
            for (out, level) in quantized.iter_mut().zip([level, Level::best()]) {
                quantize::<F32>(level, &bytes[1..], Quantized { scale, out, others: true });
            }
            assert_eq!(quantized[0], quantized[1]);
        }
    }
}

#[test]
fn parts_in_any_number_give_the_whole() {
    for values in cases() {
        let whole = plain_moments(&values);
        for size in [1, 7, 1000, 5000] {
            let parts = values.chunks(size).map(|part| moments::<F32>(Level::best(), bytemuck::cast_slice(part)));
            let merged = parts.fold(Moments::NONE, Moments::merge);
            assert_eq!((merged.n_finite, merged.min, merged.max), (whole.n_finite, whole.min, whole.max));
            assert!((merged.mean - whole.mean).abs() <= 1e-11 * (whole.mean.abs() + 1.0));
            assert!((merged.squares - whole.squares).abs() <= 1e-9 * whole.squares + 1e-25 * whole.mean * whole.mean);
        }
    }
}

/// Checks every instruction set, with aligned and unaligned numbers.
fn check_quantized(values: &[f32], expected: &[i8], expected_scale: f64) {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let shifted = [&[0], bytes].concat();
    for level in Level::available() {
        for bytes in [bytes, &shifted[1..]] {
            let largest = largest::<F32>(level, bytes);
            let scale = Scale::of(largest.magnitude);
            let mut out = vec![99; values.len()];
            quantize::<F32>(level, bytes, Quantized { scale, out: &mut out, others: largest.n_other > 0 });
            assert_eq!((out.as_slice(), scale.as_f64()), (expected, expected_scale), "{level:?}");
            assert_eq!(largest.n_other, values.iter().filter(|value| !value.is_finite()).count() as u64);
        }
    }
}

#[test]
fn quantization_follows_the_rule() {
    check_quantized(&[-2.0, -1.0, 0.5, 1.5], &[-127, -64, 32, 95], 63.5);
    check_quantized(&[-0.5, -0.25, 0.1, 0.5], &[-127, -64, 25, 127], 254.0);
    check_quantized(&[], &[], 1.0);
    check_quantized(&[0.0, -0.0], &[0, 0], 1.0);
    check_quantized(&[f32::NAN, f32::INFINITY, 0.0], &[0, 0, 0], 1.0);
    check_quantized(&[f32::NAN, 1.0, f32::NEG_INFINITY, -0.5], &[0, 127, 0, -64], 127.0);
    check_quantized(&[f32::MAX, f32::MIN, f32::MAX / 2.0], &[127, -127, 64], f64::from(127.0 / f32::MAX));
}

#[test]
fn tiny_numbers_keep_their_precision() {
    for power in [-149, -140, -130, -126, -120] {
        let one = 2_f64.powi(power) as f32;
        check_quantized(&[one, -one, 0.0], &[127, -127, 0], 127.0 / f64::from(one));
    }
    let tiny: [f64; 3] = [5e-324, -5e-324, 0.0];
    let largest = largest::<F64>(Level::best(), bytemuck::cast_slice(&tiny));
    assert_eq!(Scale::of(largest.magnitude).as_f64(), f64::MAX);
}

#[test]
fn tiny_numbers_are_lifted_in_whole_chunks() {
    let tiny = 2_f64.powi(-130) as f32;
    // Two chunks and four numbers.
    let mut numbers = [tiny, -tiny, 0.0, tiny / 2.0].repeat(33);
    let mut expected = [127, -127, 0, 64].repeat(33);
    check_quantized(&numbers, &expected, 127.0 / f64::from(tiny));
    for (position, value) in [(5, f32::NAN), (131, f32::INFINITY)] {
        (numbers[position], expected[position]) = (value, 0);
    }
    check_quantized(&numbers, &expected, 127.0 / f64::from(tiny));
}

fn check_one_not_finite<S: Source<Wide = f32>>(one: u16, other: u16) {
    // In each of two chunks, and in the rest after them.
    for position in [0, 63, 64, 127, 130] {
        let mut bits = [one; 131];
        bits[position] = other;
        for level in Level::available() {
            let found = largest::<S>(level, bytemuck::cast_slice(&bits));
            assert_eq!(found, Largest { magnitude: 1.0, n_other: 1 }, "{level:?}, {other:#x} at {position}");
        }
    }
}

#[test]
fn one_number_of_16_bits_that_is_not_finite_is_found() {
    for other in [f16::INFINITY, f16::NEG_INFINITY, f16::NAN] {
        check_one_not_finite::<F16>(f16::ONE.to_bits(), other.to_bits());
    }
    for other in [bf16::INFINITY, bf16::NEG_INFINITY, bf16::NAN] {
        check_one_not_finite::<Bf16>(bf16::ONE.to_bits(), other.to_bits());
    }
}
