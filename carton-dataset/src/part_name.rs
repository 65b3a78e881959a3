//! Names of shards (spec/dataset.md §2): `part-00003-0001-550e8400-e29b-41d4-a716-446655440000.safetensors`. Pure.

use std::fmt;

use uuid::Uuid;

/// Identifies a shard: its task, its number within the task, and the attempt that wrote it.
///
/// ```
/// use carton_dataset::PartName;
/// let name = "part-00003-0001-550e8400-e29b-41d4-a716-446655440000.safetensors";
/// let part = PartName::parse(name).ok_or("is none")?;
/// assert_eq!((part.task, part.shard, part.to_string().as_str()), (3, 1, name));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartName {
    /// The task that wrote it; at least five digits in the name.
    pub task: u32,
    /// Its number among the shards of the task; at least four digits in the name.
    pub shard: u32,
    /// The id of the attempt at the task. It tells apart attempts that are retries or run at the same time.
    pub attempt: Uuid,
}

impl PartName {
    /// Parses a file name. Returns `None` if it is not the name of a shard.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("part-")?.strip_suffix(".safetensors")?.splitn(3, '-');
        let (task, shard, attempt) = (parts.next()?, parts.next()?, parts.next()?);
        let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
        let part = Self { task: number(task)?, shard: number(shard)?, attempt: Uuid::try_parse(attempt).ok()? };
        // Accepts only the spelling that `Display` writes, so that each shard has one name.
        (part.to_string() == name).then_some(part)
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part-{:05}-{:04}-{}.safetensors", self.task, self.shard, self.attempt.hyphenated())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_no_shards() {
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        let check = |name: String, is_part: bool| assert_eq!(PartName::parse(&name).is_some(), is_part, "{name}");
        check(format!("part-00003-0001-{uuid}.safetensors"), true);
        check(format!("part-100000-10000-{uuid}.safetensors"), true);
        check(format!("part-3-0001-{uuid}.safetensors"), false);
        check(format!("part-+0003-0001-{uuid}.safetensors"), false);
        check(format!("part-00003-0001-{}.safetensors", uuid.to_uppercase()), false);
        check(format!("part-00003-0001-{}.safetensors", uuid.replace('-', "")), false);
        check(format!("part-00003-0001-{uuid}.safetensors.tmp"), false);
        check(format!("part-99999999999-0001-{uuid}.safetensors"), false);
        check("part-00003-0001.safetensors".to_owned(), false);
        check("part-é-é-é.safetensors".to_owned(), false);
    }
}
