//! Runs all tests once more as a user without privileges, when the current user is root.

use crate::sources::Sources;

#[test]
fn an_ordinary_user_is_contained_too() {
    if Sources::find().is_none() {
        return;
    }
    let Some((text, folder)) = carton_tests::ordinary_user::run_again() else { return };
    // What a sandbox that failed has left there can be too deep for this process.
    crate::host::remove(&folder.keep());
    // The second run must not skip these tests.
    assert!(!text.contains("skipped: tests of Python models"), "{text}");
}
