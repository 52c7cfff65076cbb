//! Worlds on all cores: they share nothing, so as many run at a time as there are cores.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
};

/// Runs `work` on every job and hands the results to `show` in the order of the jobs, each as soon as its turn comes.
/// No further jobs are begun once `stop` is set. A job that panics gives what it panicked with.
pub(super) fn run<J: Sync, R: Send>(
    jobs: &[J],
    cores: usize,
    stop: &AtomicBool,
    work: impl Fn(&J) -> R + Sync,
    mut show: impl FnMut(&J, Result<R, String>),
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    let sender = Mutex::new(sender);
    std::thread::scope(|scope| {
        for _ in 0..cores.clamp(1, jobs.len().max(1)) {
            let (next, work) = (&next, &work);
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let result = catch_unwind(AssertUnwindSafe(|| work(job))).map_err(|panic| said(&*panic));
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut turn = 0;
        for (index, result) in results {
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&turn) {
                show(&jobs[turn], result);
                turn += 1;
            }
        }
        // After a stop some turns never come.
        for (index, result) in waiting {
            show(&jobs[index], result);
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
        let jobs: Vec<u64> = (0..50).collect();
        let mut shown = Vec::new();
        run(
            &jobs,
            4,
            &AtomicBool::new(false),
            |job| {
                assert_ne!(*job, 7, "seven");
                job * 2
            },
            |job, result| shown.push((*job, result)),
        );
        assert_eq!(shown.iter().map(|(job, _)| *job).collect::<Vec<_>>(), jobs);
        assert!(shown.iter().all(|(job, result)| match result {
            Ok(double) => *double == job * 2,
            Err(said) => *job == 7 && said.contains("seven"),
        }));
    }

    #[test]
    fn a_stop_ends_it_early() {
        let jobs: Vec<u64> = (0..1000).collect();
        let stop = AtomicBool::new(false);
        let mut shown = 0;
        run(
            &jobs,
            2,
            &stop,
            |job| {
                if *job == 10 {
                    stop.store(true, Ordering::Relaxed)
                }
            },
            |_, _| shown += 1,
        );
        assert!((11..1000).contains(&shown), "{shown}");
    }
}
