//! When each step is taken: at a moment, or once something is true.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::Network;
use tokio::sync::oneshot;
use wire::Instant;

use crate::{
    scenario::{condition::Condition, step::Trigger},
    trace::view::View,
};

/// What is known of the hosts now, and who waits for it to change.
#[derive(Clone, Default)]
pub(super) struct Now(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    view: View,
    waiting: Vec<(Condition, oneshot::Sender<()>)>,
}

impl Now {
    /// Follows a world's facts from now on.
    pub(super) fn follow(net: &Network) -> Self {
        let now = Self::default();
        let following = now.clone();
        // Conditions are asked at each fact, so that none is missed that holds but for an instant.
        net.observe(move |at, entry| {
            let mut known = following.known();
            if known.view.apply(at, entry).is_some() {
                known.wake();
            }
        });
        now
    }

    /// Waits until a condition holds; returns at once if it does.
    pub(super) async fn until(&self, condition: &Condition) {
        let (sender, receiver) = oneshot::channel();
        {
            let mut known = self.known();
            if condition.holds(&known.view) {
                return;
            }
            known.waiting.push((condition.clone(), sender));
        }
        if receiver.await.is_err() {
            // The facts are at their end: it will never hold.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for a step's moment.
    pub(super) async fn reach(&self, trigger: &Trigger, zero: Instant, net: &Network) {
        let wait = match trigger {
            Trigger::At(at) => (zero + *at).since(net.now()),
            Trigger::When { condition, after } => {
                self.until(condition).await;
                *after
            }
        };
        if wait > Duration::ZERO {
            tokio::time::sleep(wait).await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn wake(&mut self) {
        let (held, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(condition, _)| condition.holds(&self.view));
        self.waiting = waiting;
        let held: Vec<(Condition, oneshot::Sender<()>)> = held;
        for (_, waiter) in held {
            // Whoever waited may have been dropped since.
            let _ = waiter.send(());
        }
    }
}
