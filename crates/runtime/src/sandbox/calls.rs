//! The system calls refused to children, by seccomp.
//!
//! Landlock guards files; this filter guards the kernel. Refused are calls that inspect other processes, load code into
//! the kernel, mount, or change how other processes run. Ways around Landlock and the filter itself (io_uring) are
//! refused, too. A refused call returns `EPERM`, as if the user lacked the right. A program of another architecture (32
//! bits on 64) is killed at its first system call, because the numbers mean other things there.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use super::NetworkAccess;

const PERMISSION_DENIED: u32 = libc::EPERM as u32;
const NO_SUCH_CALL: u32 = libc::ENOSYS as u32;

/// The calls refused with any arguments.
pub(super) const REFUSED: &[c_long] = &[
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Memory, semaphores and messages that all programs of a user share by number or name, where Landlock does not
    // look.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Loading code into the kernel, and the tools of attacks on it.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    // The kernel does the work of these calls, where this filter does not look.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Keys of the user's session.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Calls that lead to another tree of files, or to a file without a path.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
];

/// The calls allowed on the caller only, with the argument values for the caller.
///
/// On another process these calls can end the process (a file size of 0), starve it or slow it down for good. For most
/// calls the kernel only checks for the same user, even in a Landlock domain.
const ON_ITSELF: &[(c_long, &[(u8, u64)])] = &[
    (libc::SYS_prlimit64, &[(0, 0)]),
    (libc::SYS_sched_setaffinity, &[(0, 0)]),
    (libc::SYS_sched_setattr, &[(0, 0)]),
    (libc::SYS_sched_setparam, &[(0, 0)]),
    (libc::SYS_sched_setscheduler, &[(0, 0)]),
    (libc::SYS_migrate_pages, &[(0, 0)]),
    (libc::SYS_move_pages, &[(0, 0)]),
    (libc::SYS_setpriority, &[(0, libc::PRIO_PROCESS as u64), (1, 0)]),
    (libc::SYS_ioprio_set, &[(0, IO_PRIORITY_OF_PROCESS), (1, 0)]),
];

/// `IOPRIO_WHO_PROCESS` of `linux/ioprio.h`.
const IO_PRIORITY_OF_PROCESS: u64 = 1;

/// The resource whose limit is a child's tag (`process_tag`).
// The kernel keeps this limit and passes it on to children, and nothing uses it. Seccomp keeps children from changing
// it (decision 0027).
const MARK: u64 = libc::RLIMIT_LOCKS as u64;

/// Refuses the calls above to the calling thread and all of the thread's processes, and sockets, too, if `network` is
/// denied.
///
/// `no_new_privs` is set, so no program with more rights can be started to get around the filter.
pub(super) fn refuse(network: NetworkAccess) -> Result<(), String> {
    let programs = programs(network).map_err(|error| error.to_string())?;
    programs.iter().try_for_each(|program| apply_filter(program)).map_err(|error| error.to_string())
}

/// Returns a filter program for each error of the kernel.
fn programs(network: NetworkAccess) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    refused.extend([
        (libc::SYS_kexec_file_load, Vec::new()),
        (libc::SYS_iopl, Vec::new()),
        (libc::SYS_ioperm, Vec::new()),
    ]);
    if network == NetworkAccess::Denied {
        // Every kind, UNIX sockets included: a service of a container or a session behind one may reach further.
        refused.insert(libc::SYS_socket, Vec::new());
        refused.insert(libc::SYS_socketpair, pairs_that_lead_elsewhere()?);
    }
    for (call, own) in ON_ITSELF {
        refused.insert(*call, unless(own)?);
    }
    let (new_user, to_parent) = (flag(libc::CLONE_NEWUSER)?, flag(libc::CLONE_PARENT)?);
    refused.insert(libc::SYS_unshare, vec![new_user.clone()]);
    refused.insert(libc::SYS_clone, vec![new_user, to_parent]);
    // No process may change its tag.
    let mark = equal(0, MARK)?;
    refused.insert(libc::SYS_setrlimit, vec![SeccompRule::new(vec![mark])?]);
    // `prlimit64` without a new limit (argument 2 is null) only reads, which stays allowed.
    let changes = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let of_mark = SeccompRule::new(vec![equal(1, MARK)?, changes])?;
    refused.entry(libc::SYS_prlimit64).or_default().push(of_mark);
    // The flags of `clone3` are behind a pointer, where a filter cannot look. Callers use `clone` if `clone3` is
    // missing.
    let missing = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let mut programs = Vec::new();
    for (calls, answer) in [(refused, PERMISSION_DENIED), (missing, NO_SUCH_CALL)] {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(answer), arch)?;
        programs.push(filter.try_into()?);
    }
    if cfg!(target_arch = "x86_64") {
        programs.push(second_numbers().to_vec());
    }
    Ok(programs)
}

/// Returns rules that match as soon as any argument has another value. The arguments are numbers of 32 bits.
fn unless(own: &[(u8, u64)]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    own.iter().map(|(argument, value)| SeccompRule::new(vec![unequal(*argument, *value)?])).collect()
}

/// Returns a condition for another value in a 32-bit argument.
fn unequal(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

/// Returns a rule for calls with `flag` in the first argument.
///
/// `CLONE_NEWUSER`: in a user namespace of its own a process has every capability, and so most of the refused rights.
/// `CLONE_PARENT`: the runtime would get an unknown child.
fn flag(flag: libc::c_int) -> Result<SeccompRule, seccompiler::BackendError> {
    let flag = u64::from(flag.unsigned_abs());
    let set = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
    SeccompRule::new(vec![set])
}

/// Returns a condition on an argument of 32 bits.
fn equal(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// Returns rules for all socket pairs but UNIX streams and sequenced packets. A datagram socket can send to any path.
fn pairs_that_lead_elsewhere() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    /// The kind's bits of the second argument; other bits hold flags.
    const KIND: u64 = 0xf;
    let within = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(|kind| u64::from(kind.unsigned_abs()));
    let mut rules = unless(&[(0, u64::from(libc::AF_UNIX.unsigned_abs()))])?;
    for kind in (0..=KIND).filter(|kind| !within.contains(kind)) {
        let is = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(KIND), kind)?;
        rules.push(SeccompRule::new(vec![is])?);
    }
    Ok(rules)
}

/// Returns a filter for the second numbers of calls on x86-64 (x32), which the other filters let pass. The filter
/// reports all of these calls as missing.
fn second_numbers() -> [sock_filter; 4] {
    const LOAD: u16 = 0x20;
    const IS_AT_LEAST: u16 = 0x35;
    const ANSWER: u16 = 0x06;
    const FIRST: u32 = 0x4000_0000;
    [
        // The call's number is the first word of a filter's input.
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: IS_AT_LEAST, jt: 0, jf: 1, k: FIRST },
        sock_filter { code: ANSWER, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | NO_SUCH_CALL },
        sock_filter { code: ANSWER, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}
