//! Decides when a file's identity may be recorded: the problem of racy timestamps.
//!
//! A file that changes twice within one tick of its file system's clock has the same times after both changes. So an identity proves that
//! the bytes are those that were hashed only if the hashing began after the tick of the file's last change: every later change then gets
//! a later time. Local file systems take their times from the kernel's coarse clock, which this module reads. Others (network, FUSE, FAT)
//! have their own clocks and ticks, and get a margin of two seconds.

use std::fs::File;
use std::time::Duration;

use carton_format::source::FileIdentity;

const OTHER_CLOCK_MARGIN_SECONDS: i64 = 2;
/// An upper bound for a tick of the kernel's clock (10 ms at 100 Hz).
const LONGEST_TICK: Duration = Duration::from_millis(12);

/// The start of a verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    seconds: i64,
    nanoseconds: u32,
    kernel_clock: bool,
}

impl Moment {
    /// The present time, as the file system that holds `file` sees it.
    pub(crate) fn now(file: &File) -> Moment {
        let (seconds, nanoseconds) = coarse_clock();
        Moment { seconds, nanoseconds, kernel_clock: uses_kernel_clock(file) }
    }

    /// The present time. If the file changed within the current tick, first waits for the next one. The wait of a few milliseconds pays
    /// before hashing a large file, which then needs to be hashed only once.
    pub(crate) fn after_tick_of(file: &File, identity: &FileIdentity) -> Moment {
        let moment = Moment::now(file);
        if moment.kernel_clock && !moment.is_after(identity) {
            std::thread::sleep(LONGEST_TICK);
            return Moment::now(file);
        }
        moment
    }

    /// Whether every change after this moment would alter the identity's times.
    pub(crate) fn is_after(&self, identity: &FileIdentity) -> bool {
        let last_change = identity.modified.max(identity.changed);
        if self.kernel_clock {
            (self.seconds, self.nanoseconds) > last_change
        } else {
            (self.seconds.saturating_sub(OTHER_CLOCK_MARGIN_SECONDS), self.nanoseconds) > last_change
        }
    }
}

#[cfg(target_os = "linux")]
fn coarse_clock() -> (i64, u32) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Without a coarse clock to read, returns the time one tick ago.
#[cfg(not(target_os = "linux"))]
fn coarse_clock() -> (i64, u32) {
    let now = std::time::SystemTime::now().checked_sub(LONGEST_TICK).unwrap_or(std::time::UNIX_EPOCH);
    match now.duration_since(std::time::UNIX_EPOCH) {
        Ok(now) => (i64::try_from(now.as_secs()).unwrap_or(0), now.subsec_nanos()),
        Err(_) => (0, 0),
    }
}

#[cfg(target_os = "linux")]
fn uses_kernel_clock(file: &File) -> bool {
    // ext2 to ext4, XFS, btrfs, tmpfs, overlayfs, F2FS, ZFS, bcachefs: <linux/magic.h> and the file systems' own headers.
    const LOCAL: [u32; 8] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E];
    match rustix::fs::fstatfs(file) {
        // The field's width and sign differ between architectures; the magic numbers have 32 bits.
        Ok(found) => LOCAL.contains(&(found.f_type as u32)),
        Err(_) => false,
    }
}

#[cfg(not(target_os = "linux"))]
fn uses_kernel_clock(_file: &File) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(changed: (i64, u32)) -> FileIdentity {
        FileIdentity { device: 1, inode: 2, size: 3, modified: (5, 0), changed }
    }

    #[test]
    fn only_changes_before_the_tick_are_proven() {
        let check = |moment: (i64, u32), kernel_clock, changed, expected| {
            let moment = Moment { seconds: moment.0, nanoseconds: moment.1, kernel_clock };
            assert_eq!(moment.is_after(&identity(changed)), expected, "{moment:?} {changed:?}");
        };
        check((10, 500), true, (10, 499), true);
        check((10, 500), true, (10, 500), false);
        check((10, 500), true, (10, 501), false);
        check((10, 500), true, (11, 0), false);
        check((10, 500), true, (9, 999_999_999), true);
        check((10, 500), false, (9, 0), false);
        check((10, 500), false, (8, 500), false);
        check((10, 500), false, (8, 499), true);
        // The modification time can also lie in the future: `touch -d` sets it so.
        check((4, 0), true, (3, 0), false);
    }
}
