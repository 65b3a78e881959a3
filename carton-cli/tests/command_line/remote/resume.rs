//! A download of a gigabyte that is killed a hundred times.

use std::time::{Duration, Instant};

use carton_test_server::nginx::{Logged, Nginx};
use carton_tests::weights;

use super::{Random, cache, files_below, publish, room, sent};
use crate::sandbox::{Sandbox, outcome};

const GIBIBYTE: u64 = 1 << 30;
const N_KILLS: u64 = 100;

/// Kills the command at random moments: mostly after some more bytes are on the disk, so that the kills are spread over the whole
/// download; otherwise after a random time, so that they also hit the steps before it.
#[test]
fn a_download_is_killed_a_hundred_times_and_is_right() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = Sandbox::new();
    let model = sandbox.work().join("model.bin");
    weights::write_file(&model, GIBIBYTE, 1);
    let url = publish(&sandbox, &nginx, &model, "large.carton");
    let _ = std::fs::remove_dir_all(cache(&sandbox));

    let start = Instant::now();
    let mut random = Random(100);
    let mut moments = Vec::new();
    while (moments.len() as u64) < N_KILLS {
        let n_left = N_KILLS - moments.len() as u64;
        let before = room(&cache(&sandbox));
        let rest = GIBIBYTE.saturating_sub(before);
        let more = random.below(2 * rest / (n_left + 1) + 1);
        let patience = Duration::from_millis(if random.below(4) == 0 { random.below(200) } else { 60_000 });
        let mut child = sandbox.command(["run", &url, "--progress", "none"]).spawn().unwrap();
        let started = Instant::now();
        while room(&cache(&sandbox)) < before + more && started.elapsed() < patience {
            if let Some(status) = child.try_wait().unwrap() {
                let output = child.wait_with_output().unwrap();
                let stderr = String::from_utf8_lossy(&output.stderr);
                panic!("it ended ({status}) before the kill number {}: {stderr}", moments.len() + 1);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        child.kill().unwrap();
        assert!(child.wait().unwrap().code().is_none(), "it ended before the kill number {}", moments.len() + 1);
        moments.push(room(&cache(&sandbox)));
    }
    outcome(&mut sandbox.command(["run", &url])).expect_code(0);
    let elapsed = start.elapsed();

    let fetched = files_below(&cache(&sandbox).join("files-v1"));
    let right = fetched.iter().any(|(path, _)| same_bytes(path, &model));
    assert!(right, "the file is not there, or is another one: {fetched:#?}");
    let quarters = moments.iter().fold([0; 4], |mut quarters: [u32; 4], bytes| {
        quarters[usize::try_from(bytes * 4 / (GIBIBYTE + (64 << 20))).unwrap().min(3)] += 1;
        quarters
    });
    assert!(quarters.iter().all(|kills| *kills >= 5), "kills in each quarter of the file: {quarters:?}");
    let requests = nginx.requests();
    let ratio = sent(&requests) as f64 / GIBIBYTE as f64;
    let mut sizes: Vec<u64> = requests.iter().filter_map(Logged::asked).collect();
    sizes.sort_unstable();
    println!(
        "{} requests; asked for at the median {}, at most {:?}",
        sizes.len(),
        sizes[sizes.len() / 2],
        sizes.last()
    );
    println!(
        "{N_KILLS} kills ({quarters:?} in the quarters of the file): {ratio:.3} of the file sent in {elapsed:.0?}"
    );
    assert!(ratio < 1.2, "{ratio:.3} of the file was sent");
}

fn same_bytes(one: &std::path::Path, other: &std::path::Path) -> bool {
    use std::io::Read;
    let (mut one, mut other) = (std::fs::File::open(one).unwrap(), std::fs::File::open(other).unwrap());
    if one.metadata().unwrap().len() != other.metadata().unwrap().len() {
        return false;
    }
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let n_bytes = one.read(&mut a).unwrap();
        if n_bytes == 0 {
            return true;
        }
        other.read_exact(&mut b[..n_bytes]).unwrap();
        if a[..n_bytes] != b[..n_bytes] {
            return false;
        }
    }
}
