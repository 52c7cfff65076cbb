//! Entropy and clocks for code that asks the system behind our back.
//!
//! Dependencies draw hash seeds by `getrandom` and read time by `clock_gettime`. This module defines these libc
//! symbols: on a thread where a world runs they answer from the world's seed and clock, on any other thread they ask
//! the system. It is the one place of the project with `unsafe` code. (The technique is that of the crate
//! mad-turmoil, made per thread.)

#![expect(unsafe_code, reason = "libc symbols can only be defined, and buffers of C filled, with unsafe")]
#![expect(unreachable_pub, reason = "the symbols are reached by the linker")]

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_long, c_uint, c_void},
    sync::OnceLock,
    time::Duration,
};

use rand::Rng as _;
use wire::{Dice, Seed};

thread_local! {
    static ENTROPY: RefCell<Option<Dice>> = const { RefCell::new(None) };
    static NOW: Cell<Option<(Duration, Duration)>> = const { Cell::new(None) };
}

/// Makes this thread a world's: from now on it sees the world's entropy and clock. `date` is the calendar time at
/// which the world begins, since the Unix epoch.
pub(crate) fn begin(seed: Seed, date: Duration) {
    ENTROPY.set(Some(seed.stream("", "entropy")));
    NOW.set(Some((Duration::ZERO, date)));
}

/// Moves this thread's clock.
pub(crate) fn set_now(now: Duration) {
    if let Some((_, date)) = NOW.get() {
        NOW.set(Some((now, date)));
    }
}

/// Gives this thread back to the system.
pub(crate) fn end() {
    ENTROPY.set(None);
    NOW.set(None);
}

/// Fills from the world's entropy; false on a thread without a world.
fn fill(buffer: &mut [u8]) -> bool {
    // A thread that is being torn down has no world any more.
    ENTROPY
        .try_with(|entropy| match entropy.try_borrow_mut().as_deref_mut() {
            Ok(Some(dice)) => {
                dice.fill_bytes(buffer);
                true
            }
            Ok(None) | Err(_) => false,
        })
        .unwrap_or(false)
}

/// Entropy, as getrandom(2).
///
/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    if !buffer.is_null() && length > 0 {
        // SAFETY: the caller promises that the buffer holds `length` writable bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        if fill(bytes) {
            return isize::try_from(length).unwrap_or(isize::MAX);
        }
    }
    // SAFETY: the arguments are handed on as they came.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
    isize::try_from(got).unwrap_or(-1)
}

/// Entropy, as getentropy(3).
///
/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(buffer: *mut c_void, length: usize) -> c_int {
    // SAFETY: as promised by our caller.
    let got = unsafe { getrandom(buffer, length, 0) };
    if usize::try_from(got) == Ok(length) { 0 } else { -1 }
}

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

/// The system's own function, which reads the clock without entering the kernel.
fn system_clock() -> Option<ClockGettime> {
    static FOUND: OnceLock<Option<ClockGettime>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the name is a C string; the symbol, if found, has this type by POSIX.
        unsafe {
            let symbol = libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr());
            (!symbol.is_null()).then(|| std::mem::transmute::<*mut c_void, ClockGettime>(symbol))
        }
    })
}

/// A clock, as clock_gettime(2).
///
/// # Safety
/// `time` must be valid for writes of a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let world = NOW.try_with(Cell::get).ok().flatten();
    if let Some((now, date)) = world
        && !time.is_null()
    {
        let shown = match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => date + now,
            // Not zero, so that code may subtract from an early instant.
            _ => Duration::from_secs(86_400) + now,
        };
        let seconds = libc::time_t::try_from(shown.as_secs()).unwrap_or(libc::time_t::MAX);
        // SAFETY: the caller promises that `time` may be written.
        unsafe {
            *time =
                libc::timespec { tv_sec: seconds, tv_nsec: c_long::from(shown.subsec_nanos().cast_signed()) }
        };
        return 0;
    }
    match system_clock() {
        // SAFETY: the arguments are handed on as they came.
        Some(system) => unsafe { system(clock, time) },
        // SAFETY: the arguments are handed on as they came.
        None => unsafe { c_int::try_from(libc::syscall(libc::SYS_clock_gettime, clock, time)).unwrap_or(-1) },
    }
}
