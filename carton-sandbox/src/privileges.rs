//! Capabilities: what a process may do beyond the rights of its user.

use std::io;

use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};

/// Whether this process is root with the right to set up the network. In `/proc`, a program whose user is root could do a part of that without the
/// right, by files of `/proc/self/net` that ask for nothing but the user.
pub(crate) fn administers_network() -> bool {
    let has_right = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
    geteuid().is_root() && has_right
}

/// Gives up all capabilities of this thread for ever, those of root included.
///
/// Programs that are executed later gain none, because Landlock and the filters of [`crate::syscalls`] set `no_new_privs`. The bounding set is
/// emptied beside that, where this user may.
pub(crate) fn drop_all() -> io::Result<()> {
    for bit in 0..64 {
        // Fails for users without privileges, who have no capabilities to bound, and for numbers that no capability has.
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit));
    }
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
