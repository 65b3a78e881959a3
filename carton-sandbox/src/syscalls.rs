//! seccomp: the system calls that are refused (spec/sandbox.md, "System calls").
//!
//! A list of what is refused, not of what is allowed: the calls that frameworks make differ between versions of libraries and drivers, and a
//! list of them would break a model with each update. Two rules close what such a list leaves open. Calls with numbers above the ones known
//! here do not exist for a confined process, and files are governed by Landlock, which lists what is allowed.

use std::collections::BTreeMap;

use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SOCK_SEQPACKET, SOCK_STREAM, c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use crate::Policy;
use crate::files::Enforced;

/// An error of making or installing the filters.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("this processor is not supported")]
    Architecture(#[source] seccompiler::BackendError),
    #[error("a filter of system calls is invalid")]
    Invalid(#[source] seccompiler::BackendError),
    #[error("a filter of system calls cannot be installed")]
    Install(#[source] seccompiler::Error),
}

impl FilterError {
    /// Whether the kernel has no filters at all.
    pub(crate) fn is_missing(&self) -> bool {
        use seccompiler::Error::{Prctl, Seccomp};
        match self {
            Self::Install(Prctl(error) | Seccomp(error)) => {
                matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
            }
            _ => false,
        }
    }
}

/// The last system call whose meaning is known here (`file_setattr`, Linux 6.17). The numbers of newer ones are the same on all processors.
const LAST_KNOWN: c_long = 469;

/// Refused whatever the arguments, as if the user had no right to it.
const REFUSED_CALLS: &[(c_long, &str)] = &[
    // Other processes.
    (libc::SYS_ptrace, "reads and changes other processes"),
    (libc::SYS_process_vm_readv, "reads the memory of other processes"),
    (libc::SYS_process_vm_writev, "writes the memory of other processes"),
    (libc::SYS_process_madvise, "changes the memory of other processes"),
    (libc::SYS_process_mrelease, "changes the memory of other processes"),
    (libc::SYS_pidfd_getfd, "takes descriptors of other processes"),
    (libc::SYS_kcmp, "compares resources of other processes"),
    (libc::SYS_move_pages, "moves the memory of other processes"),
    (libc::SYS_migrate_pages, "moves the memory of other processes"),
    (libc::SYS_setpriority, "slows other processes down"),
    (libc::SYS_ioprio_set, "slows other processes down"),
    // What the user's processes share, apart from files.
    (libc::SYS_add_key, "uses the user's keyrings"),
    (libc::SYS_request_key, "uses the user's keyrings"),
    (libc::SYS_keyctl, "uses the user's keyrings"),
    (libc::SYS_shmget, "opens shared memory of other processes"),
    (libc::SYS_shmat, "opens shared memory of other processes"),
    (libc::SYS_shmctl, "changes shared memory of other processes"),
    (libc::SYS_semget, "opens semaphores of other processes"),
    (libc::SYS_semop, "changes semaphores of other processes"),
    (libc::SYS_semtimedop, "changes semaphores of other processes"),
    (libc::SYS_semctl, "changes semaphores of other processes"),
    (libc::SYS_msgget, "opens message queues of other processes"),
    (libc::SYS_msgsnd, "sends messages to other processes"),
    (libc::SYS_msgrcv, "takes messages of other processes"),
    (libc::SYS_msgctl, "changes message queues of other processes"),
    (libc::SYS_mq_open, "opens message queues of other processes"),
    (libc::SYS_mq_unlink, "deletes message queues of other processes"),
    // Namespaces and mounts, in which rules about paths could mean something else.
    (libc::SYS_unshare, "makes namespaces"),
    (libc::SYS_setns, "enters namespaces of other processes"),
    (libc::SYS_mount, "changes what paths mean"),
    (libc::SYS_umount2, "changes what paths mean"),
    (libc::SYS_pivot_root, "changes what paths mean"),
    (libc::SYS_chroot, "changes what paths mean"),
    (libc::SYS_move_mount, "changes what paths mean"),
    (libc::SYS_open_tree, "changes what paths mean"),
    (libc::SYS_fsopen, "changes what paths mean"),
    (libc::SYS_fsconfig, "changes what paths mean"),
    (libc::SYS_fsmount, "changes what paths mean"),
    (libc::SYS_fspick, "changes what paths mean"),
    (libc::SYS_mount_setattr, "changes what paths mean"),
    (SYS_STATMOUNT, "lists what is mounted"),
    (SYS_LISTMOUNT, "lists what is mounted"),
    (libc::SYS_name_to_handle_at, "names files without paths"),
    (libc::SYS_open_by_handle_at, "opens files without paths"),
    // Observing the user.
    (libc::SYS_inotify_add_watch, "watches files that it must not read"),
    (libc::SYS_inotify_init1, "uses up the user's instances"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_inotify_init, "uses up the user's instances"),
    (libc::SYS_fanotify_init, "watches files that it must not read"),
    (libc::SYS_perf_event_open, "observes other processes and the kernel"),
    (libc::SYS_lookup_dcookie, "observes other processes and the kernel"),
    (libc::SYS_syslog, "reads the kernel's log"),
    // Parts of the kernel with a history of errors, which no framework needs.
    (libc::SYS_bpf, "loads programs into the kernel"),
    (libc::SYS_userfaultfd, "stops the kernel in the middle of its work"),
    (libc::SYS_io_uring_setup, "makes system calls that no filter sees"),
    (libc::SYS_io_uring_enter, "makes system calls that no filter sees"),
    (libc::SYS_io_uring_register, "makes system calls that no filter sees"),
    (libc::SYS_vhangup, "closes the user's terminal"),
    (libc::SYS_fchown, "changes owners of files, also by descriptors of the host"),
    (libc::SYS_fsetxattr, "changes attributes of files, also by descriptors of the host"),
    (libc::SYS_fremovexattr, "changes attributes of files, also by descriptors of the host"),
    (libc::SYS_setxattr, "changes attributes of files that it must not write"),
    (libc::SYS_lsetxattr, "changes attributes of files that it must not write"),
    (libc::SYS_removexattr, "changes attributes of files that it must not write"),
    (libc::SYS_lremovexattr, "changes attributes of files that it must not write"),
    // The machine. Root has no capability for these either.
    (libc::SYS_acct, "changes the machine"),
    (libc::SYS_adjtimex, "changes the machine's time"),
    (libc::SYS_clock_adjtime, "changes the machine's time"),
    (libc::SYS_clock_settime, "changes the machine's time"),
    (libc::SYS_settimeofday, "changes the machine's time"),
    (libc::SYS_delete_module, "changes the kernel"),
    (libc::SYS_finit_module, "changes the kernel"),
    (libc::SYS_init_module, "changes the kernel"),
    (libc::SYS_kexec_load, "changes the kernel"),
    (libc::SYS_reboot, "stops the machine"),
    (libc::SYS_sethostname, "changes the machine"),
    (libc::SYS_setdomainname, "changes the machine"),
    (libc::SYS_swapon, "changes the machine"),
    (libc::SYS_swapoff, "changes the machine"),
    (libc::SYS_quotactl, "changes the machine"),
    (SYS_QUOTACTL_FD, "changes the machine"),
    (SYS_LSM_SET_SELF_ATTR, "changes security labels"),
    (SYS_KEXEC_FILE_LOAD, "changes the kernel"),
    (libc::SYS_nfsservctl, "changes the machine"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_iopl, "uses devices without the kernel"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ioperm, "uses devices without the kernel"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, "has a history of errors in the kernel"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_uselib, "loads libraries by an obsolete call"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ustat, "is obsolete"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_sysfs, "is obsolete"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS__sysctl, "is obsolete"),
];

/// Refused where the processes of the program are not in a namespace that ends with it: leaving the process group, which is killed as a whole.
const OF_GROUPS: &[c_long] = &[libc::SYS_setsid, libc::SYS_setpgid];

/// Calls that frameworks make on their own temporary files, and whose failure they report. Landlock does not govern them, and no filter sees
/// which file a path names. They do nothing, and return as if they had.
const WITHOUT_EFFECT: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    SYS_FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Calls that do nothing if they name a process or a thread by its number, and return as if they had. Landlock does not govern them, and no
/// filter sees whose number it is: frameworks name their own threads.
const WITHOUT_EFFECT_ON_OTHERS: &[c_long] =
    &[libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_setparam, libc::SYS_sched_setscheduler];

/// Calls that programs replace by older ones if the kernel does not have them. The arguments of `clone3` are in memory, where no filter
/// sees them.
const NOT_THERE: &[c_long] = &[
    libc::SYS_clone3,
    SYS_OPEN_TREE_ATTR,
    SYS_SETXATTRAT,
    SYS_GETXATTRAT,
    SYS_LISTXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
];

/// Calls that read attributes of files which the process must not read. They answer as file systems without attributes do.
const NOT_SUPPORTED: &[c_long] = &[libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_listxattr, libc::SYS_llistxattr];

/// The types of `ioctl` (bits 8 to 15) that change flags of files, or work on whole file systems, also by descriptors that can only read.
/// Landlock governs `ioctl` on devices alone. They answer as files without them do, so that programs that try to clone a file copy it.
const FILE_IOCTLS: [u64; 4] = [0x66, 0x58, 0x76, 0x94];

// Not in the crate `libc` yet. The numbers of calls since Linux 5.1 are the same on all processors.
const SYS_QUOTACTL_FD: c_long = 443;
const SYS_FCHMODAT2: c_long = 452;
const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;
const SYS_LSM_SET_SELF_ATTR: c_long = 460;
const SYS_SETXATTRAT: c_long = 463;
const SYS_GETXATTRAT: c_long = 464;
const SYS_LISTXATTRAT: c_long = 465;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_FILE_SETATTR: c_long = 469;
// Older than that, and missing for some C libraries.
#[cfg(target_arch = "x86_64")]
const SYS_KEXEC_FILE_LOAD: c_long = 320;
#[cfg(not(target_arch = "x86_64"))]
const SYS_KEXEC_FILE_LOAD: c_long = 294;

/// Commands of `fcntl` by which a process learns that, or delays when, others open a file.
const LEASES: [c_int; 2] = [libc::F_SETLEASE, libc::F_NOTIFY];

/// All flags with which `clone` makes namespaces.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32 as u64;

/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u64 = 0xf;

/// The filters of a policy. A call is refused if one of them refuses it.
pub(crate) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// The filters for what the rules about files do not enforce. `has_namespaces` says whether the program's processes have namespaces of
    /// their own.
    pub(crate) fn new(policy: &Policy, enforced: &Enforced, has_namespaces: bool) -> Result<Self, FilterError> {
        let errno = |errno: c_int| SeccompAction::Errno(errno.unsigned_abs());
        let mut refused: Rules = REFUSED_CALLS.iter().map(|&(call, _)| (call, Vec::new())).collect();
        if !enforced.governs_truncating {
            refused.insert(libc::SYS_truncate, Vec::new());
        }
        if !has_namespaces {
            refused.extend(OF_GROUPS.iter().map(|&call| (call, Vec::new())));
        }
        let sockets = match (has_namespaces, policy.network) {
            (true, false) => Sockets::OfOwnNetwork,
            (true, true) if enforced.governs_abstract_sockets => Sockets::OfOwnNetwork,
            (_, true) => Sockets::OfInternet,
            (false, false) if policy.gpus => Sockets::PairsAndBound,
            (false, false) => Sockets::Pairs,
        };
        add_conditional(&mut refused, sockets).map_err(FilterError::Invalid)?;
        let not_supported = NOT_SUPPORTED.iter().map(|&call| (call, Vec::new())).collect();
        let file_ioctls = Rules::from([(libc::SYS_ioctl, file_ioctls().map_err(FilterError::Invalid)?)]);
        let mut without_effect: Rules = WITHOUT_EFFECT.iter().map(|&call| (call, Vec::new())).collect();
        for &call in WITHOUT_EFFECT_ON_OTHERS {
            let is_other = condition(0, SeccompCmpOp::Ne, 0).map_err(FilterError::Invalid)?;
            let rule = SeccompRule::new(vec![is_other]).map_err(FilterError::Invalid)?;
            without_effect.insert(call, vec![rule]);
        }
        let not_there = NOT_THERE.iter().map(|&call| (call, Vec::new())).collect();
        Ok(Self(vec![
            unknown_calls(),
            compile(not_there, errno(libc::ENOSYS))?,
            compile(without_effect, errno(0))?,
            compile(not_supported, errno(libc::ENOTSUP))?,
            compile(file_ioctls, errno(libc::ENOTTY))?,
            compile(refused, errno(libc::EPERM))?,
        ]))
    }

    /// Confines the calling thread, which must be the only one, and all that it starts, for ever. Sets `no_new_privs`. Returns `false` if the
    /// kernel has no filters.
    pub(crate) fn confine(&self) -> Result<bool, FilterError> {
        for (position, filter) in self.0.iter().enumerate() {
            match seccompiler::apply_filter(filter).map_err(FilterError::Install) {
                Ok(()) => {}
                // Half of the filters is no reason to go on.
                Err(error) if position == 0 && error.is_missing() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Which sockets a program may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sockets {
    /// Pairs of connected streams and sequences alone.
    Pairs,
    /// These, and `AF_UNIX` sockets of the kind `SOCK_SEQPACKET` that can bind and listen, but neither connect nor accept. NVIDIA's driver finds no
    /// GPU if it cannot bind one.
    PairsAndBound,
    /// Those of the internet, and the one that tells the addresses of this machine. The sockets of other programs on this machine have paths,
    /// or names, in the family `AF_UNIX`.
    OfInternet,
    /// Those of `AF_UNIX` too, because those of other programs are out of reach: they are in another network, and have no path in the program's
    /// root folder.
    OfOwnNetwork,
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Adds the calls that are refused with certain arguments only. A call is refused if one of its rules holds; a rule holds if all of its
/// conditions do.
fn add_conditional(refused: &mut Rules, sockets: Sockets) -> Result<(), seccompiler::BackendError> {
    let is = |argument, value: c_int| condition(argument, SeccompCmpOp::Eq, value as u32 as u64);
    let is_not = |argument, value: c_int| condition(argument, SeccompCmpOp::Ne, value as u32 as u64);
    let is_kind = |value: c_int| condition(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), value as u64);
    let mut refuse = |call: c_long, conditions: Vec<SeccompCondition>| -> Result<(), seccompiler::BackendError> {
        refused.entry(call).or_default().push(SeccompRule::new(conditions)?);
        Ok(())
    };
    // Namespaces.
    for flag in (0..32).map(|bit| 1_u64 << bit).filter(|flag| NEW_NAMESPACES & flag != 0) {
        refuse(libc::SYS_clone, vec![condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])?;
    }
    // The limits of other processes.
    refuse(libc::SYS_prlimit64, vec![is_not(0, 0)?])?;
    // Execution domains, some of which weaken the protection of memory. 0xffffffff asks for the current one.
    refuse(libc::SYS_personality, vec![is_not(0, 0)?, is_not(0, -1)?])?;
    // Input of terminals that the user types in later.
    for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSCTTY] {
        refuse(libc::SYS_ioctl, vec![condition(1, SeccompCmpOp::Eq, u64::from(request as u32))?])?;
    }
    for command in LEASES {
        refuse(libc::SYS_fcntl, vec![is(1, command)?])?;
    }
    refuse(libc::SYS_socketpair, vec![is_not(0, AF_UNIX)?])?;
    // Of AF_NETLINK the protocol 0 alone, routes.
    refuse(libc::SYS_socket, vec![is(0, AF_NETLINK)?, is_not(2, libc::NETLINK_ROUTE)?])?;
    // Of the protocols of the internet TCP and UDP. Others have a history of errors in the kernel, or would be loaded.
    for family in [AF_INET, AF_INET6] {
        let others = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP].map(|protocol| is_not(2, protocol));
        let others = others.into_iter().collect::<Result<Vec<_>, _>>()?;
        refuse(libc::SYS_socket, [vec![is(0, family)?], others].concat())?;
    }
    let no_family = vec![is_not(0, AF_INET)?, is_not(0, AF_INET6)?, is_not(0, AF_NETLINK)?];
    if sockets == Sockets::OfOwnNetwork {
        return refuse(libc::SYS_socket, [no_family, vec![is_not(0, AF_UNIX)?]].concat());
    }
    // A datagram socket of a pair could send to any other socket.
    for kind in (0..=SOCKET_TYPE as c_int).filter(|&kind| kind != SOCK_STREAM && kind != SOCK_SEQPACKET) {
        refuse(libc::SYS_socketpair, vec![is_kind(kind)?])?;
    }
    if sockets == Sockets::OfInternet {
        return refuse(libc::SYS_socket, no_family);
    }
    let mut always_refused = vec![libc::SYS_connect, libc::SYS_accept, libc::SYS_accept4];
    if sockets == Sockets::PairsAndBound {
        refuse(libc::SYS_socket, vec![is_not(0, AF_UNIX)?])?;
        for kind in (0..=SOCKET_TYPE as c_int).filter(|&kind| kind != SOCK_SEQPACKET) {
            refuse(libc::SYS_socket, vec![is_kind(kind)?])?;
        }
    } else {
        always_refused.extend([libc::SYS_socket, libc::SYS_bind, libc::SYS_listen]);
    }
    for call in always_refused {
        refuse(call, vec![condition(0, SeccompCmpOp::Ge, 0)?])?;
    }
    // An address is given. Pairs are connected, and sockets of the other kind send nothing without a connection; this is for sockets that a host
    // passes.
    let some_address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    refuse(libc::SYS_sendto, vec![some_address])?;
    Ok(())
}

fn file_ioctls() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let of_type = |kind: u64| SeccompRule::new(vec![condition(1, SeccompCmpOp::MaskedEq(0xff00), kind << 8)?]);
    FILE_IOCTLS.into_iter().map(of_type).collect()
}

/// A condition on the lower 32 bits of an argument, which are all that the kernel reads of these.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// A filter that answers the calls of `rules` by `action`, and kills processes that call in the way of another processor (32-bit code).
fn compile(rules: Rules, action: SeccompAction) -> Result<BpfProgram, FilterError> {
    let architecture = std::env::consts::ARCH.try_into().map_err(FilterError::Architecture)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).map_err(FilterError::Invalid)?;
    filter.try_into().map_err(FilterError::Invalid)
}

/// A filter for which calls above [`LAST_KNOWN`] do not exist. Among them are the calls of the ABI x32 of x86-64, whose numbers have the bit
/// 30 set: the kernel may take them for the calls without that bit, which the other filters compare.
fn unknown_calls() -> BpfProgram {
    use libc::{BPF_ABS, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    vec![
        // The number of the call is at the offset 0 of `struct seccomp_data`.
        instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        instruction(BPF_JMP | BPF_JGT | BPF_K, 0, 1, LAST_KNOWN as u32),
        instruction(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        instruction(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
