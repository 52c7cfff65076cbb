//! Ctrl-C.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::oneshot;

use super::INTERRUPTED;

/// Sets `flag` at Ctrl-C while `work` goes on. A second Ctrl-C ends the process, as usual.
pub(super) fn set_on_interrupt<T>(flag: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let (done, finished) = oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Without it Ctrl-C ends the process without a word; the runs themselves are none the worse for it.
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async move {
                let mut finished = finished;
                for presses in 0..2 {
                    tokio::select! {
                        biased;
                        _ = &mut finished => return,
                        pressed = tokio::signal::ctrl_c() => if pressed.is_err() { return },
                    }
                    flag.store(true, Ordering::Relaxed);
                    if presses == 1 {
                        std::process::exit(i32::from(INTERRUPTED));
                    }
                }
            });
        });
        let value = work();
        // The listener has ended by itself if it could not listen.
        let _ = done.send(());
        value
    })
}
