//! Dates and times as counts of a unit, where the caller names one (spec/rows.md §3).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;

use super::fault::Fault;
use crate::error::ColumnProblem;

/// The nanoseconds of a day.
const DAY: i64 = 86_400 * nanoseconds(TimeUnit::Second);

/// Whether values are dates, timestamps, times of day or durations: counts of a fixed unit.
#[must_use]
pub fn are_times(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Date32 | T::Date64 | T::Timestamp(..) | T::Time32(_) | T::Time64(_) | T::Duration(_))
}

/// Counts the units of each value. Dates and timestamps are counted from 1970-01-01T00:00:00, in UTC where they have a time zone.
/// Other arrays stay.
pub(super) fn counts(array: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef, Fault> {
    use DataType as T;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match array.data_type() {
        T::Date32 => of::<Date32Type>(array, DAY, unit),
        T::Date64 => of::<Date64Type>(array, nanoseconds(Millisecond), unit),
        T::Timestamp(Second, _) => of::<TimestampSecondType>(array, nanoseconds(Second), unit),
        T::Timestamp(Millisecond, _) => of::<TimestampMillisecondType>(array, nanoseconds(Millisecond), unit),
        T::Timestamp(Microsecond, _) => of::<TimestampMicrosecondType>(array, nanoseconds(Microsecond), unit),
        T::Timestamp(Nanosecond, _) => of::<TimestampNanosecondType>(array, nanoseconds(Nanosecond), unit),
        T::Time32(Second) => of::<Time32SecondType>(array, nanoseconds(Second), unit),
        T::Time32(_) => of::<Time32MillisecondType>(array, nanoseconds(Millisecond), unit),
        T::Time64(Microsecond) => of::<Time64MicrosecondType>(array, nanoseconds(Microsecond), unit),
        T::Time64(_) => of::<Time64NanosecondType>(array, nanoseconds(Nanosecond), unit),
        T::Duration(Second) => of::<DurationSecondType>(array, nanoseconds(Second), unit),
        T::Duration(Millisecond) => of::<DurationMillisecondType>(array, nanoseconds(Millisecond), unit),
        T::Duration(Microsecond) => of::<DurationMicrosecondType>(array, nanoseconds(Microsecond), unit),
        T::Duration(Nanosecond) => of::<DurationNanosecondType>(array, nanoseconds(Nanosecond), unit),
        _ => Ok(array.clone()),
    }
}

const fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Counts the units in values that are each a number of `tick` nanoseconds.
fn of<T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &ArrayRef,
    tick: i64,
    unit: TimeUnit,
) -> Result<ArrayRef, Fault> {
    let mut counts = Vec::with_capacity(array.len());
    for (row, value) in array.as_primitive::<T>().iter().enumerate() {
        // A missing value stays missing, whatever lies in its place.
        let value: i64 = value.map_or(0, Into::into);
        let count = count(value, tick, nanoseconds(unit));
        counts.push(count.ok_or(Fault { row, problem: ColumnProblem::Time { unit: name(unit) } })?);
    }
    Ok(Arc::new(Int64Array::new(counts.into(), array.nulls().cloned())))
}

/// The number of units of `unit` nanoseconds in `value` ticks, if that is a whole number of 64 bits.
fn count(value: i64, tick: i64, unit: i64) -> Option<i64> {
    let (nanoseconds, unit) = (i128::from(value) * i128::from(tick), i128::from(unit));
    (nanoseconds % unit == 0).then(|| i64::try_from(nanoseconds / unit).ok())?
}

fn name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "milliseconds",
        TimeUnit::Microsecond => "microseconds",
        TimeUnit::Nanosecond => "nanoseconds",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::{Date32Array, DurationSecondArray, Time64MicrosecondArray, TimestampMillisecondArray};

    use super::*;

    /// Compares the counts with the expected ones, or the error.
    fn check(array: impl Array + 'static, unit: TimeUnit, expected: Result<&[Option<i64>], &str>) {
        let array: ArrayRef = Arc::new(array);
        assert!(are_times(array.data_type()));
        match counts(&array, unit) {
            Ok(found) => assert_eq!(
                found.as_primitive::<arrow_array::types::Int64Type>(),
                &Int64Array::from(expected.unwrap().to_vec())
            ),
            Err(Fault { row, problem }) => assert_eq!(format!("{row}: {problem}"), expected.unwrap_err()),
        }
    }

    #[test]
    fn times_are_counted_exactly() {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        check(Date32Array::from(vec![Some(1), None, Some(-1)]), Second, Ok(&[Some(86_400), None, Some(-86_400)]));
        check(TimestampMillisecondArray::from(vec![1_500, -1]), Microsecond, Ok(&[Some(1_500_000), Some(-1_000)]));
        check(TimestampMillisecondArray::from(vec![2_000]).with_timezone("+02:00"), Second, Ok(&[Some(2)]));
        check(Time64MicrosecondArray::from(vec![3_000]), Millisecond, Ok(&[Some(3)]));
        check(DurationSecondArray::from(vec![-7]), Nanosecond, Ok(&[Some(-7_000_000_000)]));
        check(
            TimestampMillisecondArray::from(vec![1_000, 1_500]),
            Second,
            Err("1: is no whole number of seconds, or has more than 64 bits"),
        );
        check(TimestampMillisecondArray::from(vec![i64::MIN]), Millisecond, Ok(&[Some(i64::MIN)]));
        check(
            Date32Array::from(vec![i32::MAX]),
            Nanosecond,
            Err("0: is no whole number of nanoseconds, or has more than 64 bits"),
        );
    }
}
