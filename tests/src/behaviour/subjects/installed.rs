//! Runners that were installed for the tests: `CARTON_TEST_RUNNERS` names their folder, `scripts/test` fills it.

use std::path::{Path, PathBuf};

use carton_core::config::Config;

use crate::ordinary_user;
use crate::place::TestPlace;

fn folder() -> Option<PathBuf> {
    std::env::var_os("CARTON_TEST_RUNNERS").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Returns the reason why a runner of this name, and of a version that begins with these numbers, cannot be tested here.
pub(super) fn unavailable(name: &str, series: &str) -> Option<String> {
    let Some(folder) = folder() else {
        return Some(format!("CARTON_TEST_RUNNERS names no folder where {name} is installed"));
    };
    let is_wanted = |path: &Path| {
        let descriptor = std::fs::read_to_string(path.join("runner.toml")).ok()?.parse::<toml::Table>().ok()?;
        let runners = descriptor.get("runner")?.as_array()?;
        Some(runners.iter().any(|runner| {
            let field = |field: &str| runner.get(field).and_then(|value| value.as_str()).unwrap_or_default();
            field("runner_name") == name && field("framework_version").starts_with(&format!("{series}."))
        }))
    };
    let found = std::fs::read_dir(&folder).ok()?.flatten().any(|entry| is_wanted(&entry.path()) == Some(true));
    (!found).then(|| format!("no {name} {series} is installed in {}", folder.display()))
}

/// Returns a configuration with the installed runners, which share one data folder for all tests of a user.
pub(super) fn config(place: &TestPlace) -> Config {
    let runner_dir = folder().unwrap_or_default();
    let mut config = place.config();
    let theirs = ordinary_user::is_current().then(|| std::env::temp_dir().join("runners.data"));
    config.runner_data_dir = theirs.unwrap_or_else(|| runner_dir.with_extension("data"));
    config.runner_dir = runner_dir;
    config
}
