//! How long to wait: after errors, and while Ironic works.

use std::time::Duration;

/// The last error count that still lengthens the wait (upstream `maxBackOffCount`, since 2021-01).
const MOST: u32 = 9;

/// How often to look at a host that is well.
pub(crate) const STEADY: Duration = Duration::from_secs(60);
/// How long to wait for a Secret that does not exist.
pub(crate) const SECRET_MISSING: Duration = Duration::from_secs(10);
/// How long to wait for an Ironic that cannot work.
pub(crate) const IRONIC_NOT_READY: Duration = Duration::from_secs(30);
/// How often to look at a host that is not managed, or is detached.
pub(crate) const UNATTENDED: Duration = Duration::from_secs(600);
/// How long Ironic needs for a short step.
pub(crate) const SHORT: Duration = Duration::from_secs(3);
/// How long to leave Ironic alone during long work.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// The wait after `errors` failures in a row: between half of 2^errors minutes, exclusively, and all of it.
/// `jitter` is in `[0, 1)`.
pub(crate) fn after_errors(errors: u32, jitter: f64) -> Duration {
    let base = Duration::from_secs(60 << errors.min(MOST));
    base - base.mul_f64(jitter / 2.0)
}

/// A wait for Ironic, lengthened by up to a quarter so that hosts do not all ask at once.
pub(crate) fn spread(wait: Duration, jitter: f64) -> Duration {
    wait + wait.mul_f64(jitter / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_with_each_error_up_to_the_ninth() {
        // errors, longest wait in minutes
        for (errors, longest) in
            [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (8, 256), (9, 512), (10, 512), (u32::MAX, 512)]
        {
            let longest = Duration::from_secs(longest * 60);
            assert_eq!(after_errors(errors, 0.0), longest, "{errors}");
            let shortest = after_errors(errors, 0.999_999);
            assert!(
                shortest > longest / 2 && shortest < longest / 2 + Duration::from_secs(1),
                "{errors}: {shortest:?}"
            );
        }
    }

    #[test]
    fn waits_for_ironic_are_spread_by_a_quarter() {
        assert_eq!(spread(LONG, 0.0), LONG);
        assert_eq!(spread(LONG, 0.5), Duration::from_millis(11_250));
    }
}
