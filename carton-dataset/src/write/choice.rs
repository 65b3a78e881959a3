//! Chooses the attempts that a commit uses (spec/dataset.md §5.2): one complete attempt of each task. An attempt is complete if it has a
//! report.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;

use uuid::Uuid;

use super::commit_record::read_capped;
use super::staging::{REPORT, TASKS, folder};
use crate::error::DatasetError;
use crate::part_name::PartName;
use crate::report::TaskReport;

/// All attempts by task and id, with their reports if they are complete.
pub(super) type AttemptsByTask = BTreeMap<u32, BTreeMap<Uuid, Option<TaskReport>>>;

/// Finds the attempts below a dataset's folder, and reads their reports.
///
/// # Errors
/// [`DatasetError::Staging`] for a report that is invalid or contradicts the files; [`DatasetError::Io`].
pub(super) fn find(dataset: &Path) -> Result<AttemptsByTask, DatasetError> {
    let mut found = AttemptsByTask::new();
    for (task, attempt) in attempts(dataset)? {
        found.entry(task).or_default().insert(attempt, report(dataset, task, attempt)?);
    }
    Ok(found)
}

/// Lists the attempts below a dataset's folder: task and id.
///
/// # Errors
/// [`DatasetError::Io`].
pub(super) fn attempts(dataset: &Path) -> Result<Vec<(u32, Uuid)>, DatasetError> {
    let tasks = dataset.join(TASKS);
    let entries = match fs::read_dir(&tasks) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(DatasetError::io("read", &tasks)(error)),
    };
    let mut attempts = Vec::new();
    for entry in entries {
        let name = entry.map_err(DatasetError::io("read", &tasks))?.file_name();
        attempts.extend(name.to_str().and_then(parse_folder));
    }
    Ok(attempts)
}

/// Parses a task's number and an attempt's id from the name of its folder.
fn parse_folder(name: &str) -> Option<(u32, Uuid)> {
    let (task, attempt) = name.split_once('-')?;
    let (task, attempt) = (task.parse().ok()?, Uuid::try_parse(attempt).ok()?);
    (format!("{task:05}-{}", attempt.hyphenated()) == name).then_some((task, attempt))
}

/// Reads the report of an attempt and compares it with the files; `None` if there is no report.
fn report(dataset: &Path, task: u32, attempt: Uuid) -> Result<Option<TaskReport>, DatasetError> {
    let folder = folder(dataset, task, attempt);
    let path = folder.join(REPORT);
    let Some(json) = read_capped(&path)? else { return Ok(None) };
    let wrong = |problem: String| DatasetError::Staging { path: path.clone(), problem };
    let report: TaskReport = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
    if (report.task, report.attempt) != (task, attempt) {
        return Err(wrong("is the report of another attempt".to_owned()));
    }
    for (shard, number) in report.shards.iter().zip(0..) {
        if PartName::parse(&shard.shard_path) != Some(PartName { task, shard: number, attempt }) {
            return Err(wrong(format!("names `{}` as shard {number}", shard.shard_path.escape_debug())));
        }
        let path = folder.join(&shard.shard_path);
        let found = fs::symlink_metadata(&path).map_err(DatasetError::io("read", &path))?;
        if !found.is_file() || found.len() != shard.bytes {
            let problem = format!("{} bytes, expected a file of {}", found.len(), shard.bytes);
            return Err(DatasetError::Staging { path, problem });
        }
    }
    Ok(Some(report))
}

/// Chooses one complete attempt of each task: among the named ones, or, if none are named and the choice is clear, among all. Pure.
///
/// # Errors
/// Returns as text why they cannot become a dataset.
pub(super) fn choose(
    found: AttemptsByTask,
    named: Option<&[Uuid]>,
    n_tasks: Option<NonZeroU32>,
) -> Result<Vec<TaskReport>, String> {
    let chosen = match named {
        Some(named) => of_names(found, named)?,
        None => of_one_job(found)?,
    };
    let last = chosen.iter().map(|report| report.task).max().unwrap_or(0);
    // A caller that names attempts may leave out tasks, unless it gives their number.
    let expected = n_tasks.or((named.is_none()).then_some(NonZeroU32::MIN.saturating_add(last)));
    if let Some(expected) = expected {
        let tasks = chosen.iter().map(|report| report.task).collect();
        check_tasks(&tasks, expected, |missing| format!("no attempt at task {missing} is complete"))?;
    }
    Ok(chosen)
}

/// Checks that these are the tasks from 0 to `n_tasks` - 1.
///
/// # Errors
/// Returns as text which task is missing, in the words of `missing`, or is too many.
pub(super) fn check_tasks(
    tasks: &BTreeSet<u32>,
    n_tasks: NonZeroU32,
    missing: impl Fn(u32) -> String,
) -> Result<(), String> {
    let n_tasks = n_tasks.get();
    if let Some(task) = (0..n_tasks).find(|task| !tasks.contains(task)) {
        return Err(missing(task));
    }
    match tasks.last() {
        Some(last) if *last >= n_tasks => Err(format!("there is a task {last}, expected tasks 0 to {}", n_tasks - 1)),
        _ => Ok(()),
    }
}

/// Chooses an attempt of every task, provided that all complete attempts belong to one job.
fn of_one_job(found: AttemptsByTask) -> Result<Vec<TaskReport>, String> {
    let mut chosen: Vec<TaskReport> = Vec::new();
    for (task, attempts) in found {
        let n_attempts = attempts.len();
        let complete: Vec<TaskReport> = attempts.into_values().flatten().collect();
        let ids: Vec<String> = complete.iter().map(|report| report.attempt.to_string()).collect();
        let is_one_job = complete.iter().all(|report| report.job.is_some());
        let mut complete = complete.into_iter();
        let first =
            complete.next().ok_or_else(|| format!("none of the {n_attempts} attempts at task {task} is complete"))?;
        // All chosen attempts are of the same job.
        if let Some(other) = chosen.first().into_iter().chain(complete.as_slice()).find(|other| other.job != first.job)
        {
            let (one, another) = (first.attempt, other.attempt);
            return Err(format!("attempts {one} and {another} are of different jobs: name those that count"));
        }
        if ids.len() > 1 && !is_one_job {
            // The reports do not name their jobs.
            return Err(format!(
                "task {task} was written more than once, by attempts {}: name those that count",
                ids.join(", ")
            ));
        }
        chosen.push(first);
    }
    Ok(chosen)
}

fn of_names(found: AttemptsByTask, named: &[Uuid]) -> Result<Vec<TaskReport>, String> {
    let mut missing: BTreeSet<Uuid> = named.iter().copied().collect();
    let mut chosen: Vec<TaskReport> = Vec::new();
    for (task, attempts) in found {
        for (attempt, report) in attempts {
            if !missing.remove(&attempt) {
                continue;
            }
            let report = report.ok_or_else(|| format!("attempt {attempt} at task {task} is not complete"))?;
            if let Some(other) = chosen.last().filter(|other| other.task == task) {
                return Err(format!("attempts {} and {attempt} are both at task {task}", other.attempt));
            }
            chosen.push(report);
        }
    }
    match missing.first() {
        Some(attempt) => Err(format!("there is no attempt {attempt}")),
        None => Ok(chosen),
    }
}
