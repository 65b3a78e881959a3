//! The environment variables that a carton sets.

use super::*;

/// A file whose `[runner]` has these variables.
fn with(variables: &str) -> String {
    file("", &format!("[runner.env]\n{variables}"))
}

#[test]
fn variables_are_read_and_written() {
    let metadata = accepted(&with("OMP_NUM_THREADS = '1'\nLD_PRELOAD = ''"));
    let expected =
        BTreeMap::from([("LD_PRELOAD", ""), ("OMP_NUM_THREADS", "1")].map(|(n, v)| (n.to_owned(), v.to_owned())));
    assert_eq!(metadata.runner().env, expected);
    assert!(metadata.to_toml().contains("[runner.env]\nLD_PRELOAD = \"\"\nOMP_NUM_THREADS = \"1\"\n"));
    assert!(!accepted(&with("")).to_toml().contains("env"));
}

#[test]
fn variables_that_no_carton_sets_are_refused() {
    refused(&with("A = 1"), "runner.env.A");
    refused(&with("HOME = '/'"), "runner.env.HOME");
    refused(&with("CARTON_OFFLINE = '0'"), "runner.env.CARTON_OFFLINE");
    refused(&with("'A=B' = ''"), "runner.env.A=B");
    refused(&with("A = \"\\u0000\""), "runner.env.A");
    let many: String = (0..65).map(|index| format!("V{index} = ''\n")).collect();
    refused(&with(&many), "at most 64 variables");
    refused(&with(&format!("A = '{}'", "x".repeat(32 << 10))), "at most 32768 bytes");
}
