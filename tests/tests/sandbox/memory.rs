//! Memory that the host lends: what is sealed does not change, with the sandbox and without it.

use serde_json::json;

use crate::attempt::{Attempt, Scene, check_all};

fn regions(scene: &Scene<'_>) -> Vec<Attempt> {
    let _ = scene;
    let names = [
        "write_to_region",
        "write_to_reopened_region",
        "map_region_for_writing",
        "map_reopened_region_for_writing",
        "unprotect_region",
        "write_region_by_own_memory",
        "write_region_as_own_process",
        "shrink_region",
        "grow_region",
        "punch_region",
        "remove_pages_of_region",
        "seal_region",
    ];
    let mut attempts = Vec::new();
    for name in names {
        // Without seals the way works: it is the seals that contain it. Two ways have been closed by the kernel itself.
        let is_closed = ["write_region_by_own_memory", "write_region_as_own_process"].contains(&name);
        let unsealed = Attempt::new(name, json!({"region": "unsealed"})).only_without();
        attempts.push(unsealed.never_works_if(is_closed));
        let errors = &["EFAULT", "EIO", "EINVAL", "EBADF", "the memory has not changed"];
        attempts
            .push(Attempt::new(name, json!({"region": "host"})).contained_anyway().with_region().or_fails_with(errors));
    }
    attempts
}

#[tokio::test]
async fn memory_of_the_host_is_not_changed() {
    check_all(regions).await;
}
