//! Worlds on all cores: they share nothing, so as many run at a time as there are cores.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
};

/// Runs `work` on every job from 0 to before `count` and hands the results to `show` in the order of the jobs, each as soon as its turn comes.
/// No further jobs are begun once `stop` is set. A job that panics gives what it panicked with.
pub(super) fn run<R: Send>(
    count: u64,
    cores: usize,
    stop: &AtomicBool,
    work: impl Fn(u64) -> R + Sync,
    mut show: impl FnMut(u64, Result<R, String>),
) {
    let next = AtomicU64::new(0);
    let (sender, results) = mpsc::channel();
    let sender = Mutex::new(sender);
    std::thread::scope(|scope| {
        let workers = usize::try_from(count).map_or(cores, |count| cores.min(count)).max(1);
        for _ in 0..workers {
            let (next, work) = (&next, &work);
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
            scope.spawn(move || {
                let step = |next: u64| (next < count).then_some(next + 1);
                while !stop.load(Ordering::Relaxed) {
                    let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
                    let Ok(index) = taken else { break };
                    let result =
                        catch_unwind(AssertUnwindSafe(|| work(index))).map_err(|panic| said(&*panic));
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut turn = 0_u64;
        for (index, result) in results {
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&turn) {
                show(turn, result);
                turn += 1;
            }
        }
        // After a stop some turns never come.
        for (index, result) in waiting {
            show(index, result);
        }
    });
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_a_panic_is_one_of_them() {
        let mut shown = Vec::new();
        run(
            50,
            4,
            &AtomicBool::new(false),
            |job| {
                assert_ne!(job, 7, "seven");
                job * 2
            },
            |job, result| shown.push((job, result)),
        );
        assert_eq!(shown.iter().map(|(job, _)| *job).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
        assert!(shown.iter().all(|(job, result)| match result {
            Ok(double) => *double == job * 2,
            Err(said) => *job == 7 && said.contains("seven"),
        }));
    }

    #[test]
    fn a_stop_ends_it_early() {
        let stop = AtomicBool::new(false);
        let mut shown = 0;
        run(
            u64::MAX,
            2,
            &stop,
            |job| {
                if job == 10 {
                    stop.store(true, Ordering::Relaxed)
                }
            },
            |_, _| shown += 1,
        );
        assert!((11..100_000).contains(&shown), "{shown}");
    }
}
